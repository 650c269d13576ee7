"""Real vLLM in trouble: what it really does then, and that the tool names it. Two servers, started for this.

The first has room for one and a half long answers in its KV cache, is stopped and continued, and is killed at
the end; the second has a short context, no logprobs, eight tokens a chunk and a cap of its own.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from stresstest.campaign import campaign_setup
from stresstest.campaign.execution.events import GenerationAdvanced, GenerationEvent, GenerationFinished
from stresstest.campaign.ladder import CertifyStep, ClimbStep
from stresstest.campaign.progress import Progress
from stresstest.campaign.run import run_campaign
from stresstest.campaign.session import CampaignResult
from stresstest.diagnosis import annotate_planes
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import Timeouts
from stresstest.features.diagnose.workflow import diagnose
from stresstest.model import Basis, FailureKind, Phase, Plane, RunSettings, Subject
from stresstest.store import open_store
from tests.lab.serve import MODELS, serving

pytestmark = pytest.mark.vllm

STALL = 3.0
CAP = 40


@dataclass(frozen=True)
class Server:
    url: str
    group: int


def stresstest(store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "stresstest", "--store", str(store), "--display", "plain", *words],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    print(done.stderr[-3000:], done.stdout[-3000:], sep="\n")
    return done


def short_prompts(folder: Path, count: int, text: str) -> Path:
    """Own prompts: one rung, and no climb before it."""
    path = folder / "prompts.jsonl"
    messages = ({"role": "user", "content": text.format(number=i + 3)} for i in range(count))
    lines = [json.dumps({"id": f"p{i}", "messages": [m]}) for i, m in enumerate(messages)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def cramped() -> Iterator[Server]:
    """vLLM with twelve KV blocks of 128 tokens, for answers of up to a thousand. It computes on one core: on
    all of them it may not answer /metrics for half a minute, and what was not read is not named."""
    extra = ("--max-model-len", "1024", "--num-gpu-blocks-override", "12", "--block-size", "128")
    one = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    with patch.dict(os.environ, one), serving(MODELS / "lab", "lab", extra_args=extra) as (url, group):
        yield Server(url, group)


def test_a_full_cache_preempts_and_is_named(cramped: Server, tmp_path: Path) -> None:
    """Twelve long answers in a cache for two: queueing and preemptions are in the metrics, before the onsets
    of those that broke, as evidence for the system; and what ran on after a preemption is not counted."""
    store = tmp_path / "s.sqlite3"
    done = stresstest(
        store, "run", "--json", "--model", "lab", "--lang", "it", "--rigor", "quick",
        "--base-url", cramped.url, "--concurrency", "12", "--horizon", "900", "--no-abort",
        "--prompts", str(short_prompts(tmp_path, 60, "Scrivi una storia in {number} paragrafi numerati.")),
        "--budget-time", "30s",
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    document = json.loads(done.stdout)
    with open_store(str(store)) as opened:
        samples = opened.samples(document["run_id"])
        run = opened.run(document["run_id"])
        generations = annotate_planes(opened.generations(run.id), samples, run.profile)
    assert run.profile.kv_cache_tokens == 12 * 128
    preemptions = [s.preemptions for s in samples if s.preemptions is not None]
    assert preemptions[-1] > preemptions[0]
    assert max(s.waiting or 0 for s in samples) >= 1
    assert max(s.kv_usage or 0 for s in samples) >= 0.95
    named = [e for g in generations for e in g.evidence if e.supports and e.plane is Plane.SYSTEM]
    print(*{e.fact for e in named}, sep="\n")
    assert any("preemptions" in e.fact and e.value for e in named)
    assert any("KV cache reached" in e.fact for e in named)
    assert any(g.invalid_from is not None for g in generations)
    assert all(g.failure is None for g in generations)


class _Watching(Progress):
    """Calls `then` when a generation of the certifying sample has so many tokens, at most `times` times.

    A client that the machine keeps waiting may get a whole answer at once; then the next one is tried.
    """

    def __init__(self, tokens: int, then: Callable[[], None], times: int) -> None:
        self.tokens = tokens
        self.then = then
        self.left = times
        self.tried: set[str] = set()
        self.certifying = False

    def stage(self, step: ClimbStep | CertifyStep) -> None:
        self.certifying = isinstance(step, CertifyStep)

    def event(self, event: GenerationEvent) -> None:
        if isinstance(event, GenerationFinished) and event.generation.failure is not None:
            self.left = 0
        if not isinstance(event, GenerationAdvanced) or event.tokens < self.tokens or not self.certifying:
            return
        if self.left and event.key not in self.tried:
            self.tried.add(event.key)
            self.left -= 1
            self.then()


@contextmanager
def impatient() -> Iterator[None]:
    """The product's time limits, about a twentieth of what they are. The stall limit is fixed, as with
    `--stall-timeout`: one that follows the waits of a crowded server may outlast them all."""
    limits = Timeouts(connect=STALL, first=4 * STALL, stall=STALL, probe=4 * STALL, fixed=True)
    with patch.object(campaign_setup, "Endpoint", functools.partial(Endpoint, timeouts=limits)):
        yield


async def campaign(
    server: Server,
    folder: Path,
    then: Callable[[], None],
    times: int = 1,
    *,
    concurrency: int = 2,
) -> tuple[CampaignResult, Path]:
    """A campaign of 45 s during which `then` happens, in the middle of two answers.

    Its answers are long: what the server has sent ahead of a client that is late must not be all of them.
    """
    prompts = short_prompts(folder, 40, "Scrivi una storia in {number} paragrafi numerati.")
    settings = RunSettings(
        Subject("lab", "prompts:prompts", "it"), server.url, "narrative", rigor="quick",
        concurrency=concurrency, horizon=700, prompts_file=str(prompts), budget_seconds=45.0, gpus="none",
    )  # fmt: skip
    path = folder / "s.sqlite3"
    with impatient(), open_store(str(path)) as store:
        return await run_campaign(settings, store, _Watching(16, then, times)), path


@contextmanager
def slowed(server: Server) -> Iterator[None]:
    """The server runs a fifth of the time, so that a client which the machine keeps waiting keeps up."""
    over = threading.Event()

    def toggle() -> None:
        while not over.wait(0.05):
            try:
                os.killpg(server.group, signal.SIGSTOP)
                over.wait(0.2)
                os.killpg(server.group, signal.SIGCONT)
            except ProcessLookupError:
                return

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def test_a_server_that_is_stopped_and_continued(cramped: Server, tmp_path: Path) -> None:
    """SIGSTOP in mid-answer: a stall, kept and system by fact; after SIGCONT the campaign goes on."""

    def pause() -> None:
        if paused.is_set():
            return
        paused.set()
        os.killpg(cramped.group, signal.SIGSTOP)
        threading.Timer(3 * STALL, go_on).start()

    def go_on() -> None:
        os.killpg(cramped.group, signal.SIGCONT)
        paused.clear()

    paused = threading.Event()
    ending, _ = await campaign(cramped, tmp_path, pause, times=6)
    assert ending.error is None
    lost = [g for g in ending.result.generations if g.failure is not None]
    print(*(g.failure.message for g in lost if g.failure), sep="\n")
    assert lost
    assert {g.failure.kind for g in lost if g.failure} <= {FailureKind.STALL, FailureKind.TIMEOUT}
    assert all(g.token_summary.count and g.plane is Plane.SYSTEM for g in lost)
    whole = [g for g in ending.result.generations if g.failure is None]
    assert whole
    assert max(g.started for g in whole) > max(g.ended for g in lost)


async def test_requests_that_starve_in_a_tiny_cache_are_system(cramped: Server, tmp_path: Path) -> None:
    """Twelve long answers at once in a cache for two: those that are put back for longer than the client has
    patience are lost, and `diagnose` names the plane by that fact, without an intervention. The server is
    slowed once they write, so that how long that is does not hang on the machine."""
    with ExitStack() as stack:
        ending, path = await campaign(
            cramped, tmp_path, lambda: stack.enter_context(slowed(cramped)), concurrency=12
        )
    with open_store(str(path)) as store:
        kept = store.records(ending.result.run.id)
        found = (await diagnose(ending.result.run.id, store, Progress())).diagnosis
        samples = store.samples(ending.result.run.id)
    lost = [g.failure.kind for g in kept if g.failure is not None]
    print(found.sentence, len(lost), "of", len(kept))
    assert set(lost) <= {FailureKind.STALL, FailureKind.TIMEOUT}
    # Two at once have room: what is lost is lost in the crowd, and was put back.
    assert all(g.failure is None for g in kept if g.job.phase is Phase.CLIMB)
    assert (samples[-1].preemptions or 0) > (samples[0].preemptions or 0)
    first = found.chain[0]
    assert (first.plane, first.basis, first.n) == (Plane.SYSTEM, Basis.OBSERVED, len(lost))


async def test_a_server_that_is_killed_in_mid_answer(cramped: Server, tmp_path: Path) -> None:
    """SIGKILL: the answers in flight are kept as cut, the campaign ends with the sentence of a dead server,
    the resume has everything that was measured, and `diagnose` names the plane without asking the server.
    The last test of this server."""
    with slowed(cramped):
        ending, path = await campaign(cramped, tmp_path, lambda: os.killpg(cramped.group, signal.SIGKILL))
    assert ending.error is not None
    print(ending.error)
    assert "refused the connection" in str(ending.error)
    with open_store(str(path)) as store:
        kept = store.records(ending.result.run.id)
        found = (await diagnose(ending.result.run.id, store, Progress())).diagnosis
    lost = [g for g in kept if g.failure is not None]
    assert lost
    assert found.complete
    assert (found.chain[0].plane, found.chain[0].basis) == (Plane.SYSTEM, Basis.OBSERVED)
    assert found.chain[0].kinds == {"cut": len(lost)}
    assert {g.failure.kind for g in lost if g.failure} == {FailureKind.CUT}
    assert all(g.token_summary.count == g.verdict.tokens >= 1 for g in kept)
    assert len(kept) - len(lost) >= 2


@pytest.fixture(scope="module")
def poor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A short context, no logprobs, eight tokens a chunk, and a generation config that caps every answer."""
    model = tmp_path_factory.mktemp("model") / "lab"
    shutil.copytree(MODELS / "lab", model)
    config = {"temperature": 0.7, "max_new_tokens": CAP}
    (model / "generation_config.json").write_text(json.dumps(config), encoding="utf-8")
    # From --generation-config auto, the default, it would only be taken by requests that name no max_tokens.
    extra = [*("--max-model-len", "128", "--max-logprobs", "0"), *("--stream-interval", "8")]
    extra += ["--generation-config", str(model)]
    with serving(model, "lab", extra_args=extra) as (url, group):
        yield Server(url, group)


