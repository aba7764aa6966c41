#!/usr/bin/env bash
# deb.sh ARCH: writes the package for Debian and its kin. The program is static, so it depends on nothing.
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
Maintainer: The authors of deadheat <authors@deadheat.invalid>
Installed-Size: $(du -sk --apparent-size "$tree/usr" | cut -f 1)
Section: net
Priority: optional
Description: referee for network transports
 Races TCP, UDP, QUIC, KCP, SCTP and more under one workload, one path and one
 statistic, and says who is ahead, that it is a dead heat, or that it cannot
 tell yet.
END
install -m 755 packaging/install/after-install.sh "$tree/DEBIAN/postinst"
install -m 755 packaging/install/before-remove.sh "$tree/DEBIAN/prerm"
install -m 755 packaging/install/after-remove.sh "$tree/DEBIAN/postrm"
dated "$tree"
dpkg-deb --root-owner-group -Zxz -z9 --build "$tree" "$DIST/deadheat_${VERSION}_$name.deb" >&2
