"""Compiles the stand-in library and runs Python under it.

pynvml loads "libnvidia-ml.so.1" by its bare name, so LD_LIBRARY_PATH decides which one it finds; the
loader reads that variable once at start, hence a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

READINGS = """
import dataclasses, json, sys
from stresstest.telemetry.gpu.nvml_reader import GpuUnavailableError
from stresstest.telemetry.gpu.nvml_reader import NvmlReader
how_often, *wanted = sys.argv[1:]
try:
    reader = NvmlReader(wanted)
except GpuUnavailableError as error:
    print(json.dumps({"trouble": str(error), "hint": error.hint}))
    sys.exit()
samples = []
for _ in range(int(how_often)):
    samples += [dataclasses.asdict(s) for s in reader.read()]
print(json.dumps({"driver": reader.driver, "samples": samples, "exhausted": reader.exhausted}))
reader.close()
"""
"""Reads N times without pauses and prints what was read. Arguments: N, then the wanted GPUs."""


def compiler() -> str | None:
    """The C compiler here, if there is one."""
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path, *flags: str) -> Path:
    """Compile the stand-in into `folder`; returns the folder for `run_python`."""
    found = compiler()
    assert found is not None
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    command = [found, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    subprocess.run([*command, "-o", str(library), str(HERE / "standin.c")], check=True)
    return folder


def run_python(library: Path | None, script: Path, code: str, *arguments: str) -> Any:
    """Run `code` with the stand-in in `library` (None: with none) on `script`; the JSON that it prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NVML_SCRIPT": str(script)}
    environment["LD_LIBRARY_PATH"] = str(library) if library else str(script.parent / "nowhere")
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
