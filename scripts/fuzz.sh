#!/usr/bin/env bash
# fuzz.sh SECONDS TARGET…: runs each fuzz target that long, two at a time, from the committed seeds.
# Builds with the toolchain in use: without a sanitizer, libFuzzer runs on stable Rust. TARGET+address is the target
# under AddressSanitizer, for libraries with unsafe code such as rusty_enet, which was C; stable Rust has it, behind RUSTC_BOOTSTRAP.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=$1
shift
cargo fuzz build --features all-contenders --sanitizer none

# Protocols of others are built as users have them: KCP's arithmetic wraps around, and overflow checks would
# end it at the first forged acknowledgement.
flags() {
  case $1 in
    *+address) echo --sanitizer address -O --target-dir fuzz/target/address ;;
    protocol) echo --sanitizer none -O --target-dir fuzz/target/unchecked ;;
    *) echo --sanitizer none ;;
  esac
}

one() {
  local asked=$1 target=${1%+*} log seeds
  log=fuzz/artifacts/$asked.log
  if [ "$asked" != "$target" ]; then export RUSTC_BOOTSTRAP=1; fi # in this job alone
  mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
  seeds=("fuzz/seeds/$target")
  if [ -d "fuzz/seeds/$target-odd" ]; then seeds+=("fuzz/seeds/$target-odd"); fi
  # shellcheck disable=SC2046 # words, one by one
  if cargo fuzz run --features all-contenders $(flags "$asked") "$target" "fuzz/corpus/$target" "${seeds[@]}" -- \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 >"$log" 2>&1; then
    echo "$asked: $(grep -ao 'stat::number_of_executed_units: .*' "$log" | grep -o '[0-9]*$') inputs, no failure"
  else
    echo "$asked: FAILED; the input is in fuzz/artifacts/$target, the log ends:" >&2
    tail -n 40 "$log" >&2
    return 1
  fi
}

status=0
while [ $# -gt 0 ]; do
  one "$1" & first=$!
  second=
  if [ $# -gt 1 ]; then one "$2" & second=$!; fi
  wait "$first" || status=1
  [ -z "$second" ] || wait "$second" || status=1
  shift $(($# > 1 ? 2 : 1))
done
exit $status
