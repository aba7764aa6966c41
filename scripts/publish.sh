#!/usr/bin/env bash
# publish.sh RUNS INTO: takes studies that were run (`deadheat study run … -o RUNS/NAME`) into the
# repository: results packed, raw samples left out, each study's report as Markdown, and RESULTS.md of
# all that is in INTO, claim by claim.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:?RUNS: a directory of studies that were run}
into=${2:?INTO: studies/runs/DATE-HOST}
deadheat=${DEADHEAT:-target/release/deadheat}

for study in "$runs"/*/study.json; do
  from=$(dirname "$study")
  to=$into/$(basename "$from")
  mkdir -p "$to"
  for result in "$from"/*.json; do
    # -n: neither name nor time, so that the same result packs to the same bytes.
    gzip -9 -n -c "$result" >"$to/$(basename "$result").gz"
  done
  "$deadheat" study report "$to" --format markdown >"$to/README.md"
done
"$deadheat" study report "$into" --format markdown >"$into/RESULTS.md"
du -sh "$into"
