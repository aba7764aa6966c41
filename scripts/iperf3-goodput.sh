#!/usr/bin/env bash
# iperf3-goodput.sh [PAIRS [PATH]]: goodput of iperf3's server as iperf3's own client finds it and as `race --to iperf3://` does,
# in turns (A B A B) on one emulated path: TCP (CUBIC) up and down, and UDP at half of the path's rate. Prints a row for each pair,
# and the median of the ratios with the least and the largest. DEADHEAT names a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5}
path=${2:-delay=10ms,rate=50mbit}
seconds=${SECONDS_EACH:-5}
scripts/need.sh ip iperf3 python3
if [ -z "${DEADHEAT:-}" ]; then
  scripts/need.sh cargo cc
  cargo build --release --locked --quiet
fi
deadheat=$(realpath "${DEADHEAT:-target/release/deadheat}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# Both leave out the first second of a transfer over TCP, in which its window grows (-O, warmup).
cat >near.sh <<'NEAR'
deadheat=$1 seconds=$2
theirs() { iperf3 -c far -t "$seconds" -J "${@:2}" >"$1.iperf3.json"; }
ours() {
  "$deadheat" race "$2" -w "$3" --to iperf3://far --blocks 1 -q -o "$1.ours.json" >/dev/null 2>said.txt || [ $? = 3 ] ||
    { cat said.txt >&2; exit 1; }
}
theirs up -C cubic -O 1
ours up tcp "bulk:time=${seconds}s,warmup=1s"
theirs down -C cubic -O 1 -R
ours down tcp "bulk:time=${seconds}s,warmup=1s,direction=down"
theirs udp -u -b 25M -l 1400
ours udp udp "cbr:rate=25mbit,size=1400,time=${seconds}s,warmup=0s"
NEAR

for pair in $(seq "$pairs"); do
  rm -f ./*.json*
  "$deadheat" path run -q "$path,seed=$pair" --far 'iperf3 -s >/dev/null' --far-ready 5201 -- bash near.sh "$deadheat" "$seconds"
  python3 - "$pair" <<'READ'
import json, statistics, sys

row = []
for name in ("up", "down", "udp"):
    end = json.load(open(f"{name}.iperf3.json"))["end"]
    if name == "udp":
        # Datagrams that arrived, over the time in which they were sent.
        total = end["sum"]
        theirs = total["bytes"] * (1 - total["lost_packets"] / total["packets"]) * 8 / total["seconds"] / 1e6
    else:
        theirs = end["sum_received"]["bits_per_second"] / 1e6
    trials = json.load(open(f"{name}.ours.json"))["trials"]
    figures = [trial["metrics"]["goodput_bps"] / 1e6 for trial in trials if "goodput_bps" in trial["metrics"]]
    if not figures:
        sys.exit(f"pair {sys.argv[1]}, {name}: no trial has a goodput: {trials[0].get('why_invalid')}")
    valid = sum(trial["valid"] for trial in trials)
    ours = statistics.median(figures)
    row.append(ours / theirs)
    print(f"pair {sys.argv[1]} {name:4}: iperf3 {theirs:.3f} Mbit/s, ours {ours:.3f} ({valid} of {len(trials)} valid), "
          f"ratio {ours / theirs:.4f}", flush=True)
with open("ratios.txt", "a") as file:
    print(*row, file=file)
READ
done
python3 - <<'SUM'
import statistics

rows = [[float(ratio) for ratio in row.split()] for row in open("ratios.txt")]
print(f"ours / iperf3, median over {len(rows)} pairs (least to largest):")
for name, column in zip(("TCP up", "TCP down", "UDP up"), zip(*rows)):
    print(f"  {name:8} {statistics.median(column):.4f} ({min(column):.4f} to {max(column):.4f})")
SUM
