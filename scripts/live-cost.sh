#!/usr/bin/env bash
# live-cost.sh [RACES]: what the live view costs. RACES=3 races of udp against itself without it and with it, in turns, in
# tmux; then the CPU time of the view's thread, and how the pairs of races compare. Run it on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh tmux
races=${1:-3}
deadheat=$(realpath "${DEADHEAT:-target/release/deadheat}")
dir=$(mktemp -d "${TMPDIR:-/tmp}/live-cost.XXXX")
trap 'tmux -S "$dir/tmux" kill-server 2>/dev/null || true' EXIT

# run FILE OPTION…: a race in a window; says the CPU time of the view's thread as a share of its life.
run() {
  local file=$1 pid='' task cpu='' began
  shift
  tmux -S "$dir/tmux" -f /dev/null new-session -d -x 80 -y 24 \
    "exec '$deadheat' race udp udp -w ping:count=100 --blocks 60 --budget 40s --resolve 0.1% --seed 7 -o '$dir/$file' $*"
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
    awk -v cpu="$cpu" -v span="$(($(date +%s%N) - began))" -v file="$file" \
      'BEGIN { printf "%s: the view used %.1f ms of CPU in %.1f s, %.3f %% of a core\n", file, cpu / 1e6, span / 1e9, 100 * cpu / span }'
  fi
}

for race in $(seq "$races"); do
  run "without-$race.json"
  run "with-$race.json" --live
done
for race in $(seq "$races"); do
  echo "race $race, without and with the view:"
  "$deadheat" compare "$dir/without-$race.json" "$dir/with-$race.json" || true
done
echo "results: $dir"
