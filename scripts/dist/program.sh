#!/usr/bin/env bash
# program.sh ARCH: builds the static program for x86_64 or aarch64, with musl, as target/dist-stage/ARCH/deadheat. Zig compiles the
# little C that there is, and links, so that nothing but the standard library depends on the host.
set -euo pipefail
# shellcheck source=scripts/dist/common.sh
. "$(dirname "$0")/common.sh"
arch=${1:?ARCH: x86_64 or aarch64}
target=$(target "$arch")

# The standard library for musl: that of the toolchain, that which rustup adds, or built from its source, which rustup's
# component rust-src and packages of distributions have.
rust_source() { echo "$(${RUSTC:-rustc} --print sysroot)/lib/rustlib/src/rust/library"; }

# Debian has a newer compiler, for browsers, and its source. Both are unpacked, not installed: the system stays as it is.
rust_of_debian() {
  local into=$TOOLS/rust
  if [ ! -x "$into/rustc" ]; then
    command -v apt-get >/dev/null || return 1
    say "the standard library for $target is not there: apt-get fetches Debian's compiler and the library's source into $into"
    mkdir -p "$into/fetched"
    local packages
    packages=$(apt-get install --simulate --no-install-recommends rustc-web rust-web-src | awk '$1 == "Inst" { print $2 }')
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

std=()
# DIST_STD=source builds it, whatever there is.
if [ "${DIST_STD:-}" = source ] || [ ! -e "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
  if [ "${DIST_STD:-}" != source ] && command -v rustup >/dev/null && timeout 120 rustup target add "$target" >&2; then
    say "rustup added the standard library for $target"
  else
    [ -d "$(rust_source)" ] || rust_of_debian || fail "no standard library for $target: rustup target add $target, or rustup component add rust-src"
    say "builds the standard library for $target from its source, $(rust_source)"
    # A build of the standard library is no stable feature of cargo yet.
    export RUSTC_BOOTSTRAP=1
    std=('-Zbuild-std=std,panic_unwind')
  fi
fi

# No path of this host is in the program, so that the same sources make the same bytes in another folder.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$(${RUSTC:-rustc} --print sysroot)
moved=("$cargo_home/registry/src=/crates" "$sysroot=/rust" "$root=/deadheat")
[ ${#std[@]} = 0 ] || moved+=("$(readlink -f "$sysroot/lib/rustlib/src/rust")=/rust/source")
flags=()
for path in "${moved[@]}"; do flags+=("--remap-path-prefix=$path"); done
CARGO_ENCODED_RUSTFLAGS="$(IFS=$'\x1f'; echo "${flags[*]}")"
export CARGO_ENCODED_RUSTFLAGS
export CFLAGS="-ffile-prefix-map=$cargo_home/registry/src=/crates -ffile-prefix-map=$root=/deadheat"
export CARGO_TARGET_DIR=${DIST_BUILD:-$root/target/dist-build} CARGO_INCREMENTAL=0
# Zig keeps what it compiles of musl.
export ZIG_GLOBAL_CACHE_DIR=$TOOLS/zig-cache ZIG_LOCAL_CACHE_DIR=$TOOLS/zig-cache CARGO_ZIGBUILD_CACHE_DIR=$TOOLS/zig-cache
zig=$(echo "$TOOLS"/lib/python3*/site-packages/ziglang/zig)
export CARGO_ZIGBUILD_ZIG_PATH=$zig
PATH="$TOOLS/bin:$PATH"
cargo zigbuild ${std[@]+"${std[@]}"} --locked --profile dist --bin deadheat --target "$target"

mkdir -p "$STAGE/$arch"
install -m 755 "$CARGO_TARGET_DIR/$target/dist/deadheat" "$STAGE/$arch/deadheat"
if file "$STAGE/$arch/deadheat" 2>/dev/null | grep -q interpreter; then fail "$STAGE/$arch/deadheat is not static"; fi
say "$arch: $(stat -c %s "$STAGE/$arch/deadheat") bytes"
