#!/usr/bin/env bash
# browser.sh [N]: races of a page in Chromium, WebSocket against a data channel, and as many of `deadheat race ws datachannel`, on one
# emulated path with loss: do page and program agree on who is ahead? N of each, 3 unless given. Both run the same work, as long in
# each trial and as often: WORK is `state` (HZ updates a second), `ping` (one each INTERVAL) or `connect`, COUNT messages or connections
# in a trial, BLOCKS blocks. DEADHEAT names the program, a build with the feature datachannel; PATH_SPEC the path.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh chromium python3
deadheat=$(realpath "${DEADHEAT:-target/release/deadheat}")
path=${PATH_SPEC:-delay=20ms,loss=2%}
blocks=${BLOCKS:-12}
case ${WORK:-state} in
  state) work=state:hz=${HZ:-60},size=200,count=${COUNT:-600} ;;
  ping) work=ping:interval=${INTERVAL:-20ms},size=64,count=${COUNT:-100} ;;
  connect) work=connect:count=${COUNT:-20} ;;
  *) echo "browser.sh: WORK is state, ping or connect, not $WORK" >&2; exit 2 ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# verdict FILE: the first verdict, as `ahead LABEL`, `dead heat` or `undecided`, and the ratio.
verdict() {
  python3 - "$1" <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))
verdict = result["verdicts"][0]
ahead = verdict.get("ahead")
name = "" if ahead is None else " " + ["websocket", "datachannel"][ahead]
ratio = verdict.get("ratio") or {}
print(f"{verdict['outcome']}{name}\t{ratio.get('point', 0):.3f} ({ratio.get('low', 0):.3f} to {ratio.get('high', 0):.3f})")
PY
}

flags=(--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update --disable-sync
  --unsafely-treat-insecure-origin-as-secure=http://far:5280)

# page NUMBER: a race of the page, whose address takes the work as the command line does; the browser stays until the result is whole.
page() {
  mkdir "$dir/page-$1"
  # shellcheck disable=SC2016 # The inner shell expands these.
  "$deadheat" path run -q "$path" --far "$deadheat serve -q --web --web-results $dir/page-$1" --far-ready 5280 -- \
    sh -c 'chromium "$@" 2>/dev/null & browser=$!
      until grep -qsE "\"status\": *\"(decided|budget)\"" '"$dir/page-$1"'/*.json; do kill -0 $browser || exit 1; sleep 0.5; done
      kill $browser' sh "${flags[@]}" "--user-data-dir=$dir/profile-$1" \
    "http://far:5280/#contenders=websocket,datachannel&work=$work&blocks=$blocks&run"
  verdict "$dir/page-$1"/*.json
}

program() {
  "$deadheat" race ws datachannel -w "$work" --path "$path" --blocks "$blocks" -q -o "$dir/program-$1.json" >/dev/null || [ $? = 3 ]
  verdict "$dir/program-$1.json"
}

agree=0
for n in $(seq "${1:-3}"); do
  of_page=$(page "$n")
  of_program=$(program "$n")
  printf 'page\t%s\nprogram\t%s\n' "$of_page" "$of_program"
  if [ "${of_page%%$'\t'*}" = "${of_program%%$'\t'*}" ]; then agree=$((agree + 1)); fi
done
echo "browser.sh: $agree of ${1:-3} agree, $blocks blocks of $work on $path"
