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

# fail CODE TEXT: what is wrong, and what would be right
fail() {
  echo "program.sh: $2" >&2
  exit "$1"
}

if [ -n "$url" ]; then
  case "$url" in
  https://* | file://*) ;;
  *) fail 2 "the address $url is neither https:// nor file://; write that of a release's .tar.gz, or leave it out to build deadheat here (input: url)" ;;
  esac
  # Alone, or as sha256sum and release pages print it: in capitals, with a name beside it, below a line of words.
  if [[ "${digest,,}" =~ (^|[^0-9a-z])([0-9a-f]{64})($|[^0-9a-z]) ]]; then
    digest="${BASH_REMATCH[2]}"
  elif [ -z "$digest" ]; then
    fail 2 "the address $url has no digest beside it; write the SHA-256 of that file, 64 hexadecimal digits, as its release has it in SHA256SUMS (input: digest)"
  else
    fail 2 "the digest $digest has not the 64 hexadecimal digits of SHA-256; sha256sum prints them (input: digest)"
  fi
  fetched="$work/fetched"
  curl --proto '=https,file' --tlsv1.2 --fail --silent --show-error --location --retry 3 --output "$fetched" -- "$url" ||
    fail 1 "$url could not be fetched; open it in a browser, or leave it out to build deadheat here (input: url)"
  found="$(sha256sum "$fetched" | cut -d ' ' -f 1)"
  if [ "$found" != "$digest" ]; then
    rm -f "$fetched"
    fail 1 "$url has the digest $found, and $digest is asked for: it is not the file that was meant"
  fi
  case "$url" in
  *.tar.gz | *.tgz)
    rm -rf "${work:?}/unpacked"
    mkdir "$work/unpacked"
    tar -xzf "$fetched" -C "$work/unpacked" --no-same-owner
    # A file of completions may have the same name, and is no program.
    program="$(find "$work/unpacked" -type f -name deadheat -perm -u=x -print -quit)"
    [ -n "$program" ] || fail 1 "$url has no program called deadheat in it; write the address of a release of deadheat (input: url)"
    mv "$program" "$work/bin/deadheat"
    ;;
  *) mv "$fetched" "$work/bin/deadheat" ;;
  esac
  chmod +x "$work/bin/deadheat"
elif [ -n "${DEADHEAT_PROGRAM:-}" ]; then
  [ -x "$DEADHEAT_PROGRAM" ] || fail 2 "DEADHEAT_PROGRAM: there is no program $DEADHEAT_PROGRAM; write the path of deadheat, as command -v deadheat prints it"
  install -m 755 -- "$DEADHEAT_PROGRAM" "$work/bin/deadheat"
else
  command -v cargo >/dev/null ||
    fail 2 "no address of a release is given, and there is no cargo to build deadheat with; give url and digest, or install Rust in a step before (inputs: url, digest)"
  cargo build --release --locked --manifest-path "$here/Cargo.toml" --target-dir "$work/target"
  install -m 755 "$work/target/release/deadheat" "$work/bin/deadheat"
fi
"$work/bin/deadheat" --version || fail 1 "$work/bin/deadheat does not run here; is it built for another processor than $(uname -m)?"
