#!/usr/bin/env bash
# pairs.sh: races the commands of examples/pairs (iperf3, aioquic, quic-go, ngtcp2) beside tcp and quic, one command each, on loopback and
# between namespaces, with the debug or release build in DEADHEAT. Pairs whose programs are not there are named and left out. quic-go is
# built from Go's module proxy; PYTHON is one with aioquic.
set -euo pipefail

cd "$(dirname "$0")/.."
DEADHEAT=${DEADHEAT:-target/debug/deadheat}
PYTHON=${PYTHON:-target/peers/bin/python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

has() { command -v "$1" >/dev/null || [ -x "$1" ]; }

# Races a pair: name, contender, bytes, direction, and contenders beside it.
pair() {
  local name=$1 contender=$2 bytes=$3 direction=$4
  shift 4
  for path in loopback delay=5ms,rate=50mbit; do
    echo "== $name over $path"
    if "$DEADHEAT" race "$contender" "$@" -w "bulk:bytes=$bytes,direction=$direction" --path "$path" --blocks 2 -q -o "$dir/race.json" || [ $? = 3 ]; then
      "$DEADHEAT" report "$dir/race.json" | head -24
      rm -f "$dir/race.json"
    else
      failed=1
    fi
  done
}

if has iperf3; then pair iperf3 cmd:file=examples/pairs/iperf3.toml 5MB up tcp; else echo "left out: iperf3 is not installed"; fi
if "$PYTHON" -c 'import aioquic' 2>/dev/null; then
  pair aioquic "cmd:file=examples/pairs/aioquic.toml,set=python=$PYTHON" 500kB up quic
else
  echo "left out: $PYTHON has no aioquic"
fi
if has go && has openssl; then
  (cd scripts/quic-go-perf && go build -o "$dir/quic-go-perf" .)
  pair quic-go "cmd:file=examples/pairs/quic-go.toml,set=bin=$dir/quic-go-perf" 2MB up quic
else
  echo "left out: quic-go takes go and openssl"
fi
if has gtlsclient && has /usr/sbin/gtlsserver && has openssl; then
  pair ngtcp2 cmd:file=examples/pairs/ngtcp2.toml 2MB down quic
else
  echo "left out: ngtcp2-client and ngtcp2-server are not installed"
fi
exit $failed
