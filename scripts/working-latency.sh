#!/usr/bin/env bash
# working-latency.sh [PAIRS [PATH]]: round trips beside one TCP upload (CUBIC) on an emulated path, as flent, irtt and deadheat see
# them, in turns, and the goodput of the upload beside that of iperf3. flent and irtt run at once, beside a flow of iperf3 (flent's
# own flows need netperf, which Debian does not have); deadheat beside one of its own, once over the path and once to a
# `deadheat serve` on its far host. Prints a row for each pair, and the medians of the ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5}
path=${2:-delay=10ms,rate=20mbit,queue=100ms}
scripts/need.sh cargo cc ip flent irtt iperf3 python3
cargo build --release --locked --quiet
deadheat=$PWD/target/release/deadheat
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# Two seconds of lead, ten of probes, and iperf3 goes on until after the last of them. Its first two seconds do not count (-O).
cat >near.sh <<'NEAR'
iperf3 -c far -t 12 -O 2 -C cubic -J >iperf3.json &
sleep 2
irtt client -i 20ms -d 10s -q -o irtt.json.gz far >/dev/null &
flent ping -l 10 -s 0.2 -H far -D . -o plot -f summary >flent.txt 2>&1
wait
NEAR
work=(udp -q -w 'ping:interval=20ms,count=500,load=tcp,load-lead=2s' --blocks 1)

# ours COMMAND…: runs it; status 3 is a race of one block, which makes no verdict.
ours() {
  "$@" >/dev/null 2>said.txt || [ $? = 3 ] || { cat said.txt >&2; exit 1; }
}

for pair in $(seq "$pairs"); do
  rm -f ./*.json* ./*.flent.gz
  "$deadheat" path run "$path,seed=$pair" --far 'iperf3 -s >/dev/null & exec irtt server >/dev/null' --far-ready 5201 -- \
    bash near.sh 2>/dev/null
  ours "$deadheat" race "${work[@]}" --path "$path" --seed "$pair" -o path.json
  ours "$deadheat" path run -q "$path,seed=$pair" --far "exec $deadheat serve -q" --far-ready 5210 -- \
    "$deadheat" race "${work[@]}" --to far -o to.json
  python3 - "$pair" <<'READ'
import glob, gzip, json, statistics, sys

flent = json.load(gzip.open(glob.glob("*.flent.gz")[0]))["results"]
# flent's series start with its own steps before the first answer.
icmp, udp = ([rtt for rtt in flent[name] if rtt is not None] for name in ("Ping (ms) ICMP", "Ping (ms) UDP"))
trips = json.load(gzip.open("irtt.json.gz"))["round_trips"]
irtt = [trip["delay"]["rtt"] / 1e6 for trip in trips if trip["lost"] == "false"]
iperf3 = json.load(open("iperf3.json"))["end"]["sum_received"]["bits_per_second"] / 1e6
flent_icmp, flent_udp, irtt = map(statistics.median, (icmp, udp, irtt))
print(f"pair {sys.argv[1]}: flent (ICMP) {flent_icmp:.1f} ms, flent (UDP) {flent_udp:.1f} ms, irtt {irtt:.1f} ms, "
      f"iperf3 {iperf3:.2f} Mbit/s")
row = []
for name, file in (("--path", "path.json"), ("--to", "to.json")):
    trials = json.load(open(file))["trials"]
    valid = [trial["metrics"] for trial in trials if trial["valid"]]
    if not valid:
        sys.exit(f"pair {sys.argv[1]}: no trial with {name} is valid: {trials[0]['why_invalid']}")
    rtt = statistics.median(metrics["rtt_p50_ns"] / 1e6 for metrics in valid)
    goodput = statistics.median(metrics["load_goodput_bps"] / 1e6 for metrics in valid)
    ratios = (rtt / flent_udp, rtt / irtt, goodput / iperf3)
    print(f"  deadheat {name:6} {rtt:.1f} ms, {goodput:.2f} Mbit/s; / flent (UDP) {ratios[0]:.3f}, / irtt {ratios[1]:.3f}, "
          f"goodput / iperf3 {ratios[2]:.3f}", flush=True)
    row += ratios
with open("ratios.txt", "a") as file:
    print(*row, file=file)
READ
done
python3 - <<'SUM'
import statistics

rows = [[float(ratio) for ratio in row.split()] for row in open("ratios.txt")]
medians = [statistics.median(column) for column in zip(*rows)]
print(f"medians over {len(rows)} pairs:")
for name, (flent, irtt, goodput) in zip(("--path", "--to"), (medians[:3], medians[3:])):
    print(f"  deadheat {name:6} / flent (UDP) {flent:.3f}, / irtt {irtt:.3f}, goodput / iperf3 {goodput:.3f}")
SUM
