#!/usr/bin/env bash
# Builds the wheel, installs it into an empty environment outside the checkout, and uses it there:
# prompts and migrations must come from the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
.venv/bin/python -m build --wheel --outdir "$scratch/dist" >"$scratch/build.log" 2>&1 || { cat "$scratch/build.log"; exit 1; }
python3 -m venv "$scratch/env"
"$scratch/env/bin/pip" install --quiet "$scratch"/dist/*.whl
cd "$scratch"
export XDG_DATA_HOME="$scratch/data" XDG_CONFIG_HOME="$scratch/config"
st="$scratch/env/bin/stresstest"
"$st" --version
"$st" plan --model any --lang it --task narrative --json | "$scratch/env/bin/python" -c 'import json,sys; d=json.load(sys.stdin); assert d["requests"] > 0, d'
for task in narrative technical qa; do for lang in it en fr; do "$st" plan --lang "$lang" --task "$task" >/dev/null; done; done
"$st" runs list
test -s "$scratch/data/stresstest/stresstest.sqlite3" || { echo "the migrations did not make a store"; find "$scratch/data"; exit 1; }
"$st" report -o index.html && grep -q "Nothing is stored yet" index.html
code=0; "$st" run --model any --lang it --base-url http://127.0.0.1:9/v1 --display none || code=$?
test "$code" = 3 || { echo "expected exit 3 from an unreachable endpoint, got $code"; exit 1; }
echo "the wheel works on its own"
