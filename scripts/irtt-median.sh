#!/usr/bin/env bash
# irtt-median.sh [PAIRS [PATH [DEADHEAT]]]: the median round trip of irtt's client and of `deadheat race udp --to irtt://` at the same
# irtt server across the same emulated path, in turns (A B, B A, …): 64 bytes each 10 ms. Prints a row for each pair, and the median of
# the ratios; goal: within 1 %.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5}
path=${2:-delay=10ms}
deadheat=${3:-}
scripts/need.sh cargo cc ip irtt python3
if [ -z "$deadheat" ]; then
  cargo build --release --locked --quiet
  deadheat=$PWD/target/release/deadheat
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export deadheat

# Messages of 64 bytes in packets of 96: irtt's own fields are around them, and 64 of its own are the same packet.
cat >irtt.sh <<'NEAR'
irtt client -q -i 10ms -d 3s -l 96 -o irtt.json.gz 198.18.0.2 >/dev/null
NEAR
cat >ours.sh <<'NEAR'
"$deadheat" race udp -q -w ping:interval=10ms,count=300,size=64 --blocks 1 --to irtt://198.18.0.2 -o ours.json >said.txt 2>&1 ||
  [ $? = 3 ] || { cat said.txt >&2; exit 1; }
NEAR
for pair in $(seq "$pairs"); do
  order="irtt ours"
  [ $((pair % 2)) = 1 ] || order="ours irtt"
  rm -f irtt.json.gz ours.json
  # One server and one network for both.
  for who in $order; do echo "bash $who.sh || exit 1"; done >near.sh
  "$deadheat" path run -q "$path" --far 'exec irtt server >/dev/null' -- bash near.sh
  python3 - "$pair" <<'READ'
import gzip, json, statistics, sys

trips = json.load(gzip.open("irtt.json.gz"))["round_trips"]
irtt = statistics.median(trip["delay"]["rtt"] / 1e6 for trip in trips if trip["lost"] == "false")
trials = [one["metrics"]["rtt_p50_ns"] / 1e6 for one in json.load(open("ours.json"))["trials"] if one["valid"]]
if not trials:
    sys.exit("no trial of ours is valid")
ours = statistics.median(trials)
print(f"pair {sys.argv[1]}: irtt {irtt:.3f} ms, deadheat {ours:.3f} ms ({len(trials)} trials), ratio {ours / irtt:.4f}", flush=True)
print(ours / irtt, file=open("ratios.txt", "a"))
READ
done
python3 - <<'SUM'
import statistics

ratios = [float(line) for line in open("ratios.txt")]
print(f"deadheat / irtt: median {statistics.median(ratios):.4f}, from {min(ratios):.4f} to {max(ratios):.4f}, {len(ratios)} pairs")
SUM
