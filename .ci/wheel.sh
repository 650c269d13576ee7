#!/usr/bin/env bash
# Builds sdist and wheel (the wheel from the sdist), checks both and the files that a release needs, installs the
# wheel by pip, uv and pipx into environments of their own, and uses it outside the checkout: prompts and migrations
# must come from the wheel.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
.venv/bin/python -m build --outdir "$scratch/dist" >"$scratch/build.log" 2>&1 || { cat "$scratch/build.log"; exit 1; }

python3 -m venv "$scratch/tools"
.venv/bin/python -m pip --python "$scratch/tools/bin/python" install --quiet --group release
tools="$scratch/tools/bin"
"$tools/twine" check --strict "$scratch"/dist/*
"$tools/check-wheel-contents" "$scratch"/dist/*.whl
"$tools/hadolint" deploy/Dockerfile
"$tools/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml deploy/github-action/example-workflow.yml
"$tools/check-jsonschema" --builtin-schema vendor.github-actions deploy/github-action/action.yml
"$tools/check-jsonschema" --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml
"$tools/check-jsonschema" --builtin-schema vendor.compose-spec deploy/compose.yaml

# The image's installation without a container: what is copied is enough for what is run.
mkdir "$scratch/src"
sed -n 's/^COPY \(.*\) [^ ]*$/\1/p' deploy/Dockerfile | tr ' ' '\n' | xargs -I{} cp -r {} "$scratch/src/"
python3 -m venv "$scratch/image"
(cd "$scratch/src" && PATH="$scratch/image/bin:$PATH" bash -euc "$(sed -n 's/^RUN \(pip .*\)/\1/p' "$root/deploy/Dockerfile")" >/dev/null)
(cd "$scratch" && image/bin/stresstest plan --lang it >/dev/null)

export UV_TOOL_DIR="$scratch/uv" UV_TOOL_BIN_DIR="$scratch/uv/bin" PIPX_HOME="$scratch/pipx" PIPX_BIN_DIR="$scratch/pipx/bin"
"$tools/uv" tool install --quiet --python python3 "$scratch"/dist/*.whl && "$UV_TOOL_BIN_DIR/stresstest" --version
"$tools/pipx" install --quiet "$scratch"/dist/*.whl && "$PIPX_BIN_DIR/stresstest" --version

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
