# shellcheck shell=bash
# Names and times that all scripts of this folder share; each reads it first. Whatever a package contains has the time of the
# last commit, so that the same sources make the same bytes.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$root" || exit

# Rooms that only these scripts use: tools, programs before they are packed, and the packages.
TOOLS="$root/target/dist-tools"
STAGE="$root/target/dist-stage"
DIST="${DIST:-$root/target/dist}"

VERSION="$(sed -nE '/^\[workspace.package\]/,/^\[/s/^version = "(.*)"/\1/p' Cargo.toml)"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export TOOLS STAGE SOURCE_DATE_EPOCH VERSION
export TZ=UTC LC_ALL=C
umask 022

say() { printf 'dist: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# target ARCH: the target of Rust's compiler.
target() { echo "$1-unknown-linux-musl"; }

# dated FOLDER: gives all files in it the time of the last commit.
dated() { find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +; }

# archive FOLDER FILE: packs the folder by its name, with neither owners nor times of this host.
archive() {
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=ustar \
    -C "$(dirname "$1")" -cf - "$(basename "$1")" | gzip -9 -n >"$2"
}
