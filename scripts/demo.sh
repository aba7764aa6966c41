#!/usr/bin/env bash
# demo.sh [FILE.svg]: records a race on this machine as an animated picture of a terminal, for the
# README. What is seen is what ran: nothing is edited but idle time, which is cut to two seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
into=${1:-docs/demo.svg}
columns=92 rows=24

scripts/need.sh cargo cc asciinema npx
cargo build --release --locked

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Types a line as a person would, then runs it.
cat >"$work/session" <<'SESSION'
type_out() { printf '\033[1;34m$\033[0m '; local i; for ((i = 0; i < ${#1}; i++)); do printf %s "${1:i:1}"; sleep 0.03; done; sleep 0.4; echo; }
say() { type_out "$1"; eval "$1"; sleep 2; }
say 'deadheat race tcp udp icmp -w ping:window=1,count=5000 --quick --margin 10% -o race.json | head -12'
say 'deadheat race udp udp -w ping:window=1,count=3000 -q -o same.json | head -5'
sleep 3
SESSION

binary=$PWD/target/release
(
  cd "$work"
  PATH="$binary:$PATH" LC_ALL=C.UTF-8 TERM=xterm-256color asciinema rec --quiet --overwrite --idle-time-limit 2 \
    --cols "$columns" --rows "$rows" --command "bash $work/session" "$work/race.cast"
)
npx --yes svg-term-cli@2.1.1 --in "$work/race.cast" --out "$work/race.svg" --window --no-cursor \
  --width "$columns" --height "$rows"
mkdir -p "$(dirname "$into")"
mv "$work/race.svg" "$into"
echo "demo: $into, $(wc -c <"$into") bytes" >&2
