#!/usr/bin/env bash
# answers.sh: clients of other programs against `deadheat serve` on loopback: Debian's iperf3 and riperf3 over TCP and UDP, up, down and
# both ways, by one stream and four; Debian's irtt, and another version of it; a sender of STAMP. Prints a row for each cell, and how
# many passed. DEADHEAT, RIPERF3, IRTT and STAMP_SUITE name programs; those that are not there are left out, and it says so:
#   cargo install riperf3-cli --version 0.8.0 --root target/peers
#   cargo install stamp-suite --version 1.0.0 --root target/peers
#   GOBIN=$PWD/target/peers/bin go install github.com/heistp/irtt/cmd/irtt@v0.9.2
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${DEADHEAT:-}" ]; then
  scripts/need.sh cargo cc
  cargo build --release --locked --quiet
fi
deadheat=$(realpath "${DEADHEAT:-target/release/deadheat}")
riperf3=${RIPERF3:-target/peers/bin/riperf3}
irtt=${IRTT:-target/peers/bin/irtt}
stamp=${STAMP_SUITE:-target/peers/bin/stamp-suite}
dir=$(mktemp -d)
"$deadheat" serve --bind 127.0.0.1:0 --iperf3=0 --irtt=0 --stamp=0 2>"$dir/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
until grep -q "each trial may last" "$dir/log"; do sleep 0.1; done
port() { sed -nE "s/.* $1 are answered at 127\.0\.0\.1:([0-9]+),.*/\1/p" "$dir/log"; }

passed=0 of=0
cell() { # NAME WORDS-OF-A-PASS COMMAND…
  local name=$1 words=$2 verdict=failed
  shift 2
  of=$((of + 1))
  if timeout 20 "$@" >"$dir/said" 2>&1 && grep -qE -- "$words" "$dir/said"; then
    verdict=passed passed=$((passed + 1))
  fi
  printf '%-6s  %s\n' "$verdict" "$name"
  [ "$verdict" = passed ] || tail -3 "$dir/said" | sed 's/^/        /'
}

for client in iperf3 "$riperf3"; do
  if ! command -v "$client" >/dev/null; then
    echo "left out: $client is not there"
    continue
  fi
  for over in "" "-u -b 20M"; do
    for way in "" -R --bidir; do
      for streams in 1 4; do
        # shellcheck disable=SC2086
        cell "$(basename "$client") $over $way -P $streams" receiver "$client" -c 127.0.0.1 -p "$(port 'iperf3 clients')" -t 1 -P "$streams" $over $way
      done
    done
  done
done
for client in irtt "$irtt"; do
  if ! command -v "$client" >/dev/null; then
    echo "left out: $client is not there"
    continue
  fi
  version=$("$client" version | sed -nE 's/irtt version: *//p')
  for options in "" "-l 1472" "--tstamp=midpoint --stats=count" "--clock=wall --sfill=rand" "--dscp=0xb8"; do
    # shellcheck disable=SC2086
    cell "irtt $version $options" '15/15 \(0.00% loss\)' "$client" client -d 300ms -i 20ms $options "127.0.0.1:$(port 'irtt clients')"
  done
done
if command -v "$stamp" >/dev/null; then
  for options in "" "--cos --dscp 46 --direct-measurement" "-K PTP --extra-padding 100" "--timestamp-info --location"; do
    # shellcheck disable=SC2086
    cell "stamp-suite $options" 'Packets lost: 0 ' "$stamp" -r 127.0.0.1 -p "$(port 'STAMP senders')" -c 10 -d 20 $options
  done
else
  echo "left out: $stamp is not there"
fi
echo "$passed of $of cells passed"
[ "$passed" = "$of" ]
