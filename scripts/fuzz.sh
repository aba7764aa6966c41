#!/usr/bin/env bash
# fuzz.sh SECONDS TARGET…: runs each fuzz target that long, two at a time, from the committed seeds.
# Builds with the toolchain in use: without a sanitizer, libFuzzer runs on stable Rust.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=$1
shift
cargo fuzz build --sanitizer none

# Protocols of others are built as users have them: KCP's arithmetic wraps around, and overflow checks would
# end it at the first forged acknowledgement.
flags() {
  echo --sanitizer none
  if [ "$1" = protocol ]; then echo -O --target-dir fuzz/target/unchecked; fi
}

one() {
  local target=$1 log
  log=fuzz/artifacts/$target.log
  mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
  # shellcheck disable=SC2046 # words, one by one
  if cargo fuzz run $(flags "$target") "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 >"$log" 2>&1; then
    echo "$target: $(grep -ao 'stat::number_of_executed_units: .*' "$log" | grep -o '[0-9]*$') inputs, no failure"
  else
    echo "$target: FAILED; the input is in fuzz/artifacts/$target, the log ends:" >&2
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
