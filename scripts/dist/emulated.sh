#!/usr/bin/env bash
# emulated.sh QEMU COMMAND…: runs the command where the kernel starts programs for 64-bit ARM by that emulator. It is told so in the user
# namespace that this script runs in (unshare --user --map-root-user --mount), and in no other: Linux can from 6.7 on.
#
# Source: Documentation/admin-guide/binfmt-misc.rst of Linux.
set -euo pipefail
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
# The 20 bytes by which such a program begins, and the bits of them that count. F: the emulator is opened now, outside of any chroot.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":deadheat:M::$magic:$mask:$1:F" >/proc/sys/fs/binfmt_misc/register
exec "${@:2}"
