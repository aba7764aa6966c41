#!/usr/bin/env bash
# uml.sh [-t SECONDS] [-m MODULE]… [-w DIR] COMMAND…: runs a command in a Linux kernel of its own, in
# user mode, with this machine's files read-only under it; the way to a kernel that has sch_netem where
# this one has not. Its output and status are the command's. 124 where it took longer than SECONDS
# (120), 125 where the kernel could not run it. /run is the command's own, and DIR may be written to;
# nothing else is.
set -euo pipefail

say() { printf 'uml: %s\n' "$*" >&2; }
fail() { say "$*"; exit 125; }

limit=120
modules=(sch_netem sch_tbf veth tun ipv6 sch_fq sch_fq_codel tcp_bbr)
mount_writable=
while getopts t:m:w: option; do
  case $option in
    t) limit=$OPTARG ;;
    m) modules+=("$OPTARG") ;;
    w)
      writable=$(realpath -e -- "$OPTARG") || exit 125
      printf -v mount_writable 'mount -t hostfs -o %q writable %q' "$writable" "$writable"
      ;;
    *) exit 125 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || fail "no command; write uml.sh [-t SECONDS] [-m MODULE]… [-w DIR] COMMAND…"

PATH="$PATH:/usr/sbin:/sbin"
command -v linux.uml >/dev/null || fail "linux.uml is not there; Debian has it as user-mode-linux"

dir=$(mktemp -d "${TMPDIR:-/tmp}/uml.XXXXXX")
kernel=
over() {
  # The kernel is the leader of a session of its own, with every process of it.
  [ -z "$kernel" ] || kill -9 -- "-$kernel" 2>/dev/null || true
  rm -rf "$dir"
}
trap over EXIT
trap 'exit 130' INT TERM
mkdir "$dir/shared"

# Its modules have their place in the package, not in /lib/modules.
cat >"$dir/shared/init" <<INIT
#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir /run/shared /run/netns /run/tmp
mount -t hostfs -o "$dir/shared" shared /run/shared
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
[ -e /dev/net/tun ] || { mkdir -p /dev/net; mknod /dev/net/tun c 10 200; }
export TMPDIR=/run/tmp
$mount_writable
release=\$(uname -r)
load() {
  local path
  path=\$(find "/usr/lib/uml/modules/\$release" -name "\${1//[-_]/[-_]}.ko" | head -n1)
  [ -n "\$path" ] || return 0
  local needs
  for needs in \$(modinfo -F depends "\$path" | tr , ' '); do load "\$needs"; done
  insmod "\$path" 2>/dev/null
}
for module in ${modules[*]}; do load "\$module"; done
ip link set lo up
cd "$PWD"
$(printf '%q ' "$@") >/run/shared/out 2>/run/shared/err </dev/null
echo \$? >/run/shared/status
sync
echo o >/proc/sysrq-trigger
sleep 10
INIT
chmod +x "$dir/shared/init"

setsid linux.uml mem="${UML_MEM:-512M}" rootfstype=hostfs rootflags=/ ro init="$dir/shared/init" \
  uml_dir="$dir" umid=kernel con=null con0=null,fd:1 quiet >"$dir/console" 2>&1 </dev/null &
kernel=$!
for ((tenths = 0; tenths < 10 * limit; tenths++)); do
  kill -0 "$kernel" 2>/dev/null || break
  sleep 0.1
done
if kill -0 "$kernel" 2>/dev/null && [ ! -s "$dir/shared/status" ]; then
  cat "$dir/shared/out" 2>/dev/null || true
  cat "$dir/shared/err" >&2 2>/dev/null || true
  say "stopped after $limit s"
  exit 124
fi
if [ ! -s "$dir/shared/status" ]; then
  cat "$dir/console" >&2
  fail "the kernel ended before the command did; its last words are above"
fi
cat "$dir/shared/out"
cat "$dir/shared/err" >&2
exit "$(cat "$dir/shared/status")"
