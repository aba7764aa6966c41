#!/usr/bin/env bash
# What tests and lints of all contenders leave out: `quic-quiche`, whose BoringSSL takes three minutes to be built, and
# CMake and libclang. One build has it and all the others; documents have what it says of itself, and UPDATE_GOLDEN=1 writes them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/need.sh cargo cc g++ cmake libclang git python3-aioquic
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target/quiche}"
features=(--locked --features "all-contenders,quic-quiche")

if cargo clippy --version >/dev/null 2>&1; then
  cargo clippy "${features[@]}" --package deadheat --package deadheat-transports --all-targets -- -D warnings
fi
cargo test "${features[@]}" --package deadheat-transports
cargo test "${features[@]}" --test tidy --test conformance
cargo test "${features[@]}" --test interop quic
