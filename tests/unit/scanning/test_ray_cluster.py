"""The engine `ray` without Ray: a stand-in runs its tasks here, in an order of its own."""

from __future__ import annotations

import http.server
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stresstest.errors import StresstestError, UsageError
from stresstest.records import parse_fields
from stresstest.scanning.job import ScanJob
from stresstest.scanning.parts import judge_part
from stresstest.scanning.ray_cluster import scan_on_ray
from stresstest.scanning.scan import ScanSettings, scan
from tests.support.scanned_files import Heard, corpus, write


class TaskError(Exception):
    """What Ray raises for a task that failed. cause: what it failed of."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("a worker died\nand so on")
        self.cause = cause


class InlineRay:
    """Tasks run when they are waited for, the last one first."""

    def __init__(self) -> None:
        self.exceptions = SimpleNamespace(RayError=TaskError)
        self.closed = 0
        self.begun_in: Path | None = None

    def init(self, **_options: object) -> None:
        print("what happens to workers")
        self.begun_in = Path.cwd()

    def shutdown(self) -> None:
        self.closed += 1

    def remote(self, **_options: object) -> Callable[[Callable[..., Any]], Any]:
        return lambda step: SimpleNamespace(remote=lambda *given: lambda: step(*given))

    def wait(self, waiting: Sequence[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return list(waiting[-num_returns:]), list(waiting[:-num_returns])

    def get(self, task: Callable[[], Any]) -> Any:
        try:
            return task()
        except Exception as error:  # noqa: BLE001  as Ray does
            raise TaskError(error) from None


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> InlineRay:
    found = InlineRay()
    monkeypatch.setitem(sys.modules, "ray", found)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> ScanSettings:
    rows = corpus(24)
    files = tuple(write(tmp_path / f"{n}.jsonl", rows[8 * n : 8 * n + 8]) for n in range(3))
    job = ScanJob(parse_fields([], ["model"]), ("model",))
    return ScanSettings(files, job, rigor="quick", out=str(tmp_path / "parts"), workers=1)


def test_tasks_say_what_one_machine_says(
    inline: InlineRay, settings: ScanSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same result; the cluster is left again, and nothing of Ray's gets into what is printed. Its workers
    import from the folder that Ray is started in, and a clone may hold any module: that is the root."""
    alone = scan(replace(settings, out=None), Heard())
    heard = Heard()
    together = scan_on_ray(None, settings, heard)
    assert replace(together, seconds=alone.seconds) == alone
    assert heard.done[-1] == sum(Path(name).stat().st_size for name in settings.files)
    assert inline.closed == 1
    assert inline.begun_in == Path(Path.cwd().anchor) != Path.cwd()
    assert capsys.readouterr().out == ""


def test_a_file_that_fails_is_named_and_the_others_are_kept(
    inline: InlineRay, settings: ScanSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies over one file costs no other: the same command judges only that one again."""
    judged: list[str] = []

    def fails_once(work: Any) -> None:
        judged.append(work.name)
        if work.name == settings.files[1] and judged.count(work.name) == 1:
            raise MemoryError
        judge_part(work)

    monkeypatch.setattr("stresstest.scanning.ray_cluster.judge_part", fails_once)
    with pytest.raises(StresstestError, match=r"1 of 3 files could not be judged\. .*1\.jsonl: MemoryError"):
        scan_on_ray(None, settings, Heard())
    assert scan_on_ray(None, settings, Heard()).requests == 24
    assert sorted(judged) == [settings.files[0], settings.files[1], settings.files[1], settings.files[2]]
    assert inline.closed == 2


def test_the_folder_and_ray_are_asked_for(settings: ScanSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder nothing could be kept; without Ray the sentence says how to get it."""
    with pytest.raises(UsageError, match="needs a folder"):
        scan_on_ray(None, replace(settings, out=None), Heard())
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="not installed"):
        scan_on_ray(None, settings, Heard())


def test_a_cluster_that_is_not_there_is_a_sentence_at_once(
    inline: InlineRay, settings: ScanSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray tried for a quarter of an hour."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"me:hunter2@127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(
            UsageError, match=r"The Ray cluster at 127\.0\.0\.1:\d+ cannot be reached"
        ) as told:
            scan_on_ray(address, settings, Heard())
    assert "hunter2" not in str(told.value)
    assert inline.closed == 0


def test_another_server_than_rays_is_a_sentence_at_once(inline: InlineRay, settings: ScanSettings) -> None:
    """The port of Ray's dashboard, or of a model server: Ray tried for a quarter of an hour."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(UsageError, match="No Ray cluster answers at") as told:
            scan_on_ray(f"127.0.0.1:{other.server_port}", settings, Heard())
        other.shutdown()
    assert "6379" in str(told.value.hint)
    assert inline.begun_in is None


def test_a_head_that_is_gone_is_said_and_not_waited_for(
    inline: InlineRay, settings: ScanSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would end the process after a minute, without a sentence."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        context = SimpleNamespace(gcs_address=f"127.0.0.1:{free.getsockname()[1]}")
        monkeypatch.setattr(inline, "wait", lambda waiting, **_: ([], waiting))
        monkeypatch.setattr(inline, "get_runtime_context", lambda: context, raising=False)
        with pytest.raises(StresstestError, match="no longer answers") as told:
            scan_on_ray(None, settings, Heard())
    assert "only the rest" in str(told.value.hint)
    assert inline.closed == 0
