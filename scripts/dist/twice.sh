#!/usr/bin/env bash
# twice.sh [--packages] [ARCH…]: makes all packages again in a clone in another folder, and compares them byte by byte with those of
# target/dist. It takes as long as `make dist`; with --packages the programs of that are packed again, in some seconds.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"

[ -e "$DIST/SHA256SUMS" ] || fail "nothing is in $DIST yet: make dist"
programs=
if [ "${1:-}" = --packages ]; then programs=$STAGE && shift; fi
[ -z "$(git status --porcelain --untracked-files=no)" ] || fail "the work tree differs from its last commit, and a clone does not"
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT
git clone --quiet --no-hardlinks "$root" "$other/deadheat"
mkdir -p "$other/deadheat/target"
# The tools are the same, at the same place below the clone, as cargo names packages by it. What they make is made anew.
if [ -z "$programs" ] && [ -d "$TOOLS" ]; then cp -a "$TOOLS" "$other/deadheat/target/dist-tools"; fi
DIST='' DIST_BUILD='' DIST_PROGRAMS=$programs "$other/deadheat/scripts/dist/all.sh" "$@" >/dev/null
diff "$DIST/SHA256SUMS" "$other/deadheat/target/dist/SHA256SUMS" >&2 || fail "the files named above are not the same"
say "${programs:+of the same programs, }both builds are the same, byte by byte"
