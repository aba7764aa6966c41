#!/bin/sh
# After the package is installed, the first time or again: a secret for `deadheat serve` where there is none, and what systemd
# reads. No service is started: systemctl enable --now deadheat does that.
set -e

if [ ! -e /etc/deadheat/secret ] && [ -r /dev/urandom ]; then
  mkdir -p /etc/deadheat
  (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >/etc/deadheat/secret)
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  # All files of that setting are read in their order, so that an administrator's own one decides.
  /usr/lib/systemd/systemd-sysctl --prefix=/net/ipv4/ping_group_range || true
fi