def test_doctor_names_what_is_missing_and_what_mends_it(poor: Server, tmp_path: Path) -> None:
    """--max-logprobs 0, a context of 128 and a capping generation config: each with what mends it."""
    done = stresstest(tmp_path / "s.sqlite3", "doctor", "--json", "--base-url", poor.url)
    assert done.returncode == 0
    checks: dict[str, dict[str, Any]] = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    assert "128 tokens of context" in checks["model"]["found"]
    assert checks["logprobs"]["state"] == "missing"
    assert "--max-logprobs 20" in checks["logprobs"]["remedy"]
    assert f"max_new_tokens {CAP}" in checks["sampling defaults"]["found"]
    assert "--generation-config" in checks["sampling defaults"]["cost"]
    assert checks["token ids"]["state"] == checks["token counts"]["state"] == "ok"
    stresstest(tmp_path / "s.sqlite3", "doctor", "--base-url", poor.url)


def test_a_context_that_is_too_small_is_told_before_anything_is_sent(poor: Server, tmp_path: Path) -> None:
    """max_model_len leaves no room for an answer: exit 2 and the option that gives it."""
    done = stresstest(
        tmp_path / "s.sqlite3", "run", "--lang", "it", "--base-url", poor.url, "--prompts",
        str(short_prompts(tmp_path, 3, "Scrivi una storia lunga. " * 12 + "{number}")),
    )  # fmt: skip
    assert done.returncode == 2
    assert "128 tokens" in done.stderr
    assert "--max-model-len" in done.stderr


