#!/usr/bin/env bash
# Copy the records of an experiment into NAME (experiment), without checkpoints and what only a running process needs.
set -euo pipefail
here="$(dirname "$0")/${2:-experiment}"
mkdir -p "$here"
exclude=(--exclude=checkpoint --exclude=work --exclude='*.lock' --exclude=lock --exclude=tables)
[ ! -e "$here/plan.json" ] || exclude+=(--exclude=plan.json)
tar -C "${1:?usage: collect.sh DIRECTORY [NAME]}" "${exclude[@]}" -cf - . | tar -C "$here" -xf -
# A run without a summary has not finished.
find "$here" -type d -name 'seed-*' ! -exec test -e '{}/summary.json' \; -prune -exec rm -r '{}' +
