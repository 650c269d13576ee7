"""`stresstest cost` on the simulator: pairs of batches, stand-ins, an open loop, and its sentences."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stresstest.campaign.progress import Progress
from stresstest.campaign.provenance.foreign_answers import ForeignAnswersError, refuse_foreign
from stresstest.economics.account import Prices
from stresstest.endpoint import client
from stresstest.endpoint.wire import RequestFeatures, build_body
from stresstest.errors import ExitCode, InterruptedEarlyError, StoreError, UsageError
from stresstest.features.cost.batches import Workload
from stresstest.features.cost.workflow import CHUNKS_NOTE, measure_cost
from stresstest.model import DocumentKind, EndpointProfile, GenerationRequest, Plane, RunSettings, Subject
from stresstest.model.server import ServerClock
from stresstest.simulation.engine import EngineSpec, Hazard, ModelSpec, Scenario, StepTime
from stresstest.simulation.engine.scenario.distribution import FixedDistribution, LognormalDistribution
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.commands import command
from tests.support.fake_vllm import DONE, Events, chunk, fake_vllm, sse
from tests.support.gateways import caching_gateway, refusing_gateway
from tests.support.generations import make, make_job
from tests.support.simulated_servers import served

CAP = 250
LOOPING = Scenario(
    "looping",
    "A quarter of the answers loop from token 60 on",
    ModelSpec(max_model_len=1_024, answer_tokens=LognormalDistribution(100.0, 0.2)),
    EngineSpec(kv_cache_tokens=16_384, step_ms=StepTime(0.1, 0.0, 0.1, 0.0)),
    (Hazard("loop", Plane.DECODING, FixedDistribution(60.0), 0.25),),
)
HEALTHY = Scenario("healthy", "Nothing fails", LOOPING.model, LOOPING.engine)


@pytest.fixture(scope="module")
def looping() -> Iterator[str]:
    with served(LOOPING) as running:
        yield running.base_url


@pytest.fixture(scope="module")
def healthy() -> Iterator[str]:
    with served(HEALTHY) as running:
        yield running.base_url


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    lines = [json.dumps({"id": f"p{i}", "prompt": f"Racconta del mare, numero {i}."}) for i in range(24)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def cost(base_url: str, prompts: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    code, out, err = command(
        "--store", str(prompts.parent / "s.sqlite3"), "--display", "none", "cost", "--base-url", base_url,
        "--lang", "it", "--prompts", str(prompts), "--horizon", str(CAP), "--json", *words,
    )  # fmt: skip
    return code, json.loads(out) if out else {}, err


def batches(document: dict[str, Any]) -> set[str]:
    return {row["batch"] for row in document["timeline"]}


def rows(document: dict[str, Any], arm: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["batch"], r["id"]): r for r in document["timeline"] if r["arm"] == arm}


@pytest.mark.slow
def test_natural_loops_are_found_capped_and_priced(looping: str, prompts: Path) -> None:
    """Detectors find who loops, exactly these are capped at healthy lengths, the account is kept."""
    code, found, err = cost(looping, prompts, "--requests", "8", "--pairs", "3", "--gpu-hour-price", "2.5")
    assert code == 0, err
    assert found["simulated"]
    assert found["complete"]
    assert (found["pairs"], found["requests"]) == (3, 24)
    assert found["labels"]["healthy_slowdown"] == "measured"
    loops = rows(found, "loops")
    assert found["degenerate"] == sum(r["degenerate"] for r in loops.values()) > 0
    assert found["rate"] == pytest.approx(found["degenerate"] / 24)
    assert found["share_of_time"] == pytest.approx(found["inflation"] / (1 + found["inflation"]))
    assert found["money"] == pytest.approx(found["gpu_seconds"] / 3600 * 2.5)
    assert found["healthy_slowdown"]["n"] == 3
    wasted = sum(r["output_tokens"] - r["onset"] + 1 for r in loops.values() if r["degenerate"])
    assert found["wasted_tokens"] == wasted
    with open_store(str(prompts.parent / "s.sqlite3")) as store:
        [kept] = store.documents(DocumentKind.COST)
    assert kept.complete
    assert kept.simulated
    assert kept.body["healthy_slowdown"] == found["healthy_slowdown"]


async def test_no_logprobs_are_requested(healthy: str, prompts: Path) -> None:
    """Production requests none, and formatting them would be most of what is measured."""
    asked: list[int] = []

    class Watching(Progress):
        def started(self, run_id: str, settings: RunSettings, profile: EndpointProfile) -> None:
            asked.append(profile.top_logprobs)

    settings = RunSettings(Subject("", "prompts:p", "it"), healthy, "narrative", prompts_file=str(prompts))
    with open_store(str(prompts.parent / "s.sqlite3")) as store:
        await measure_cost(settings, Workload(requests=4, pairs=1), Prices(), store, Watching())
    assert asked == [0]


async def test_lengths_in_chunks_are_said_to_be_in_chunks(prompts: Path) -> None:
    """A server that says how many tokens a chunk has through logprobs only is not asked for them here."""
    plain = Events([*sse(chunk("Ciao "), chunk("mondo.", finish="stop")), DONE])
    async with fake_vllm(plain) as server:
        ending = await measured(server.url, prompts, Workload(requests=4, pairs=1))
    assert CHUNKS_NOTE in ending.cost.notes


@pytest.mark.slow
async def test_exactly_the_looping_requests_are_capped_in_the_other_arm(looping: str, prompts: Path) -> None:
    """The counterfactual differs in nothing else: a request's text is the same, the loopers' is shorter."""
    ending = await measured(looping, prompts, Workload(requests=8, pairs=3))
    arms: dict[str, dict[Any, Any]] = {"loops": {}, "capped": {}}
    for span in ending.cost.spans:
        arms[span.arm][span.pair, span.id] = span
    loops, capped = arms["loops"], arms["capped"]
    assert ending.cost.requests == len(loops) == 24, "each request counts once"
    for key, span in capped.items():
        if loops[key].loops:
            assert loops[key].output_tokens == CAP
            assert span.output_tokens == span.max_tokens < CAP
        else:
            assert span.output_tokens == loops[key].output_tokens
            assert span.healthy
    assert {pair for pair, _ in capped} == {s.pair for s in loops.values() if s.loops}
    assert min(s.submitted for (n, _), s in capped.items() if n == 1) < min(
        s.submitted for (n, _), s in loops.items() if n == 1
    ), "a scout told who loops, so that the capped arm could go first"


def test_stand_ins_on_a_server_that_ignores_ignore_eos_are_no_loops(
    healthy: str, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gateways drop the field: the stand-ins then end by themselves, and "loops cost less than 1 %"."""

    def without_it(request: GenerationRequest, model: str, features: RequestFeatures) -> dict[str, Any]:
        body = build_body(request, model, features)
        body.pop("ignore_eos", None)
        return body

    monkeypatch.setattr(client, "build_body", without_it)
    code, _, err = cost(healthy, prompts, "--requests", "8", "--pairs", "2", "--plant", "25%")
    assert code == ExitCode.ENDPOINT
    assert "the server ignores ignore_eos, so they stand for no loops" in err


