#!/usr/bin/env bash
# live.sh: the live view in a real terminal (tmux): sizes, keys, Ctrl-Z, signals, and a terminal that takes nothing.
# DEADHEAT names the program, target/release/deadheat unless set. `live.sh show [COLUMNS ROWS]` prints a window instead.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh tmux
deadheat=$(realpath "${DEADHEAT:-target/release/deadheat}")
dir=$(mktemp -d)
pane() { tmux -S "$dir/tmux" -f /dev/null "$@"; }
trap 'pane kill-server 2>/dev/null || true; rm -rf "$dir"' EXIT

screen() { pane capture-pane -p; }

# shows TEXT: waits until the window has it, for 30 s at most.
shows() {
  for _ in $(seq 150); do
    if screen | grep -qF -- "$1"; then return; fi
    sleep 0.2
  done
  echo "no \"$1\" in the window:" >&2
  screen >&2
  exit 1
}

lacks() {
  if screen | grep -qF -- "$1"; then
    echo "\"$1\" is still in the window:" >&2
    screen >&2
    exit 1
  fi
}

press() { pane send-keys "$@"; }

typed() { press -l "$1"; press Enter; }

# The shell is back with its echo, and nothing of the view is left.
is_back() {
  shows 'prompt:'
  typed "echo back-\$((40 + $1))"
  shows "echo back-"
  shows "back-$((40 + $1))"
  lacks 'Not a verdict'
}

begin() {
  pane new-session -d -x "$1" -y "$2" "cd '$dir' && PS1='prompt: ' exec bash --norc --noprofile"
  shows 'prompt:'
}

race="'$deadheat' race udp udp -w ping:count=100 --blocks 300 --budget 60s --resolve 0.1%"

if [ "${1:-}" = show ]; then
  begin "${2:-80}" "${3:-24}"
  typed "'$deadheat' race tcp udp icmp --path delay=5ms,rate=50mbit,queue=64kB --live -o r.json"
  shows 'Not a verdict'
  sleep 8
  screen
  exit
fi

begin 60 15
typed "$race --live -o r.json"
shows 'Not a verdict'
pane resize-window -x 110 -y 30
shows 'width so far'
pane resize-window -x 30 -y 5
shows 'window too small'
pane resize-window -x 80 -y 24
press p
shows 'PAUSED after'
press s
shows 'in r.json'
press p
shows 'went on after a pause of'
press '?'
shows 'Keys (? closes this)'
press d
shows 'Details (d closes them)'
press d
press C-z
shows 'Stopped'
lacks 'Not a verdict'
typed fg
shows 'Not a verdict'
press q
shows 'saved: r.json'
is_back 1
grep -q '"code": *"paused"' "$dir/r.json" || { echo "no pause in the result" >&2; exit 1; }

for signal in INT TERM; do
  pane clear-history
  typed "clear; $race --live -o $signal.json"
  shows 'Not a verdict'
  kill -"$signal" "$(pgrep -P "$(pane display-message -p '#{pane_pid}')")"
  shows "saved: $signal.json"
  is_back 2
done

# Ctrl-S: the terminal takes nothing, and the race goes on to its end.
typed "clear; '$deadheat' race udp udp -w ping:count=100 --blocks 30 --budget 60s --live -o s.json"
shows 'Not a verdict'
press C-s
for _ in $(seq 300); do
  if grep -qE '"status": *"(decided|budget)"' "$dir/s.json"; then break; fi
  sleep 0.2
done
grep -qE '"status": *"(decided|budget)"' "$dir/s.json" || { echo "the race waited for the terminal" >&2; exit 1; }
press C-q
shows 'saved: s.json'
is_back 3

typed "clear; TERM=dumb '$deadheat' race udp udp -w ping:count=100 --blocks 7 --live -o d.json"
shows 'plain lines instead'
shows 'saved: d.json'
echo "live.sh: the view is as it should be"
