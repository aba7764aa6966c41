#!/usr/bin/env bash
# reflectors.sh [DEADHEAT]: races to real reflectors across an emulated path with delay and losses: irtt of Debian and irtt 0.9.2
# (Go module proxy), with and without a key; stamp-suite 1.0.0 (crates.io) with and without state, in the open and authenticated,
# with times as NTP and as PTP have them. Checks of each what it says and what it cannot say. The peers are built once, into
# target/peers; that takes minutes, so this is no part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh cargo cc ip go irtt python3
peers=$PWD/target/peers
deadheat=${1:-}
if [ -z "$deadheat" ]; then
  cargo build --release --locked --quiet
  deadheat=$PWD/target/release/deadheat
fi
mkdir -p "$peers/irtt"
if [ ! -x "$peers/irtt/irtt" ]; then
  printf 'module peers\ngo 1.21\nrequire github.com/heistp/irtt v0.9.2\n' >"$peers/irtt/go.mod"
  (cd "$peers/irtt" && GOFLAGS=-mod=mod go build -o irtt github.com/heistp/irtt/cmd/irtt)
fi
if [ ! -x "$peers/bin/stamp-suite" ]; then
  cargo install --quiet --locked --root "$peers" --version 1.0.0 stamp-suite
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# 20 ms up and 5 ms down, so that ways differ by more than clocks are known to.
path=up.delay=20ms,down.delay=5ms,up.loss=2%,down.loss=1%

# reflect NAME SCHEME WORK COMMAND…: runs COMMAND on the far host, races to it, and checks the result.
reflect() {
  local name=$1 scheme=$2 size=$3
  shift 3
  "$deadheat" path run -q "$path,seed=3" --far "exec $*" -- \
    "$deadheat" race udp -q -w "ping:interval=20ms,count=200,size=$size" --blocks 2 --to "$scheme://198.18.0.2" -o result.json \
    >said.txt 2>&1 || [ $? = 3 ] || { cat said.txt >&2; exit 1; }
  python3 - "$name" <<'READ'
import json, statistics, sys

name = sys.argv[1]
result = json.load(open("result.json"))
trials = result["trials"]
ways = "clock" not in name
split = "stateless" not in name
def check(what, holds, trial):
    if not holds:
        short = {key: trial[key] for key in ("valid", "why_invalid", "metrics", "clock", "ledger") if key in trial}
        sys.exit(f"{name}: {what}: {json.dumps(short, indent=1)}")
splits = 0
for trial in trials:
    metrics, ledger = trial["metrics"], trial["ledger"]
    for account in ledger.values():
        lost = account["lost_on_path"] + account.get("dropped_at_receiver", 0)
        check("a ledger does not close", account["sent"] == account["delivered"] + lost, trial)
        check("content was not compared", "corrupted" not in account, trial)
    splits += "up" in ledger
    check("losses are split", split or "up" not in ledger, trial)
    check("a round trip takes the path", metrics["rtt_p50_ns"] >= 25e6, trial)
    check("the far end's time is taken out", metrics["path_rtt_p50_ns"] <= metrics["rtt_p50_ns"], trial)
    check("ways", ways == ("one_way_up_p50_ns" in metrics), trial)
    # A sender that was held up is late on the way up, and its trial does not count.
    if ways and trial["valid"]:
        bound = trial["clock"]["error_bound_ns"]
        for way, truth in (("up", 20e6), ("down", 5e6)):
            error = abs(metrics[f"one_way_{way}_p50_ns"] - truth)
            check(f"{way} is beyond its bound", error <= bound + 2e6, trial)
check("no trial split its losses", splits > 0 or not split, trials[0])
median = lambda of: statistics.median(map(of, trials))
row = f"{name:42} RTT {median(lambda one: one['metrics']['rtt_p50_ns']) / 1e6:.2f} ms"
if ways:
    up, down = (median(lambda one: one["metrics"][f"one_way_{way}_p50_ns"]) / 1e6 for way in ("up", "down"))
    row += f", up {up:.2f}, down {down:.2f} (clocks ±{median(lambda one: one['clock']['error_bound_ns']) / 1e6:.2f})"
if split:
    of = lambda way, field: sum(one["ledger"][way][field] for one in trials if "up" in one["ledger"])
    row += f", lost up {of('up', 'lost_on_path')} of {of('up', 'sent')}, down {of('down', 'lost_on_path')} of {of('down', 'sent')}"
print(f"{row}, {splits} of {len(trials)} trials split", flush=True)
READ
}

for irtt in irtt "$peers/irtt/irtt"; do
  version=$("$irtt" version | sed -n 's/^irtt version: //p')
  reflect "irtt $version" irtt 64 "$irtt" server
  DEADHEAT_IRTT_HMAC=key reflect "irtt $version --hmac" irtt 64 "$irtt" server --hmac=key
done
stamp() {
  local name=$1 size=$2
  shift 2
  reflect "stamp-suite, $name" stamp "$size" "$peers/bin/stamp-suite" --is-reflector "$@"
}
stamp "stateless, no clock" 64
stamp "state, no clock" 64 --stateful-reflector
stamp "state" 64 --stateful-reflector --clock-synchronized
stamp "state, PTP" 64 --stateful-reflector --clock-synchronized --clock-source PTP
DEADHEAT_STAMP_HMAC="0123456789abcdef" stamp "state, authenticated" 112 --stateful-reflector --clock-synchronized \
  --auth-mode A --hmac-key "$(printf 0123456789abcdef | od -An -tx1 | tr -d ' \n')"
DEADHEAT_STAMP_HMAC="0123456789abcdef" stamp "stateless, no clock, authenticated" 128 \
  --auth-mode A --hmac-key "$(printf 0123456789abcdef | od -An -tx1 | tr -d ' \n')"
