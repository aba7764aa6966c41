#!/usr/bin/env bash
# race.sh: third step of action.yml. Races the two builds in $DEADHEAT_WORK over each path of DEADHEAT_PATHS (one a line), all within
# DEADHEAT_MINUTES, and judges the head against the base. Writes the comment to $DEADHEAT_WORK/comment.md, and to the summary and the
# outputs of a job where there is one. Its exit code is that of the gate: 0 nothing is worse, 3 the races are not trusted, 5 worse. A race
# that fails is tried once more; if it fails again, or is refused, the others go on, and without a worse one the exit code is 3; 2 if all are refused.
# With DEADHEAT_EXCLUDE=10% a gate that cannot rule out that the head is worse by more is neutral: exit code 4.
set -euo pipefail

work="${DEADHEAT_WORK:?DEADHEAT_WORK: a folder for the program, the builds and the results}"
pair="${DEADHEAT_PAIR:-}"
workload="${DEADHEAT_WORKLOAD:-bulk:bytes=10MB}"
margin="${DEADHEAT_MARGIN:-5%}"
minutes="${DEADHEAT_MINUTES:-8}"
deadheat="$work/bin/deadheat"

# fail TEXT: what is wrong, and what would be right
fail() {
  echo "race.sh: $1" >&2
  exit 2
}

paths=()
while IFS= read -r path; do
  path="${path#"${path%%[![:space:]]*}"}"
  path="${path%"${path##*[![:space:]]}"}"
  [ -z "$path" ] || paths+=("$path")
done <<<"${DEADHEAT_PATHS:-}"
[ "${#paths[@]}" -gt 0 ] || paths=(loopback)
beside=()
read -r -a beside <<<"${DEADHEAT_BESIDE:-}"
[[ "$minutes" =~ ^[1-9][0-9]{0,3}$ ]] || fail "\`$minutes\` minutes; write a whole number, such as 8 (input: minutes)"
placement=()
[ -z "${DEADHEAT_PLACEMENT:-}" ] || placement=(--placement "$DEADHEAT_PLACEMENT")
budget=$((minutes * 60 / ${#paths[@]}))
exclude="${DEADHEAT_EXCLUDE:-}"
[[ -z "$exclude" || "$exclude" =~ ^[0-9]{1,3}(\.[0-9]+)?%$ ]] || fail "\`$exclude\` is no share; write one such as 10% (input: exclude)"

# Emulated paths take rights that some hosts give to root alone; a hosted runner gives them without a password.
as=()
if [ "$(id -u)" -ne 0 ] && [ "${DEADHEAT_SUDO:-yes}" = yes ] && sudo -n true 2>/dev/null; then
  as=(sudo -n)
fi

# The file with the commands is that of the base, so that a change under test cannot change how it is measured; where the base has
# none, that of the head.
[ -n "$pair" ] || fail "no file with the two commands is named; write its path in the repository, such as ci/pair.toml (input: pair)"
file="$work/base/$pair"
[ -f "$file" ] || file="$work/head/$pair"
[ -f "$file" ] || fail "neither revision has a file \`$pair\` with the two commands; write its path from the top of the repository (input: pair)"
grep -q '{tree}' "$file" ||
  fail "$pair has no {tree} in it, so both builds would run the same programs; begin them with the folder of a build: server = \"{tree}/build/server …\" (input: pair)"

rm -rf "${work:?}/results" "${work:?}/comment.md"
mkdir -p "$work/results"
number=0 failed=() refused=()
race() { # race PATH RESULT: an exit code of one race is not that of all of them together
  local code=0
  "${as[@]}" "$deadheat" race \
    "cmd:file=$file,set=tree=$work/base,label=base" "cmd:file=$file,set=tree=$work/head,label=head" "${beside[@]}" \
    --workload "$workload" --path "$1" --margin "$margin" --budget "${budget}s" "${placement[@]}" \
    --gate first --gate-races "${#paths[@]}" --quiet --output "$2" || code=$?
  case "$code" in
  0 | 3 | 4 | 5) ;;
  *) return "$code" ;;
  esac
}
for path in "${paths[@]}"; do
  number=$((number + 1))
  result="$work/results/$(printf '%02d' "$number").json"
  echo "race.sh: $path, at most $budget s"
  code=0
  race "$path" "$result" || code=$?
  if [ "$code" = 1 ]; then
    echo "race.sh: $path, once more"
    "${as[@]}" rm -f "$result"
    code=0
    race "$path" "$result" || code=$?
  fi
  case "$code" in
  0) ;;
  1)
    "${as[@]}" rm -f "$result"
    failed+=("$path")
    ;;
  # Such as too little time for this path; the others are judged all the same.
  2) refused+=("$path") ;;
  *) exit "$code" ;;
  esac
done
[ "${#as[@]}" -eq 0 ] || "${as[@]}" chown -R "$(id -u):$(id -g)" "$work/results"

[ "${#refused[@]}" -lt "${#paths[@]}" ] || exit 2

verdict=3
if [ "$((${#failed[@]} + ${#refused[@]}))" -lt "${#paths[@]}" ]; then
  verdict=0
  "$deadheat" report "$work"/results/*.json --format comment --gate first --output "$work/comment.md" || verdict=$?
else
  printf '<!-- deadheat verdict=doubtful -->\n\n### No judgement on head against base\n' >"$work/comment.md"
fi
case "$verdict" in
0 | 3 | 5) ;;
*) exit "$verdict" ;;
esac
if [ "${#failed[@]}" -gt 0 ]; then
  # The report knows how many are missing, and gives no judgement on them.
  printf '\n- No race over `%s`: it failed twice; the log of the job says why.\n' "${failed[@]//\`/}" >>"$work/comment.md"
fi
if [ "${#refused[@]}" -gt 0 ]; then
  printf '\n- No race over `%s`: it was refused before it ran; the log of the job says why.\n' "${refused[@]//\`/}" >>"$work/comment.md"
fi
mark="$(head -n 1 "$work/comment.md")"
value() { sed -nE "s/^<!-- deadheat .*\\b$1=([a-z0-9.]+).*/\\1/p" <<<"$mark"; }
word="$(value verdict)"
if [ -n "$exclude" ] && [ "$verdict" = 0 ]; then
  bound="$(value bound)"
  if ! awk -v bound="${bound:-none}" -v most="${exclude%\%}" 'BEGIN { exit !(bound != "none" && 100 * bound <= most) }'; then
    word=neutral verdict=4
    worse="$(awk -v bound="${bound:-none}" 'BEGIN { print bound == "none" ? "any share" : sprintf("%.1f %%", 100 * bound) }')"
    sed -i "1s/verdict=[a-z]*/verdict=neutral/" "$work/comment.md"
    printf '\n- **Neutral**: the head may be worse by %s, and more than %s had to be ruled out. More minutes, fewer paths, or a claim of CPU time (figure=time+cpu) find more.\n' \
      "$worse" "${exclude%\%} %" >>"$work/comment.md"
  fi
fi
if [ -n "${GITHUB_OUTPUT:-}" ]; then
  {
    echo "verdict=$word"
    echo "ratio=$(value ratio)"
    echo "bound=$(value bound)"
    echo "comment=$work/comment.md"
    echo "results=$work/results"
  } >>"$GITHUB_OUTPUT"
fi
echo "race.sh: exit code $verdict; the comment is $work/comment.md, the results are in $work/results"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$work/comment.md" >>"$GITHUB_STEP_SUMMARY"
exit "$verdict"
