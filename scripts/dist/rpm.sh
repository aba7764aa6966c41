#!/usr/bin/env bash
# rpm.sh ARCH: writes the package for Fedora, openSUSE and their kin.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"
arch=$1

tree=$STAGE/$arch/rpm
scripts/dist/tree.sh "$arch" "$tree"
rm -r "$tree/usr/share/zsh/vendor-completions" "$tree/etc/ufw" "$tree/usr/share/doc/deadheat/copyright"
top=$STAGE/$arch/rpmbuild
rm -rf "$top"
# No time, no name of this host and nothing of its settings is in the package, and the program stays as it is.
rpmbuild -bb --quiet --target "$arch-linux" --define "_topdir $top" --define "version $VERSION" --define "tree $tree" \
  --define "scripts $root/packaging/install" --define "_buildhost localhost" --define "debug_package %{nil}" \
  --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
  --define "__os_install_post %{nil}" --define "_build_id_links none" --define "_binary_payload w9.xzdio" \
  --define "__arch_install_post %{nil}" packaging/deadheat.spec >&2
install -m 644 "$top/RPMS/$arch/deadheat-$VERSION-1.$arch.rpm" "$DIST/"
