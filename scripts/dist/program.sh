#!/usr/bin/env bash
# program.sh ARCH: builds the static program for x86_64 or aarch64, with musl, as target/dist-stage/ARCH/deadheat. Zig compiles the
# little C that there is, and has musl and the linker; the standard library is built from its source. So one way makes the program of both
# processors, and nothing is fetched but packages.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"
arch=${1:?ARCH: x86_64 or aarch64}
target=$(target "$arch")

# The source of the standard library: rustup's component rust-src, and packages of distributions, have it.
rust_source() { echo "$(${RUSTC:-rustc} --print sysroot)/lib/rustlib/src/rust/library"; }

# Debian has a newer compiler, for browsers, and its source. Both are unpacked, not installed: the system stays as it is.
rust_of_debian() {
  local into=$TOOLS/rust
  if [ ! -x "$into/rustc" ]; then
    command -v apt-get >/dev/null || return 1
    say "the source of the standard library is not there: apt-get fetches Debian's compiler and that source into $into"
    mkdir -p "$into/fetched"
    local packages
    packages=$(apt-get install --simulate --no-install-recommends rustc-web rust-web-src | awk '$1 == "Inst" { print $2 }')
    [ -n "$packages" ] || return 1
    # Word splitting is meant: a package a word.
    # shellcheck disable=SC2086
    (cd "$into/fetched" && apt-get download -q $packages >&2) || return 1
    local package
    for package in "$into"/fetched/*.deb; do dpkg-deb --extract "$package" "$into"; done
    rm -r "$into/fetched"
    cat >"$into/rustc" <<'END'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH="$here/usr/lib/$(uname -m)-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/usr/bin/rustc" "$@"
END
    chmod +x "$into/rustc"
  fi
  export RUSTC=$into/rustc
}

[ -d "$(rust_source)" ] || rust_of_debian \
  || fail "no source of Rust's standard library: rustup component add rust-src, or Debian's packages rustc-web and rust-web-src"
say "$arch: builds with $(${RUSTC:-rustc} --version), the standard library from $(rust_source)"
# A build of the standard library is no stable feature of cargo yet. It comes without what reads names for a backtrace: a program
# without names has none to read.
export RUSTC_BOOTSTRAP=1
std=("-Zbuild-std=std,panic_unwind" "-Zbuild-std-features=panic-unwind")

# No path of this host is in the program, so that the same sources make the same bytes in another folder; and paths are short, as each
# place that may panic names one. Where two fit, the last one counts. Crates lie in a folder with the name of their registry, once they
# are fetched.
cargo fetch --locked --quiet --target "$target"
cargo_home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$(${RUSTC:-rustc} --print sysroot)
library=$(rust_source)
registries=("$cargo_home"/registry/src/*)
flags=()
for path in "$cargo_home/registry/src=/crates" "$sysroot=/rust" "$root=/deadheat" \
  "$(readlink -f "$sysroot/lib/rustlib/src/rust")=/rust/source" "$library=/rust" "${library#"$root/"}=/rust" \
  "${registries[@]/%/=/crates}"; do
  flags+=("--remap-path-prefix=$path")
done
# Zig has the files with which a program for musl starts, and links it at fixed addresses, so code need not find out where it lies.
flags+=(-Crelocation-model=static -Clink-self-contained=no)
CARGO_ENCODED_RUSTFLAGS="$(IFS=$'\x1f'; echo "${flags[*]}")"
export CARGO_ENCODED_RUSTFLAGS
export CFLAGS="-ffile-prefix-map=$cargo_home/registry/src=/crates -ffile-prefix-map=$root=/deadheat"
export CARGO_TARGET_DIR=${DIST_BUILD:-$root/target/dist-build} CARGO_INCREMENTAL=0
# Zig keeps what it compiles of musl.
export ZIG_GLOBAL_CACHE_DIR=$CARGO_TARGET_DIR/zig-cache ZIG_LOCAL_CACHE_DIR=$CARGO_TARGET_DIR/zig-cache
export CARGO_ZIGBUILD_CACHE_DIR=$CARGO_TARGET_DIR/zig-cache
zig=$(echo "$TOOLS"/lib/python3*/site-packages/ziglang/zig)
export CARGO_ZIGBUILD_ZIG_PATH=$zig
PATH="$TOOLS/bin:$PATH"
cargo zigbuild "${std[@]}" --locked --profile dist --features all-contenders --bin deadheat --target "$target"

mkdir -p "$STAGE/$arch"
"${RUSTC:-rustc}" --version >"$STAGE/rustc.txt"
install -m 755 "$CARGO_TARGET_DIR/$target/dist/deadheat" "$STAGE/$arch/deadheat"
if file "$STAGE/$arch/deadheat" 2>/dev/null | grep -q interpreter; then fail "$STAGE/$arch/deadheat is not static"; fi
say "$arch: $(stat -c %s "$STAGE/$arch/deadheat") bytes"
