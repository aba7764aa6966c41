#!/usr/bin/env bash
# All tests, two programs of them at a time: for half of their time they wait, for a path, a booted kernel or a peer
# (races in them leave idle CPUs asleep, with --idle host). What each says comes in one piece, when it has ended.
# One build has all contenders, those behind features, too: what is true of each build is tested in it.
set -euo pipefail

cargo test --locked --workspace --features all-contenders --lib --bins --tests --no-run

shopt -s nullglob
list() {
  # Those in real time first, beside one another, since they mostly wait: what computes beside them makes them late.
  printf -- '--test %s\n' network conformance attack interop server program
  echo '--lib --bins'
  for room in {,crates/*/,examples/*/}tests/{*.rs,*/main.rs}; do
    name=${room##*tests/}
    name=${name%/main.rs}
    case ${name%.rs} in
    network | conformance | attack | interop | server | program) ;;
    *) echo "--test ${name%.rs}" ;;
    esac
  done
  # Examples of the documentation.
  echo '--doc'
}

outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
export outputs
list | xargs -P 2 -I '{}' bash -c '
  output=$(mktemp "$outputs/XXXXXX")
  result=0
  cargo test --locked --workspace --features all-contenders --no-fail-fast {} >"$output" 2>&1 || result=1
  cat "$output"
  exit $result
'
