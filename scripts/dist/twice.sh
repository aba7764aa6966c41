#!/usr/bin/env bash
# twice.sh [ARCH…]: makes all packages again in a clone in another folder, and compares them byte by byte with those of
# target/dist. It takes as long as `make dist`.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"

[ -e "$DIST/SHA256SUMS" ] || fail "nothing is in $DIST yet: make dist"
[ -z "$(git status --porcelain --untracked-files=no)" ] || fail "the work tree differs from its last commit, and a clone does not"
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT
git clone --quiet --no-hardlinks "$root" "$other/deadheat"
mkdir -p "$other/deadheat/target"
# The tools are the same; only what they make is made anew.
ln -s "$TOOLS" "$other/deadheat/target/dist-tools"
DIST='' "$other/deadheat/scripts/dist/all.sh" "$@" >/dev/null
cmp "$DIST/SHA256SUMS" "$other/deadheat/target/dist/SHA256SUMS" && say "both builds are the same, byte by byte"
