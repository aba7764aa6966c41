#!/usr/bin/env bash
# working-latency.sh [PAIRS [PATH]]: round trips beside one TCP upload (CUBIC) on an emulated path, as flent, irtt and deadheat see
# them, in turns. flent and irtt run at once, beside a flow of iperf (flent's own flows need netperf, which Debian does not
# have); deadheat beside one of its own. Prints a row for each pair, and the medians of the ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5}
path=${2:-delay=10ms,rate=20mbit,queue=100ms}
scripts/need.sh cargo cc ip flent irtt iperf python3
cargo build --release --locked --quiet
deadheat=$PWD/target/release/deadheat
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# Two seconds of lead, ten of probes, and iperf goes on until after the last of them.
cat >near.sh <<'NEAR'
iperf -c far -t 16 -Z cubic >/dev/null &
sleep 2
irtt client -i 20ms -d 10s -q -o irtt.json.gz far >/dev/null &
flent ping -l 10 -s 0.2 -H far -D . -o plot -f summary >flent.txt 2>&1
wait
NEAR

for pair in $(seq "$pairs"); do
  rm -f ./*.json* ./*.flent.gz
  "$deadheat" path run "$path,seed=$pair" --far 'iperf -s >/dev/null & exec irtt server >/dev/null' --far-ready 5001 -- \
    bash near.sh 2>/dev/null
  "$deadheat" race udp -q -w ping:interval=20ms,count=500,load=tcp,load-lead=2s --path "$path" --seed "$pair" \
    --blocks 1 -o ours.json >/dev/null 2>said.txt || [ $? = 3 ] || { cat said.txt >&2; exit 1; } # 3: one block makes no verdict
  python3 - "$pair" <<'READ'
import glob, gzip, json, statistics, sys

flent = json.load(gzip.open(glob.glob("*.flent.gz")[0]))["results"]
# flent's series start with its own steps before the first answer.
icmp, udp = ([rtt for rtt in flent[name] if rtt is not None] for name in ("Ping (ms) ICMP", "Ping (ms) UDP"))
trips = json.load(gzip.open("irtt.json.gz"))["round_trips"]
irtt = [trip["delay"]["rtt"] / 1e6 for trip in trips if trip["lost"] == "false"]
trials = json.load(open("ours.json"))["trials"]
ours = [trial["metrics"]["rtt_p50_ns"] / 1e6 for trial in trials if trial["valid"]]
if not ours:
    sys.exit(f"pair {sys.argv[1]}: no trial of ours is valid: {trials[0]['why_invalid']}")
flent_icmp, flent_udp, irtt, ours = map(statistics.median, (icmp, udp, irtt, ours))
print(f"pair {sys.argv[1]}: flent (ICMP) {flent_icmp:.1f} ms, flent (UDP) {flent_udp:.1f} ms, irtt {irtt:.1f} ms, "
      f"deadheat {ours:.1f} ms; deadheat / flent (UDP) {ours / flent_udp:.3f}, deadheat / irtt {ours / irtt:.3f}", flush=True)
with open("ratios.txt", "a") as ratios:
    print(ours / flent_udp, ours / irtt, file=ratios)
READ
done
python3 - <<'SUM'
import statistics

rows = [[float(ratio) for ratio in row.split()] for row in open("ratios.txt")]
flent, irtt = (statistics.median(column) for column in zip(*rows))
print(f"medians over {len(rows)} pairs: deadheat / flent (UDP) {flent:.3f}, deadheat / irtt {irtt:.3f}")
SUM
