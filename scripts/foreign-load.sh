#!/usr/bin/env bash
# foreign-load.sh [RACES] [SECONDS] [DEADHEAT]: A/A races of one program beside three kinds of foreign load: CPU, memory, network. Each
# race may take SECONDS (60 unless given); RACES of them (100 unless given) are spread over the three kinds in turns. Prints how many
# called one of the two ahead, and ends with 1 if that are more than chance has in one of a hundred such series at a rate of 5 %.
# It needs iperf3 and python3; everything that it starts ends with it, and its traffic stays on loopback. For a machine of its own.
set -euo pipefail

races="${1:-100}" seconds="${2:-60}" deadheat="${3:-deadheat}"
here="$(cd "$(dirname "$0")/.." && pwd)"
pair="$here/examples/pairs/iperf3.toml"
out="$(mktemp -d)"
loads=()
quiet() {
  [ "${#loads[@]}" -eq 0 ] || kill "${loads[@]}" 2>/dev/null || true
  [ "${#loads[@]}" -eq 0 ] || wait "${loads[@]}" 2>/dev/null || true
  loads=()
}
trap 'quiet; rm -rf "$out"' EXIT

# load KIND: one process for each CPU, with pauses of random length, since a steady load is the easy case
load() {
  local cpu
  for ((cpu = 0; cpu < $(nproc); cpu++)); do
    python3 - "$1" "$seconds" <<'PYTHON' &
import random, socket, sys, threading, time

kind, end = sys.argv[1], time.monotonic() + 4 * float(sys.argv[2]) + 60
def cpu():
    sum(i * i for i in range(20_000))
block = bytearray(64 << 20) if kind == "memory" else None
def memory():
    bytes(block)
if kind == "network":
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    receiver = listener.accept()[0]
    def drain():
        while receiver.recv(1 << 20):
            pass
    threading.Thread(target=drain, daemon=True).start()
    chunk = bytes(1 << 20)
def network():
    sender.sendall(chunk)
work = {"cpu": cpu, "memory": memory, "network": network}[kind]
while time.monotonic() < end:
    busy = time.monotonic() + random.expovariate(1 / 0.3)
    while time.monotonic() < busy:
        work()
    time.sleep(random.expovariate(1 / 0.2))
PYTHON
    loads+=("$!")
  done
}

ahead=0 ran=0
for ((race = 0; race < races; race++)); do
  kinds=(cpu memory network)
  kind="${kinds[race % 3]}"
  load "$kind"
  file="$out/$race.json"
  code=0
  timeout "$((3 * seconds + 60))" "$deadheat" race "cmd:file=$pair,label=old" "cmd:file=$pair,label=new" \
    --workload bulk:bytes=10MB --budget "${seconds}s" --quiet --output "$file" >/dev/null || code=$?
  quiet
  if [ ! -f "$file" ]; then
    echo "race $race, $kind: no result (exit code $code)"
    continue
  fi
  ran=$((ran + 1))
  found="$(python3 -c '
import json, sys
race = json.load(open(sys.argv[1]))
verdict = race["verdicts"][0]
shares = [p.get("others_share", 0) for p in race["probe"]["points"][1:]] or [0]
ratio = verdict.get("ratio") or {}
print(verdict["outcome"], "%.0f%%" % (100 * sum(shares) / len(shares)), " ".join("%.3f" % ratio[k] for k in ("point", "low", "high") if k in ratio), verdict["blocks"])
' "$file")"
  [[ "$found" != ahead* ]] || ahead=$((ahead + 1))
  echo "race $race, $kind: $found"
done
echo "$ahead of $ran races of a program with itself called one ahead"
python3 -c '
from math import comb
import sys
ahead, ran = map(int, sys.argv[1:])
tail = sum(comb(ran, k) * 0.05**k * 0.95 ** (ran - k) for k in range(ahead, ran + 1))
sys.exit(ran == 0 or tail < 0.01)
' "$ahead" "$ran"
