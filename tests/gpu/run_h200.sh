#!/usr/bin/env bash
# On a GPU host with vLLM on PYTHONPATH: install the kit from its own wheel, run one whole engagement.
#   run_h200.sh WHEELS WORK MAKE_MODEL MAKE_ENGAGEMENT
# WHEELS holds the kit's wheel and what it needs; MAKE_MODEL writes the dummy model's directory.
# The engagement goes on in a session of its own, so that a caller with a time limit can look again.
set -euo pipefail
wheels=$1 work=$2 make_model=$3 make_engagement=$4
mkdir -p "$work"
site=$work/site
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" "$wheels"/*.whl
export PYTHONPATH=$site:${PYTHONPATH:-} HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
python3 -c 'import importlib.metadata as m; print("teardown-kit", m.version("teardown-kit"))'
[ -d "$work/model" ] || python3 "$make_model" "$work/model"
[ -d "$work/engagement" ] || python3 "$make_engagement" "$work/engagement" "$work/model"
setsid nohup python3 -m teardown.cli run "$work/engagement" --yes >"$work/run.log" 2>&1 </dev/null &
echo $! >"$work/pid"
