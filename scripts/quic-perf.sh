#!/usr/bin/env bash
# quic-perf.sh: races `quic` to a perf server of quic-go, and runs quic-go's client against `deadheat serve --quic-perf`; both are
# scripts/quic-go-perf, which Go builds from its module proxy. On loopback, with the debug or release build in DEADHEAT.
set -euo pipefail

cd "$(dirname "$0")/.."
DEADHEAT=${DEADHEAT:-target/debug/deadheat}
for command in go openssl "$DEADHEAT"; do
  command -v "$command" >/dev/null || { echo "quic-perf: $command is not there" >&2; exit 1; }
done
dir=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT

(cd scripts/quic-go-perf && go build -o "$dir/perf" .)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=perf \
  -keyout "$dir/key.pem" -out "$dir/certificate.pem" 2>/dev/null
pin=sha256:$(openssl x509 -in "$dir/certificate.pem" -pubkey -noout | openssl pkey -pubin -outform der | sha256sum | cut -d' ' -f1)

"$dir/perf" serve 127.0.0.1:0 "$dir/certificate.pem" "$dir/key.pem" >"$dir/at" &
started+=($!)
while [ ! -s "$dir/at" ]; do sleep 0.1; done
at=$(cat "$dir/at")
for work in bulk:time=1s bulk:time=1s,direction=down bulk:bytes=50MB,direction=both,streams=2 rpc:count=100,response=1kB..100kB; do
  echo "== quic -w $work, to quic-go"
  "$DEADHEAT" race quic:cc=cubic quic:cc=reno -w "$work" --to "quicperf://$at" --pin "$pin" --blocks 3 -q -o "$dir/race.json" || [ $? = 3 ]
  "$DEADHEAT" report "$dir/race.json" | head -20
done

"$DEADHEAT" serve --bind 127.0.0.1:0 --quic-perf=0 2>"$dir/log" &
started+=($!)
for _ in $(seq 50); do grep -q 'QUIC perf clients are answered' "$dir/log" && break; sleep 0.1; done
at=$(sed -n 's/.*QUIC perf clients are answered at \([^,]*\),.*/\1/p' "$dir/log")
echo "== quic-go's client, to deadheat serve --quic-perf"
"$dir/perf" run "$at" 50000000 50000000
grep -a 'quic' "$dir/log"
