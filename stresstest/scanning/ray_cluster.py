"""`scan` on a Ray cluster (the extra `ray`): one task a file, and finished files are never judged again."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stresstest.errors import StresstestError, UsageError
from stresstest.model.address import without_secrets
from stresstest.own_process import outside_folder
from stresstest.scanning.parts import (
    PartWork,
    clear_drafts,
    is_finished,
    judge_part,
    merge_parts,
    part_works,
    tell_languages,
    with_languages,
)
from stresstest.scanning.scan import ScanSettings, conclude
from stresstest.scanning.scan_state import RecordProgress, ScanState

if TYPE_CHECKING:
    from stresstest.model.scanned import ScanResult

_RETRIES = 5
"""Deaths of a worker or a node that a file survives. Ray itself counts those for lack of memory apart."""
_WARM = "stresstest.scanning.preload"
_HOST_AND_PORT = re.compile(r"(?:ray://)?(?:[^@/]*@)?(\[[^\]]+\]|[^:/@]+):(\d{1,6})")
_CONNECT_S = 10.0
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What every client of gRPC begins with; the server answers with a frame of its settings (4)."""
_SETTINGS = _HTTP2[-9:]
_LOOK_S, _LOOKS = 5.0, 3
"""Seconds between looks at a cluster of which nothing is heard, and failed ones after which it is gone: Ray
itself would end this process after a minute."""
_LONGEST_REASON = 300
_Step = Callable[[PartWork], Any]


class ClusterLostError(StresstestError):
    """The cluster's head is gone."""


def scan_on_ray(address: str | None, settings: ScanSettings, listener: RecordProgress) -> ScanResult:
    """`scan` with one Ray task a file; `settings.out` is the folder of the parts, and finished ones are kept.

    address: of a running cluster; None: RAY_ADDRESS, else a local one for this scan. Raises UsageError for
    files or options that cannot be used, StresstestError when a file could not be judged.
    """
    if settings.out is None:
        raise UsageError("--engine ray needs a folder for the verdicts: --out verdicts/")
    works = part_works(settings.files, settings.job, settings.show, Path(settings.out))
    state = ScanState(settings.job.keys, settings.show, strict=settings.strict, listener=listener)
    began, interrupted = time.monotonic(), False
    # What happens to its workers Ray prints on stdout.
    with contextlib.redirect_stdout(sys.stderr), _cluster(address) as ray:
        try:
            if settings.job.language is None:
                told = dict(_run(ray, _tell_languages, works))
                works = with_languages(works, [told[n] for n in range(len(works))])
            waiting = [work for work in works if not is_finished(work)]
            done = sum(map(_size, works)) - sum(map(_size, waiting))
            for n, _ in _run(ray, _judge_part, waiting):
                done += _size(waiting[n])
                listener.advanced(done, 0, 0)
        except KeyboardInterrupt:
            interrupted = True
    clear_drafts(works)
    merge_parts([work for work in works if is_finished(work)] if interrupted else works, state)
    return conclude(state, settings, interrupted=interrupted, seconds=time.monotonic() - began)


@contextlib.contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise UsageError(
            "--engine ray needs Ray, which is not installed.",
            hint="Install it with: pip install 'ray[data]'",
        ) from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Without an address Ray would join whatever cluster was last started on this machine.
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    shown = address.rpartition("@")[2]
    _require_server(address, shown)
    try:
        with outside_folder():
            ray.init(address=address, log_to_driver=False, logging_level="error", ignore_reinit_error=True)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"The Ray cluster at {shown} cannot be reached: {_one_line(str(error))}") from None
    try:
        yield ray
    except ClusterLostError:
        raise  # there is nobody to sign off from, and to try takes a minute
    except BaseException:
        ray.shutdown()
        raise
    ray.shutdown()


def _require_server(address: str, shown: str) -> None:
    """UsageError where no server of gRPC, as Ray's are, listens at HOST:PORT: Ray would try for a quarter of
    an hour."""
    found = _HOST_AND_PORT.fullmatch(address)
    if found is None:
        return
    try:
        host, port = found[1].strip("[]"), int(found[2])
        with socket.create_connection((host, port), timeout=_CONNECT_S) as connected:
            connected.sendall(_HTTP2)
            frame = b"" if os.environ.get("RAY_USE_TLS", "0") == "0" else _SETTINGS
            while len(frame) < len(_SETTINGS) and (more := connected.recv(len(_SETTINGS) - len(frame))):
                frame += more
    except (OSError, OverflowError) as error:
        raise UsageError(f"The Ray cluster at {shown} cannot be reached: {error}.") from None
    if frame[3:4] != _SETTINGS[3:4]:
        raise UsageError(
            f"No Ray cluster answers at {shown}: another server does.",
            hint="A head listens at port 6379, if `ray start` named no other; 8265 is its dashboard.",
        )


def _run(ray: Any, step: _Step, works: Sequence[PartWork]) -> Iterator[tuple[int, Any]]:
    """(number of the work, result) as they end; what fails is told when everything else is done."""
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES, name=step.__name__)(_in_folder)
    here = str(Path.cwd())
    running = {remote.remote(here, step, work): n for n, work in enumerate(works)}
    failed: list[str] = []
    unseen = 0
    while running:
        ended, _ = ray.wait(list(running), num_returns=1, timeout=_LOOK_S)
        unseen = 0 if ended or _has_a_head(ray) else unseen + 1
        if unseen == _LOOKS:
            raise ClusterLostError(
                "The Ray cluster no longer answers.",
                hint="What is finished is kept; the same command judges only the rest.",
            )
        for reference in ended:
            n = running.pop(reference)
            try:
                yield n, ray.get(reference)
            except ray.exceptions.RayError as error:
                failed.append(f"{works[n].name}: {_reason(error)}")
    if failed:
        raise StresstestError(
            f"{len(failed)} of {len(works)} files could not be judged. {'; '.join(sorted(failed)[:5])}",
            hint="What is finished is kept; the same command judges only the rest.",
        )


def _has_a_head(ray: Any) -> bool:
    """Whether the cluster's head can be reached."""
    host, _, port = str(ray.get_runtime_context().gcs_address).rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_LOOK_S):
            return True
    except (OSError, ValueError):
        return False


def _in_folder(folder: str, step: _Step, work: PartWork) -> Any:
    """The step in the folder of the command, as its paths may be relative. A node may have no such folder."""
    with contextlib.suppress(OSError):
        os.chdir(folder)
    return step(work)


def _size(work: PartWork) -> int:
    return work.state.size or 0


def _reason(error: Exception) -> str:
    cause = getattr(error, "cause", None)  # of what ran on a worker; Ray itself says where that was
    if isinstance(cause, StresstestError):
        return str(cause)
    return (
        _one_line(str(error))
        if cause is None
        else _one_line(f"{type(cause).__name__}: {cause}".removesuffix(": "))
    )


def _one_line(text: str) -> str:
    """The first line of what an error says."""
    return without_secrets(text.strip().partition("\n")[0])[:_LONGEST_REASON]


def _tell_languages(work: PartWork) -> Any:
    importlib.import_module(_WARM)
    return tell_languages(work)


def _judge_part(work: PartWork) -> None:
    importlib.import_module(_WARM)  # once in a process: Ray keeps processes for further files
    judge_part(work)
