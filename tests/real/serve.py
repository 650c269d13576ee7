"""Serves the real instruct model with real vLLM: `python -m tests.real.serve --port 8000`.

Uses `tests.lab.serve` with this model's settings: float32, a context of 8,192 tokens, and a KV cache large
enough for 24 long answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.lab import serve as lab
from tests.lab.serve import ServerError
from tests.real.fetch_model import MARKER, default_folder

NAME = "smollm2-135m-instruct"
CONTEXT = 8192
KV_CACHE_GIB = "4"
"""A token takes 46 kB in float32: 93,000 tokens, more than 32 answers of 2,048 with their prompts."""
ARGUMENTS = ("--dtype", "float32", "--max-model-len", str(CONTEXT))
"""Beside `--enforce-eager` and `--max-num-batched-tokens 16384`, which the lab models are served with too."""


@contextlib.contextmanager
def serving(
    model: Path | None = None,
    port: int | None = None,
    extra_args: Sequence[str] = (),
    *,
    timeout: float = 900,
    log_file: Path | None = None,
) -> Iterator[tuple[str, int]]:
    """Run vLLM on the converted model for the length of a `with` block.

    Yields its base URL, ending in /v1, and its process group's id. Raises ServerError, also when the model
    has not been fetched.
    """
    folder = model or default_folder()
    if not (folder / MARKER).exists():
        raise ServerError(f"no model at {folder}: run python -m tests.real.fetch_model")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", KV_CACHE_GIB)
    arguments = (*ARGUMENTS, *extra_args)
    with lab.serving(folder, NAME, port, arguments, timeout=timeout, log_file=log_file) as served:
        yield served


def main() -> None:
    """Serve until interrupted. Arguments after `--` go to vLLM."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="the converted model's folder; default: the user's cache")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log", type=Path)
    parser.add_argument("extra", nargs="*", help="more arguments for vLLM, after --")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with serving(args.model, args.port, args.extra, log_file=args.log) as (url, _):
            print(f"{NAME} is served at {url}; Ctrl-C ends it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    except ServerError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
