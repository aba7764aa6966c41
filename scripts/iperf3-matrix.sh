#!/usr/bin/env bash
# iperf3-matrix.sh: every cell of a matrix against real servers of iperf3: Debian's and riperf3's; TCP and UDP; up, down and both
# ways; one stream and four; blocks and messages of a pace. For each cell iperf3's own client runs first, and then ours, each in one
# network of its own. Prints a row for each cell, and how many of those that the peers pass by themselves ours passes.
# Part of `make soak`. DEADHEAT names a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh ip iperf3 python3 riperf3
if [ -z "${DEADHEAT:-}" ]; then
  scripts/need.sh cargo cc
  cargo build --release --locked --quiet
fi
deadheat=$(realpath "${DEADHEAT:-target/release/deadheat}")
riperf3=$(realpath "${RIPERF3:-target/peers/bin/riperf3}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

cat >cell.sh <<'CELL'
deadheat=$1 contender=$2 work=$3
shift 3
timeout 20 iperf3 -c far -t 1 -J "$@" >theirs.json || true
sleep 1
timeout 60 "$deadheat" race "$contender" -w "$work" --to iperf3://far --blocks 1 -q -o ours.json >/dev/null 2>said.txt || true
CELL

passed=0 of=0 ours_alone=0
cell() { # SERVER COMMAND CONTENDER WORK CLIENT-OPTIONS…
  local server=$1 command=$2 contender=$3 work=$4 found
  shift 4
  rm -f theirs.json ours.json said.txt
  "$deadheat" path run -q delay=2ms,rate=100mbit --far "$command >server.txt 2>&1" --far-ready 5201 -- \
    bash cell.sh "$deadheat" "$contender" "$work" "$@" 2>/dev/null || true
  found=$(python3 - "$work" <<'READ'
import json, sys

def theirs():
    try:
        run = json.load(open("theirs.json"))
    except (OSError, ValueError):
        return "no result"
    if "error" in run:
        return run["error"]
    sums = [run["end"][name] for name in ("sum_received", "sum_received_bidir_reverse", "sum") if name in run["end"]]
    return None if all(one["bytes"] > 0 for one in sums) else "no bytes"

def ours(work):
    try:
        race = json.load(open("ours.json"))
    except (OSError, ValueError):
        return open("said.txt").read().strip().replace("\n", " ")[:150] or "no result"
    trials = race["trials"]
    if not trials:
        return next((c.get(key) for c in race["contenders"] for key in ("not_applicable", "limited", "dropped") if c.get(key)), "no trial")
    for trial in trials:
        ways = [trial["ledger"].get(way) for way in ("up", "down")]
        ways = [way for way in ways if way]
        if len(ways) != (2 if "direction=both" in work else 1):
            return f"{len(ways)} ways have a ledger"
        for way in ways:
            if way.get("open_because") or not 0 < way["delivered"] <= way["sent"]:
                return f"ledger: {way}"
            # A busy host may send late, which makes a trial invalid and no cell wrong.
            if way["delivered"] < 0.5 * way["sent"]:
                return f"lost: {way}"
    return None

print(theirs() or "ok", ours(sys.argv[1]) or "ok", sep="\t")
READ
  )
  printf '%-8s %-5s %-50s iperf3 %s, ours %s\n' "$server" "$contender" "$work" "${found%%$'\t'*}" "${found##*$'\t'}"
  case $found in
    ok$'\t'ok) passed=$((passed + 1)) of=$((of + 1)) ;;
    ok$'\t'*) of=$((of + 1)) ;;
    *$'\t'ok) ours_alone=$((ours_alone + 1)) ;;
  esac
}

for server in iperf3 riperf3; do
  command="$server -s"
  [ "$server" = iperf3 ] || command="$riperf3 -s"
  for streams in 1 4; do
    for way in up down both; do
      client=(-P "$streams")
      [ "$way" = up ] || client+=("$([ "$way" = down ] && echo -R || echo --bidir)")
      cell "$server" "$command" tcp "bulk:time=1s,warmup=0s,direction=$way,streams=$streams" "${client[@]}"
      # iperf3's rate is that of each stream.
      cell "$server" "$command" tcp "cbr:rate=8mbit,time=1s,warmup=0s,direction=$way,flows=$streams" "${client[@]}" -b $((8 / streams))M -l 1400
      cell "$server" "$command" udp "cbr:rate=8mbit,time=1s,warmup=0s,direction=$way,flows=$streams" "${client[@]}" -u -b $((8 / streams))M -l 1400
    done
  done
done
echo "$passed of $of cells that iperf3's own client passes ($ours_alone more pass here alone)"
[ "$passed" = "$of" ]
