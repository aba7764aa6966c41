#!/usr/bin/env bash
# Format and lints. A toolchain without these components is told what it misses; CI has both. Where shellcheck is
# installed it reads the scripts.
set -euo pipefail

# Lock files that do not fit their packages are found before minutes of lints. The fuzz targets have a lock file of their own.
for manifest in Cargo.toml fuzz/Cargo.toml; do
  cargo metadata --locked --format-version 1 --manifest-path "$manifest" >/dev/null
done

if cargo fmt --version >/dev/null 2>&1; then
  cargo fmt --all --check
else
  echo "SKIPPED cargo fmt: this toolchain has no rustfmt (rustup component add rustfmt)" >&2
fi
if cargo clippy --version >/dev/null 2>&1; then
  cargo clippy --locked --workspace --features all-contenders --all-targets -- -D warnings
  # What people build: without contenders behind features.
  cargo clippy --locked -- -D warnings
  # The fuzz targets are a package of their own. Naming a library keeps libFuzzer from being built, which takes C++;
  # nothing is linked here.
  CUSTOM_LIBFUZZER_PATH=$PWD/libfuzzer.a cargo clippy --locked --manifest-path fuzz/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}" -- -D warnings
else
  echo "SKIPPED cargo clippy: this toolchain has no clippy (rustup component add clippy)" >&2
fi
if command -v shellcheck >/dev/null; then
  shellcheck --severity=warning -x scripts/*.sh scripts/action/*.sh scripts/dist/*.sh packaging/install/*.sh
else
  echo "SKIPPED shellcheck: it is not there (apt-get install shellcheck)" >&2
fi
