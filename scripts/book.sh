#!/usr/bin/env bash
# book.sh [URL]: makes pages of docs/ in target/book, with mdbook. Links to files outside of docs/ lead to the repository
# at URL, such as https://example.org/deadheat/blob/main; without one they become the names of the files.
set -euo pipefail

url=${1:-}
from=target/book-src
into=target/book
rm -rf "$from" "$into"
mkdir -p target
cp -r docs "$from"

# Pages of the book that are called README.md are its indexes.
find "$from" -name README.md -execdir mv {} index.md \;
outside() { # outside PREFIX FILE…: sees to links that begin with PREFIX, which leads out of docs/.
  local prefix=${1//./\\.}
  shift
  if [ -n "$url" ]; then
    sed -E -i "s#\]\($prefix([^)]*)\)#]($url/\1)#g" "$@"
  else
    sed -E -i "s#\[([^][]*)\]\($prefix([^)#]*)[^)]*\)#\1 (\`\2\` in the repository)#g" "$@"
  fi
}
outside ../../ "$from"/workloads/*.md
outside ../ "$from"/*.md
find "$from" -name '*.md' -exec sed -E -i 's#\]\((([^):]*/)?)README\.md#](\1index.md#g' {} +

# No line ends between a figure and its unit, as on the pages of reports; fenced text is for copying, and stays.
units=$(paste -sd'|' crates/report/src/html/units.txt)
find "$from" -name '*.md' -exec sed -E -i '/^ *```/,/^ *```/!s#([0-9]) ('"$units"')([^[:alnum:]%/]|$)#\1'$'\xc2\xa0''\2\3#g' {} +

mdbook build "$from" --dest-dir "$PWD/$into"
echo "$into/index.html"
