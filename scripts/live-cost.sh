#!/usr/bin/env bash
# live-cost.sh [PAIRS]: what the live view costs. PAIRS=30 pairs of races of udp against itself, of 20 blocks each: one race
# without the view and one with it, in tmux, in the order a b b a. Then the CPU time of the view's thread, and the verdict on
# the pairs: is the median round trip the same within 2 %? Run it on a quiet machine; a pair takes half a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh tmux
pairs=${1:-30}
deadheat=$(realpath "${DEADHEAT:-target/release/deadheat}")
dir=$(mktemp -d "${TMPDIR:-/tmp}/live-cost.XXXX")
trap 'tmux -S "$dir/tmux" kill-server 2>/dev/null || true' EXIT

# run NAME OPTION…: a race in a window. Writes the median of its trials' median round trips, in ns, to NAME.ns, and the CPU time of
# the view's thread as a share of its life to NAME.cpu.
run() {
  local name=$1 pid='' task cpu='' began
  shift
  tmux -S "$dir/tmux" -f /dev/null new-session -d -x 80 -y 24 \
    "exec '$deadheat' race udp udp -w ping:count=100 --blocks 20 --all-blocks --seed 7 -o '$dir/race.json' $*"
  pid=$(tmux -S "$dir/tmux" display-message -p '#{pane_pid}')
  began=$(date +%s%N)
  while [ -d "/proc/$pid/task" ]; do
    for task in "/proc/$pid"/task/*; do
      if [ "$(cat "$task/comm" 2>/dev/null)" = "live view" ]; then
        read -r cpu _ <"$task/schedstat" || true
      fi
    done
    sleep 1
  done
  if [ -n "$cpu" ]; then
    awk -v cpu="$cpu" -v span="$(($(date +%s%N) - began))" 'BEGIN { printf "%.4f\n", 100 * cpu / span }' >>"$dir/$name.cpu"
  fi
  "$deadheat" report "$dir/race.json" --format csv |
    awk -F, '$5 == "true" && $6 == "rtt_p50_ns" { print $7 }' | sort -n |
    awk '{ at[NR] = $1 } END { print at[int((NR + 1) / 2)] }' >>"$dir/$name.ns"
  rm "$dir/race.json"
}

for pair in $(seq "$pairs"); do
  if ((pair % 2)); then
    run without
    run with --live
  else
    run with --live
    run without
  fi
done
sort -n "$dir/with.cpu" | awk '{ at[NR] = $1 } END { printf "the view used %.3f %% of a core at most, and %.3f %% in the median race\n", at[NR], at[int((NR + 1) / 2)] }'
"$deadheat" import --paired --each trial --unit ns --margin 2% --label without --label with -o "$dir/pairs.json" \
  "$dir/without.ns" "$dir/with.ns" || true
echo "figures: $dir"