def test_a_cap_of_the_servers_own_is_named_and_chunks_are_not_tokens(poor: Server, tmp_path: Path) -> None:
    """Every long answer ends at max_new_tokens: said, with the option that lifts it. Eight tokens come in one
    chunk, and each is counted, with its id, and none has an entropy."""
    store, prompts = (
        tmp_path / "s.sqlite3",
        short_prompts(tmp_path, 60, "Scrivi una storia, la numero {number}."),
    )
    done = stresstest(
        store, "run", "--model", "lab", "--lang", "it", "--rigor", "quick", "--base-url", poor.url,
        "--horizon", "64", "--prompts", str(prompts),
    )  # fmt: skip
    assert done.returncode in (0, 4)
    assert f"cut at {CAP} tokens although up to 64 were asked" in " ".join(done.stdout.split())
    with open_store(str(store)) as opened:
        generations = opened.generations(opened.runs()[0].id)
    assert max(g.output_tokens for g in generations) == CAP
    for generation in generations:
        assert generation.failure is None
        assert generation.token_source == "server"
        assert generation.output_tokens == len(generation.tokens) == generation.verdict.tokens
        assert all(t.id is not None and t.entropy is None for t in generation.tokens)
        assert len({t.arrived for t in generation.tokens}) <= len(generation.tokens) // 4
