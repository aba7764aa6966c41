#!/bin/sh
# A map in parts by GNU parallel, on this machine and on others that ssh reaches:
#   docs/map/parallel.sh 8                 eight parts, here
#   docs/map/parallel.sh 32 :,host1,host2  here and there; `deadheat` is in the PATH of each, and rsync is
#   docs/map/parallel.sh 8 : tcp quic -w bulk --path sim: --over 'loss=0..5%/6' --seed 7   another map
set -eu
shards=${1:-8}
hosts=${2:-:}
if [ $# -gt 2 ]; then
    shift 2
else
    set -- quic kcp enet arq -w state --path sim:rate=20mbit \
        --over 'delay=1ms..300ms/12' --over 'loss=0..10%/10' --seed 7
fi
map=$(printf '%s\n' "$@" | parallel -k --shellquote | tr '\n' ' ')

seq "$shards" | parallel --sshlogin "$hosts" --return 'part{}.json' --cleanup --halt soon,fail=1 \
    "deadheat map $map --jobs 1 --quiet --shard {}/$shards --resume -o part{}.json >/dev/null"

parts=$(seq -f 'part%g.json' "$shards")
# shellcheck disable=SC2086 # One name a word.
deadheat merge $parts -o map.json --picture map.svg
