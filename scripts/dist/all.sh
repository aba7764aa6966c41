#!/usr/bin/env bash
# all.sh [ARCH…]: builds the static programs (of x86_64 and aarch64 those named, or this host's) and puts all that a release has into
# target/dist, with SHA256SUMS. scripts/need.sh has what it takes. With DIST_PROGRAMS=FOLDER the programs are FOLDER/ARCH/deadheat, built
# by the compiler that FOLDER/rustc.txt names, and none is built.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"
arches=("$@")
[ $# != 0 ] || arches=("$(uname -m)")
# The program that runs here prints the manual of both.
[[ " ${arches[*]} " = *" $(uname -m) "* ]] || fail "this host's own processor, $(uname -m), has to be among those named"

rm -rf "$DIST"
mkdir -p "$DIST" "$STAGE"
export DIST
for arch in "${arches[@]}"; do
  if [ -n "${DIST_PROGRAMS:-}" ]; then
    install -D -m 755 "$DIST_PROGRAMS/$arch/deadheat" "$STAGE/$arch/deadheat"
    install -m 644 "$DIST_PROGRAMS/rustc.txt" "$STAGE/"
  else
    scripts/dist/program.sh "$arch"
  fi
done
/usr/bin/python3 scripts/dist/contents.py
for arch in "${arches[@]}"; do
  scripts/dist/tarball.sh "$arch"
  scripts/dist/deb.sh "$arch"
  scripts/dist/rpm.sh "$arch"
  /usr/bin/python3 scripts/dist/image.py "$arch"
  /usr/bin/python3 scripts/dist/wheel.py "$arch"
done
if [ ${#arches[@]} = 2 ]; then
  formula=$(sed "s/@VERSION@/$VERSION/" packaging/homebrew/deadheat.rb.in)
  for arch in "${arches[@]}"; do
    sum=$(sha256sum "$DIST/deadheat-$VERSION-$(target "$arch").tar.gz" | cut -d ' ' -f 1)
    formula=${formula//@$arch@/$sum}
  done
  echo "$formula" >"$DIST/deadheat.rb"
fi
(cd "$DIST" && sha256sum -- * >"$STAGE/SHA256SUMS" && mv "$STAGE/SHA256SUMS" .)
(cd "$DIST" && stat -c '%s %n' -- * | awk '{ printf "%8.2f MB  %s\n", $1 / 1e6, $2 }')
