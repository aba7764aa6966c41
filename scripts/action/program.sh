#!/usr/bin/env bash
# program.sh: first step of action.yml. Puts the program at $DEADHEAT_WORK/bin/deadheat: fetched from DEADHEAT_URL (https: or
# file:) if its SHA-256 is DEADHEAT_DIGEST, and built from the sources beside this script where no address is given. The
# address may be that of the program itself, or of a .tar.gz with it.
set -euo pipefail

here="$(cd "$(dirname "$0")/../.." && pwd)"
work="${DEADHEAT_WORK:?DEADHEAT_WORK: a folder for the program, the builds and the results}"
url="${DEADHEAT_URL:-}"
digest="${DEADHEAT_DIGEST:-}"
mkdir -p "$work/bin"

if [ -n "$url" ]; then
  # Alone, or as sha256sum and release pages print it: in capitals, with a name beside it, below a line of words.
  if [[ "${digest,,}" =~ (^|[^0-9a-z])([0-9a-f]{64})($|[^0-9a-z]) ]]; then
    digest="${BASH_REMATCH[2]}"
  else
    echo "program.sh: an address takes a digest, 64 hexadecimal digits of SHA-256 (input: digest)" >&2
    exit 2
  fi
  fetched="$work/fetched"
  curl --proto '=https,file' --tlsv1.2 --fail --silent --show-error --location --retry 3 --output "$fetched" -- "$url"
  found="$(sha256sum "$fetched" | cut -d ' ' -f 1)"
  if [ "$found" != "$digest" ]; then
    rm -f "$fetched"
    echo "program.sh: $url has the digest $found, and $digest is asked for: it is not the file that was meant" >&2
    exit 1
  fi
  case "$url" in
  *.tar.gz | *.tgz)
    rm -rf "${work:?}/unpacked"
    mkdir "$work/unpacked"
    tar -xzf "$fetched" -C "$work/unpacked" --no-same-owner
    # A file of completions may have the same name, and is no program.
    program="$(find "$work/unpacked" -type f -name deadheat -perm -u=x -print -quit)"
    if [ -z "$program" ]; then
      echo "program.sh: $url has no program called deadheat in it" >&2
      exit 1
    fi
    mv "$program" "$work/bin/deadheat"
    ;;
  *) mv "$fetched" "$work/bin/deadheat" ;;
  esac
  chmod +x "$work/bin/deadheat"
elif [ -n "${DEADHEAT_PROGRAM:-}" ]; then
  install -m 755 -- "$DEADHEAT_PROGRAM" "$work/bin/deadheat"
else
  cargo build --release --locked --manifest-path "$here/Cargo.toml" --target-dir "$work/target"
  install -m 755 "$work/target/release/deadheat" "$work/bin/deadheat"
fi
"$work/bin/deadheat" --version
