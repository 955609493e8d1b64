#!/usr/bin/env bash
# Wait for the engagement of run_h200.sh, at most LIMIT seconds; then pack what is small into OUT.
#   watch_h200.sh WORK OUT LIMIT
set -uo pipefail
work=$1 out=$2 limit=$3
for _ in $(seq "$limit"); do
  kill -0 "$(cat "$work/pid")" 2>/dev/null || break
  sleep 1
done
cat "$work/run.log"
cp "$work/run.log" "$out/run.log"
tar czf "$out/engagement.tgz" -C "$work" engagement
ls -la "$out"; kill -0 "$(cat "$work/pid")" 2>/dev/null && echo STILL RUNNING || echo ENDED
