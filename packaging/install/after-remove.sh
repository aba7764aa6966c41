#!/bin/sh
# After the package is removed. The secret goes with Debian's `purge` only: it may be in use elsewhere.
set -e

if [ "$1" = purge ]; then rm -rf /etc/deadheat; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
