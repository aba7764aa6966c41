#!/usr/bin/env bash
# deb.sh ARCH: writes the package for Debian and its kin. The program is static, so it depends on nothing.
#
# Source: deb(5): an archive of ar with three members, of which dpkg since 1.15.6 reads those that xz packed.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"
arch=$1
case $arch in x86_64) name=amd64 ;; aarch64) name=arm64 ;; *) name=$arch ;; esac

tree=$STAGE/$arch/deb
scripts/dist/tree.sh "$arch" "$tree"
# The other systems' folder.
rm -r "$tree/usr/share/zsh/site-functions"
mkdir "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<END
Package: deadheat
Version: $VERSION
Architecture: $name
Maintainer: ${MAINTAINER:-$(git log -1 --format='%cn <%ce>')}
Installed-Size: $(du -sk --apparent-size "$tree/usr" | cut -f 1)
Section: net
Priority: optional
Description: referee for network transports
 Races TCP, UDP, QUIC, KCP, SCTP and more under one workload, one path and one
 statistic, and says who is ahead, that it is a dead heat, or that it cannot
 tell yet.
END
printf '%s\n' /etc/deadheat/serve.env /etc/ufw/applications.d/deadheat >"$tree/DEBIAN/conffiles"
install -m 755 packaging/install/after-install.sh "$tree/DEBIAN/postinst"
install -m 755 packaging/install/before-remove.sh "$tree/DEBIAN/prerm"
install -m 755 packaging/install/after-remove.sh "$tree/DEBIAN/postrm"
dated "$tree"

# As dpkg-deb would, but for one thing: xz turns the distances of x86 calls into addresses first, of which more are the same.
parts=$STAGE/$arch/deb-parts
rm -rf "$parts"
mkdir "$parts"
filters=(--lzma2=preset=9e)
[ "$arch" != x86_64 ] || filters=(--x86 "${filters[@]}")
echo 2.0 >"$parts/debian-binary"
pack() { # pack FOLDER FILE [FILTER…]
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -C "$1" --exclude=./DEBIAN -cf - . \
    | xz --check=crc32 "${@:3}" >"$parts/$2"
}
pack "$tree/DEBIAN" control.tar.xz --lzma2=preset=9
pack "$tree" data.tar.xz "${filters[@]}"
out="$DIST/deadheat_${VERSION}_$name.deb"
rm -f "$out"
(cd "$parts" && ar qcD "$out" debian-binary control.tar.xz data.tar.xz)
dpkg-deb --info "$out" >/dev/null