def test_answers_out_of_a_gateways_cache_have_no_cost(healthy: str, prompts: Path) -> None:
    """In one batch of a pair the healthy answers came from the cache: loops "cost 34 % of the time"."""
    with caching_gateway(healthy) as url:
        code, found, err = cost(url, prompts, "--requests", "8", "--pairs", "2", "--plant", "25%")
    assert (code, found["pairs"]) == (ExitCode.ENDPOINT, 0)
    assert "6 of 8 answers are earlier ones again, by id and text: a cache in front" in err


@pytest.mark.slow
def test_requests_that_a_full_gateway_refused_are_said_to_have_waited(healthy: str, prompts: Path) -> None:
    """They waited at the client, for places that loops held, and the price was a seventh of the true one."""
    with refusing_gateway(healthy, 4) as url:
        _, found, _ = cost(url, prompts, "--requests", "8", "--pairs", "2", "--plant", "25%")
    [told] = [note for note in found["notes"] if "sent again" in note]
    assert int(told.split()[0]) >= 4


def test_a_batch_that_is_older_than_its_requests_has_no_cost() -> None:
    """The same command sends the same requests: both arms came from the cache of the day before."""
    day = 86_400.0
    made = [
        replace(make(make_job(index=i), 40), started=1.79e9 + day, created=int(1.79e9) + i) for i in range(8)
    ]
    with pytest.raises(ForeignAnswersError, match="8 of 8 answers were made before they were asked"):
        refuse_foreign(made, (), ServerClock(int(1.79e9 + day), -0.2))


