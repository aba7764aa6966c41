#!/usr/bin/env bash
# axe.sh: pages of a race, of one over an emulated path, of one under several conditions, of one beside several loads, of several races, of a study, of several studies, of a map, of
# a line and of a folder, and the page of a server for browsers, are free of the faults that axe-core knows. They are made from published runs with the debug or release build in DEADHEAT; npm installs what scripts/axe names,
# each file held to its hash, and runs no script of it. PICTURES=DIR has pictures of the pages, too.
set -euo pipefail

cd "$(dirname "$0")/.."
DEADHEAT=${DEADHEAT:-target/debug/deadheat}
scripts/need.sh npx chromium
CHROMIUM=$(command -v chromium || true)
[ -n "$CHROMIUM" ] || { echo "axe: left out, chromium is not there" >&2; exit 0; }
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT

modules=target/axe
mkdir -p "$modules" && cp scripts/axe/* "$modules"
npm ci --prefix "$modules" --ignore-scripts --no-audit --no-fund --silent

runs=studies/runs/2026-11-25-epyc/quic-or-tls
"$DEADHEAT" report studies/runs/2026-11-22-epyc/kreylos-echo-local/one-a-second.json.gz --format html -o "$dir/race.html"
"$DEADHEAT" report "$runs/rate-200.json.gz" --format html -o "$dir/emulated.html"
"$DEADHEAT" report "$runs"/{rate-50,rate-1000,no-link}.json.gz --format html -o "$dir/several.html"
"$DEADHEAT" study report "$runs" --format html -o "$dir/study.html"
"$DEADHEAT" study report studies/runs/2026-11-26-xeon --format html -o "$dir/studies.html"
"$DEADHEAT" race arq kcp sim-datagram -w state:count=60 --vary 'size=100|1000' --path sim:delay=25ms,loss=2% --blocks 8 --seed 1 -q -o "$dir/varied.json" --html "$dir/varied.html" >/dev/null
"$DEADHEAT" race quic arq kcp -w ping:count=60 --vary 'load=none|quic|kcp' --path sim:delay=10ms,rate=20mbit,queue=100ms --blocks 12 --seed 1 -q -o "$dir/beside.json" --html "$dir/beside.html" >/dev/null
# On a busy host few trials of it count (3), and the page says so.
"$DEADHEAT" line --path delay=10ms,rate=20mbit --budget 20s -q -o "$dir/line.json" --format html >"$dir/line.html" || [ $? = 3 ]
"$DEADHEAT" map kcp arq -w ping:count=30 --path sim: --over delay=1ms..50ms/3 --over loss=0..5%/2 --blocks 6 --seed 1 --html "$dir/map.html" -o "$dir/map.json" >/dev/null
"$DEADHEAT" report "$runs" --format html -o "$dir/folder" 2>/dev/null
mv "$dir/folder/index.html" "$dir/folder.html"

"$DEADHEAT" serve --bind 127.0.0.1:0 --web=0 2>"$dir/log" &
server=$!
until grep -q 'open http' "$dir/log"; do sleep 0.1; done
address=$(grep -o 'http://127.0.0.1:[0-9]*/' "$dir/log")

CHROMIUM=$CHROMIUM node "$modules/check.js" "$dir"/{race,emulated,varied,beside,several,study,studies,map,line,folder}.html "$address#blocks=2&count=20&interval_ms=1&run"
