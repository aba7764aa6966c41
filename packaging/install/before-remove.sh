#!/bin/sh
# Before the package is removed, which Debian calls `remove` and RPM 0. An update leaves a running service alone.
set -e

case "$1" in
remove | 0) if [ -d /run/systemd/system ]; then systemctl disable --now deadheat.service || true; fi ;;
esac