def test_what_a_full_disk_keeps_from_the_store_is_printed(
    looping: str, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests have been paid for: the account of the first pair is on stdout."""

    def full(*_: Any, **__: Any) -> str:
        raise StoreError("The store could not be written: database or disk is full.")

    monkeypatch.setattr(Store, "save_document", full)
    code, found, err = cost(looping, prompts, "--requests", "8", "--pairs", "3")
    assert code == ExitCode.USAGE
    assert "disk is full" in err
    assert (found["pairs"], found["complete"]) == (1, False)


@pytest.mark.slow
def test_a_gateway_that_caps_below_is_named(
    healthy: str, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops end at its cap, not at the horizon: what they cost is said of that length only."""

    def capped(request: GenerationRequest, model: str, features: RequestFeatures) -> dict[str, Any]:
        body = build_body(request, model, features)
        return body | {"max_tokens": min(body["max_tokens"], 200)}

    monkeypatch.setattr(client, "build_body", capped)
    code, found, err = cost(healthy, prompts, "--requests", "8", "--pairs", "2", "--plant", "25%")
    assert code == 0, err
    assert any(f"cut at 200 tokens although up to {CAP} were asked" in note for note in found["notes"])


@pytest.mark.slow
def test_planted_stand_ins_run_to_the_cap_and_are_called_so(healthy: str, prompts: Path) -> None:
    """On a server that never loops, stand-ins cost something; none of them counts as degenerate."""
    code, found, err = cost(healthy, prompts, "--requests", "8", "--pairs", "2", "--plant", "25%")
    assert code == 0, err
    assert found["planted"] == 4
    stand_ins = [r for r in rows(found, "loops").values() if r["planted"]]
    assert [r["output_tokens"] for r in stand_ins] == [CAP] * 4
    healthy_ones = [r for r in rows(found, "loops").values() if not r["planted"]]
    assert found["degenerate"] == sum(r["degenerate"] for r in healthy_ones) == 0
    matched = [r["output_tokens"] for r in rows(found, "capped").values() if r["planted"]]
    assert len(matched) == 4
    sent = {b: min(r["submitted"] for r in found["timeline"] if r["batch"] == b) for b in batches(found)}
    assert sent["0/loops"] < sent["0/capped"] < sent["1/capped"] < sent["1/loops"], "orders alternate"
    assert set(matched) <= {r["output_tokens"] for r in healthy_ones}
    assert any("stand in for loops" in note for note in found["notes"])


def test_the_account_goes_to_a_file_and_a_budget_ends_it_early(looping: str, prompts: Path) -> None:
    """Markdown for people, named as simulated; with the budget spent no further pair is begun."""
    path = prompts.parent / "cost.md"
    words = ("--requests", "12", "--pairs", "4", "--budget-tokens", "500", "-o", str(path))
    code, found, err = cost(looping, prompts, *words)
    assert code == 0, err
    assert (found["pairs"], found["complete"]) == (1, False)
    assert "the budget is spent after 1 complete pairs" in err
    text = path.read_text(encoding="utf-8")
    assert text.startswith("SIMULATED")
    assert "| share of observed time lost |" in text


def test_an_open_loop_sends_at_its_own_pace(healthy: str, prompts: Path) -> None:
    """Arrivals are Poisson and the same in every repetition, answered or not."""
    words = ("--requests", "6", "--pairs", "1", "--rate", "40", "--plant", "20%")
    code, found, err = cost(healthy, prompts, *words)
    assert code == 0, err
    at = sorted(r["submitted"] for r in rows(found, "loops").values())
    assert len({round(b - a, 3) for a, b in pairwise(at)}) > 2
    assert at[-1] - at[0] > 0.03


def test_nothing_that_loops_is_inconclusive_and_says_what_to_do(healthy: str, prompts: Path) -> None:
    """No loop, no price: exit 4, a whole document, and a way on."""
    code, found, err = cost(healthy, prompts, "--requests", "4", "--pairs", "1")
    assert code == ExitCode.INCONCLUSIVE
    assert found["degenerate"] == 0
    assert "no cost to measure" in err
    assert "--plant" in err
    for key in ("counterfactual_s", "share_of_time", "inflation", "gpu_seconds", "money"):
        assert found[key] is None, key
        assert key not in found["labels"]
    assert found["healthy_slowdown"]["ratio"] is None
    assert found["modelled"] == []
    assert found["wall_clock_s"] > 0


def shown(base_url: str, prompts: Path, *words: str) -> tuple[int, str, str]:
    """The account as a person reads it, its white space single blanks."""
    code, out, err = command(
        "--store", str(prompts.parent / "s.sqlite3"), "--display", "plain", "cost", "--base-url", base_url,
        "--lang", "it", "--prompts", str(prompts), "--horizon", str(CAP), *words,
    )  # fmt: skip
    return code, " ".join(out.split()), " ".join(err.split())


def test_pairs_without_a_loop_show_no_ratio_that_looks_measured(healthy: str, prompts: Path) -> None:
    """A dash and the reason, instead of × 1.000 with an interval of no width."""
    code, out, _ = shown(healthy, prompts, "--requests", "4", "--pairs", "3")
    assert code == ExitCode.INCONCLUSIVE
    assert "healthy requests slowed down – (no pair had a loop)" in out
    assert "without loops, with them –" in out
    assert "no request looped in any pair" in out
    assert "1.000" not in out
    assert "lengthen a batch" not in out
    assert "Cheapest max_tokens" not in out


def test_where_everything_loops_it_says_why_no_healthy_request_is_slowed_down(prompts: Path) -> None:
    """No healthy request, no slowdown: the row stays, with a dash and the reason."""
    [hazard] = LOOPING.hazards
    with served(replace(LOOPING, hazards=(replace(hazard, probability=1.0),))) as running:
        code, out, err = shown(running.base_url, prompts, "--requests", "4", "--pairs", "2")
    assert code == 0, err
    assert "healthy requests slowed down – (none was healthy in both batches)" in out
    assert "no request was healthy in both batches of a pair" in out
    assert "pair 2 of 2: finding out which requests loop" in err


def test_the_account_comes_before_an_error_of_what_was_asked_beside_it(
    looping: str, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests were paid for: table and JSON are printed even where the cheapest cap fails."""

    def failing(*_: object, **__: object) -> None:
        raise UsageError("The cap cannot be computed.")

    monkeypatch.setattr("stresstest.economics.optimum.find_cheapest_cap", failing)
    words = ("--requests", "6", "--pairs", "1")
    code, out, err = shown(looping, prompts, *words)
    assert code == ExitCode.USAGE
    assert "a batch takes" in out
    assert "The cap cannot be computed." in err
    code, found, _ = cost(looping, prompts, *words)
    assert code == ExitCode.USAGE
    assert (found["requests"], found["optimum"]) == (6, None)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--requests", "1"), "--requests must be at least 2"),
        (("--pairs", "0"), "--pairs must be at least 1"),
        (("--requests", "100000000"), "at most 1,000,000"),
        (("--pairs", "100000000"), "at most 1,000,000"),
        (("--rate", "0"), "--rate must be above zero"),
        (("--rate", "nan"), "--rate must be above zero"),
        (("--rate", "inf"), "--rate must be above zero"),
        (("--plant", "nan"), "--plant"),
        (("--rate", "2", "-c", "4"), "cannot be combined"),
        (("--plant", "90%"), "between 0 % and 50 %"),
        (("--plant", "many"), "'many'"),
        (("--units", "0"), "--units must be at least 1"),
        (("--gpu-hour-price", "-1"), "--gpu-hour-price must be a number of at least 0"),
        (("--gpu-hour-price", "nan"), "--gpu-hour-price must be a number of at least 0"),
        (("--gpu-hour-price", "inf"), "--gpu-hour-price must be a number of at least 0"),
        (("--field", "start=t0"), "applies to files only"),
        (("-o", "cost.pdf"), "it selects the format"),
    ],
)
def test_numbers_that_make_no_measurement_are_refused(
    prompts: Path, words: tuple[str, ...], sentence: str
) -> None:
    """Before anything is sent: exit 2 and a sentence that names the option."""
    code, _, err = cost("http://127.0.0.1:9/v1", prompts, *words)
    assert code == ExitCode.USAGE
    assert sentence in err
    assert "Traceback" not in err


def test_a_server_that_is_not_there_is_an_endpoint_error(prompts: Path) -> None:
    """Exit 3 and one sentence, as every command."""
    code, _, err = cost("http://127.0.0.1:9/v1", prompts)
    assert code == ExitCode.ENDPOINT
    assert "Traceback" not in err


async def measured(url: str, prompts: Path, workload: Workload, stop_after: int | None = None) -> Any:
    """The workflow itself; a stop is asked for when so many batches have begun."""
    stop, begun = asyncio.Event(), 0

    class Watching(Progress):
        def measuring(self, what: str, total: int, cuts: Mapping[str, int] | None = None) -> None:
            nonlocal begun
            begun += 1
            if stop_after is not None and begun > stop_after:
                stop.set()

    settings = RunSettings(
        Subject("", "prompts:p", "it"), url, "narrative", prompts_file=str(prompts), horizon=CAP
    )
    with open_store(str(prompts.parent / "s.sqlite3")) as store:
        return await measure_cost(settings, workload, Prices(), store, Watching(), stop=stop)


async def test_an_interruption_keeps_the_complete_pairs(looping: str, prompts: Path) -> None:
    """Ctrl-C in the second pair: the first is accounted for and stored, marked as incomplete."""
    ending = await measured(looping, prompts, Workload(requests=8, pairs=4), stop_after=2)
    assert ending.interrupted
    assert not ending.cost.complete
    assert ending.cost.pairs == 1
    with open_store(str(prompts.parent / "s.sqlite3")) as store:
        kept = store.document(ending.document)
    assert not kept.complete
    assert kept.body["pairs"] == 1


async def test_an_interruption_before_the_first_batch_is_over_has_nothing_to_keep(
    looping: str, prompts: Path
) -> None:
    """Half a batch is no batch: nothing is shown as measured."""
    with pytest.raises(InterruptedEarlyError):
        await measured(looping, prompts, Workload(requests=8, pairs=2), stop_after=0)
