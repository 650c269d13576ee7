"""Serves a lab model with real vLLM: `python -m tests.lab.serve --model lab --port 8000`.

vLLM lives in an environment of its own (`tests/lab/install_vllm.sh`); its interpreter is taken from
`STRESSTEST_VLLM_PYTHON`, else from the user's cache folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

MODELS = Path(__file__).parent / "models"
VLLM = "0.32.0"
CONTEXT = 4096
BATCHED_TOKENS = 16384
"""vLLM 0.32 on the CPU dies ("CPU Generator does not use offset") when a request with a seed is prefilled
in parts. With room for every prompt of a batch at once, none is."""
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
}
_WITHOUT_AMX = str(Path(__file__).parent / "without_amx")
_LOG_TAIL = 4000


class ServerError(RuntimeError):
    """vLLM is not installed, did not come up, or ended; the message holds the end of its log."""


def interpreter() -> Path:
    """The Python that can import vLLM. Raises ServerError with the command that installs one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    given = os.environ.get("STRESSTEST_VLLM_PYTHON")
    path = Path(given) if given else cache / "stresstest" / f"vllm-cpu-{VLLM}" / "bin" / "python"
    if not path.exists():
        raise ServerError(f"no vLLM at {path}: run tests/lab/install_vllm.sh or set STRESSTEST_VLLM_PYTHON")
    return path


def command(model: Path, name: str, port: int, extra: Sequence[str] = ()) -> list[str]:
    """The server's command line. Later arguments win, so `extra` may change any of them."""
    return [
        str(interpreter()), "-m", "vllm.entrypoints.openai.api_server",
        "--model", str(model), "--served-model-name", name,
        "--host", "127.0.0.1", "--port", str(port),
        "--max-model-len", str(CONTEXT), "--max-num-batched-tokens", str(BATCHED_TOKENS), "--enforce-eager",
        *extra,
    ]  # fmt: skip


def free_port() -> int:
    """A TCP port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tail(log: IO[bytes]) -> str:
    log.flush()
    return Path(log.name).read_text("utf-8", "replace")[-_LOG_TAIL:]


def _wait_healthy(process: subprocess.Popen[bytes], url: str, log: IO[bytes], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerError(f"vLLM ended with code {process.returncode}:\n{_tail(log)}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise ServerError(f"vLLM was not healthy after {timeout:.0f} s:\n{_tail(log)}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group: the engine is a child that outlives a killed parent."""
    for sign, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 15)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def serve(
    model_dir: Path,
    name: str = "lab",
    port: int | None = None,
    extra_args: Sequence[str] = (),
    *,
    timeout: float = 300,
    log_file: Path | None = None,
) -> Iterator[str]:
    """Run vLLM on `model_dir` for the length of a `with` block; yields its base URL, ending in /v1.

    The log goes to `log_file`, or to a temporary file shown only when the start fails. Raises
    ServerError.
    """
    with serving(model_dir, name, port, extra_args, timeout=timeout, log_file=log_file) as (url, _):
        yield url


@contextlib.contextmanager
def serving(
    model_dir: Path,
    name: str = "lab",
    port: int | None = None,
    extra_args: Sequence[str] = (),
    *,
    timeout: float = 300,
    log_file: Path | None = None,
) -> Iterator[tuple[str, int]]:
    """As `serve`; yields the process group's id as well, for tests that stop or kill the server."""
    chosen = port or free_port()
    with contextlib.ExitStack() as stack:
        if log_file is None:
            log: IO[bytes] = stack.enter_context(tempfile.NamedTemporaryFile(suffix=".log"))
        else:
            log = stack.enter_context(log_file.open("wb"))
        process = subprocess.Popen(
            command(model_dir, name, chosen, extra_args),
            env={**ENVIRONMENT, **os.environ, "PYTHONPATH": _WITHOUT_AMX},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        stack.callback(_stop, process)
        _wait_healthy(process, f"http://127.0.0.1:{chosen}", log, timeout)
        yield f"http://127.0.0.1:{chosen}/v1", process.pid


def main() -> None:
    """Serve until interrupted. Arguments after `--` go to vLLM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="lab", help="a folder of tests/lab/models, or a path")
    parser.add_argument("--served-model-name", help="default: the folder's name")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log", type=Path)
    parser.add_argument("extra", nargs="*", help="more arguments for vLLM, after --")
    args = parser.parse_args()
    folder = MODELS / args.model if (MODELS / args.model).is_dir() else Path(args.model)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    name = args.served_model_name or folder.name
    try:
        with serve(folder, name, args.port, args.extra, log_file=args.log) as url:
            print(f"{name} is served at {url}; Ctrl-C ends it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    except ServerError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
