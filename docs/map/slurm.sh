#!/bin/sh
# A map in parts as a Slurm array. Submit with `sbatch docs/map/slurm.sh`; a job that is requeued goes on where it was.
# Another map, in four parts:
#   sbatch --array=1-4 docs/map/slurm.sh tcp quic -w bulk --path sim: --over 'loss=0..5%/6' --seed 7
# When all are done: deadheat merge part*.json -o map.json --picture map.svg
#SBATCH --job-name=deadheat-map
#SBATCH --array=1-8
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
#SBATCH --requeue
set -eu
: "${SLURM_ARRAY_TASK_ID:?submit this with sbatch}"

if [ $# = 0 ]; then
    set -- quic kcp enet arq -w state --path sim:rate=20mbit \
        --over 'delay=1ms..300ms/12' --over 'loss=0..10%/10' --seed 7
fi
exec deadheat map "$@" --jobs "${SLURM_CPUS_PER_TASK:-1}" --quiet \
    --shard "$SLURM_ARRAY_TASK_ID/${SLURM_ARRAY_TASK_COUNT:-8}" --resume -o "part$SLURM_ARRAY_TASK_ID.json"
