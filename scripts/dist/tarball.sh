#!/usr/bin/env bash
# tarball.sh ARCH: packs the program with its manual, its completions and the licences. action.yml, `cargo binstall` and the
# formula fetch this file by its name.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"
arch=$1

name=deadheat-$VERSION-$(target "$arch")
from=$STAGE/$arch/tarball-tree into=$STAGE/$arch/$name
scripts/dist/tree.sh "$arch" "$from"
rm -rf "$into"
install -D -m 755 "$from/usr/bin/deadheat" "$into/deadheat"
install -D -m 644 -t "$into" "$from"/usr/share/doc/deadheat/{LICENSE-MIT,LICENSE-APACHE,README.md,third-party.txt}
install -D -m 644 -t "$into" "$from"/usr/share/man/man1/deadheat*.1.gz
# No name here ends in the program's but its own: scripts/action/program.sh takes such a one for the program.
install -D -m 644 "$from/usr/share/bash-completion/completions/deadheat" "$into/completions/deadheat.bash"
install -D -m 644 "$from/usr/share/zsh/vendor-completions/_deadheat" "$into/completions/deadheat.zsh"
install -D -m 644 "$from/usr/share/fish/vendor_completions.d/deadheat.fish" "$into/completions/deadheat.fish"
install -D -m 644 packaging/deadheat.service "$into/deadheat.service"
archive "$into" "$DIST/$name.tar.gz"
