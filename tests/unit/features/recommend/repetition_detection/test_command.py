"""`recommend`: the audit of early stops over stored outputs, the cheapest cap, and metrics of the limits."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from stresstest.errors import ExitCode
from stresstest.model import (
    Decoding,
    DocumentKind,
    FailureKind,
    Generation,
    GenerationVerdict,
    Plane,
    PlaneVerdict,
    ServiceFailure,
    Symptom,
    SymptomKind,
    Threshold,
    Token,
)
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.cost_logs import rows
from tests.support.snapshots import Snapshot, flat
from tests.support.stored_data import SUBJECT, make_generation, make_run
from tests.support.stories import story


def generation(index: int, *, loops: bool, ids: bool = True) -> Generation:
    """A stored answer of random tokens; a looping one repeats thirty of them from token 131 on."""
    rng = random.Random(index)
    numbers = [rng.randrange(5_000) for _ in range(160)]
    if loops:
        numbers = numbers[:100] + numbers[100:130] * 12
    tokens = tuple(Token(f" w{number}", number if ids else None) for number in numbers)
    verdict = GenerationVerdict(len(tokens), len(tokens))
    if loops:
        symptom = Symptom(SymptomKind.LOOP, 131, 190, start=101)
        verdict = GenerationVerdict(
            len(tokens), 130, 131, 190, SymptomKind.LOOP, (symptom,), loops_to_end=True
        )
    made = make_generation(index)
    reason = "length" if loops else "stop"
    return replace(
        made, tokens=tokens, verdict=verdict, finish_reason=reason, aborted=False, output_tokens=len(tokens)
    )


def stored(folder: Path, *, ids: bool = True) -> str:
    path = str(folder / "store.sqlite3")
    with open_store(path) as store:
        store.create_run(make_run("r1"))
        for index in range(24):
            store.add_generation("r1", generation(index, loops=index % 4 == 0, ids=ids))
    return path


def audited(*words: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = command("--display", "none", *words, "--format", "json")
    return code, json.loads(out)


@pytest.mark.parametrize(("ids", "scale"), [(True, "token ids"), (False, "token texts")])
def test_a_stored_run_is_replayed(tmp_path: Path, ids: bool, scale: str) -> None:
    """Loops of period 30: the best setting sees that period, catches them all and stops nobody."""
    code, found = audited("--store", stored(tmp_path, ids=ids), "recommend", "--repetition-detection", "r1")
    assert (code, found["scale"], found["streams"], found["loops"]) == (0, scale, 24, 6)
    body = found["repetition_detection"]
    assert body["min_pattern_size"] <= 30 <= body["max_pattern_size"]
    told = found["audit"]
    assert told["loops_caught"]["k"] == told["loops_caught"]["n"] == 3
    assert told["healthy_stopped"]["k"] == 0
    assert told["healthy_stopped"]["ci"][1] > 0.2  # nine healthy outputs prove little
    assert found["online_detector"]["tokens_saved"] == 3 * (460 - 190)
    nothing, aborted, *_ = found["tokens_per_delivered_answer"]
    assert nothing["tokens"] == pytest.approx((18 * 160 + 6 * 460) / 18)
    assert aborted["tokens"] == pytest.approx((18 * 160 + 6 * 190) / 18)


@pytest.mark.slow
def test_files_are_replayed_as_scan_reads_them(tmp_path: Path, snapshot: Snapshot) -> None:
    """A log without token ids: words stand in, and the report says so."""
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows(96, 8, 0.12)), encoding="utf-8")
    store = str(tmp_path / "s.sqlite3")
    code, found = audited("--store", store, "recommend", "--repetition-detection", str(path))
    assert (code, found["scale"], found["streams"]) == (4, "words", 96)
    snapshot("\n".join(found["notes"]))
    assert found["setting"] is not None
    assert found["repetition_detection"] is None, (
        "a server counts tokens: patterns of words are no request body"
    )
    code, out, _ = command("--store", store, "recommend", "--repetition-detection", str(path))
    assert code == 4
    assert '{"repetition_detection"' not in out
    assert found["audit"]["loops_caught"]["n"] + found["audit"]["healthy_stopped"]["n"] <= found["told_on"]


def test_reading_a_log_shows_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of hours was read without a sign of life."""
    monkeypatch.setattr("stresstest.render.scan_progress._EVERY_S", 0.0)
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows(12, 8, 0.25)), encoding="utf-8")
    for display, shown in (("plain", True), ("none", False)):
        store = str(tmp_path / "s.sqlite3")
        words = ("--display", display, "--store", store, "recommend", "--repetition-detection", str(path))
        _, _, err = command(*words)
        assert ("12 requests" in err) is shown


def test_outputs_that_the_log_has_cut_are_no_healthy_ones(tmp_path: Path) -> None:
    """What loops behind a cut at 400 characters loops unseen: it was "nothing to stop", of 120 outputs."""
    texts = [story(12, seed=n)[:400] for n in range(20)] + [f"{story(2, seed=n)[:300]}." for n in range(30)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"response": text}) + "\n" for text in texts), encoding="utf-8")
    store = str(tmp_path / "s.sqlite3")
    code, found = audited("--store", store, "recommend", "--repetition-detection", str(path), "--lang", "en")
    assert code == ExitCode.INCONCLUSIVE
    assert found["unseen"] + found["streams"] == 50
    assert found["unseen"] >= 15
    assert found["verdict"].startswith("Whether outputs loop is not known: ")


def test_loops_that_were_given_up_are_loops(tmp_path: Path) -> None:
    """Clients and gateways give up exactly the loops: "no output loops, leave repetition_detection off"."""
    store, lost = str(tmp_path / "s.sqlite3"), ServiceFailure(FailureKind.CUT, "cut off")
    with open_store(store) as opened:
        opened.create_run(make_run("r1"))
        for index in range(24):
            made = generation(index, loops=index % 4 == 0)
            given_up = index % 4 == 0 or index == 1
            opened.add_generation("r1", replace(made, failure=lost) if given_up else made)
    code, found = audited("--store", store, "recommend", "--repetition-detection", "r1")
    assert (code, found["streams"], found["loops"], found["unseen"]) == (0, 23, 6, 1)
    assert "In no number: 1 more output was given up before it failed" in " ".join(found["notes"])
    path = tmp_path / "log.jsonl"
    log = [
        {**row, "finish_reason": "abort"} if row["onset"] is not None else row for row in rows(96, 8, 0.12)
    ]
    path.write_text("\n".join(map(json.dumps, log)), encoding="utf-8")
    _, found = audited("--store", store, "recommend", "--repetition-detection", str(path))
    assert found["loops"] == sum(row["onset"] is not None for row in log) > 0


def test_loops_within_the_reasoning_are_loops(tmp_path: Path) -> None:
    """A server's repetition_detection sees the reasoning, too, where most loops of reasoning models are."""
    log = []
    for row in rows(96, 8, 0.12):
        said = row["response"]
        looping = row["onset"] is not None
        log.append(
            row | {"reasoning_content": said if looping else "Fine.", "response": "" if looping else said}
        )
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, log)), encoding="utf-8")
    store = str(tmp_path / "s.sqlite3")
    _, found = audited("--store", store, "recommend", "--repetition-detection", str(path))
    loops = sum(row["onset"] is not None for row in log)
    assert (found["streams"], found["loops"]) == (96, loops)
    assert found["setting"] is not None
    assert found["audit"]["loops_caught"]["k"] > 0
    assert found["online_detector"]["tokens_saved"] > 0


def test_of_many_outputs_a_sample_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A week's log would fill the memory. The same outputs are drawn each time, and it says so."""
    monkeypatch.setattr("stresstest.features.recommend.repetition_detection.workflow.MAX_STREAMS", 10)
    words = ["--store", stored(tmp_path), "recommend", "--repetition-detection", "r1"]
    code, found = audited(*words)
    assert (code, found["streams"], found["left_aside"]) == (0, 10, 14)
    assert any("10 outputs are a random sample: 14 more, of which " in note for note in found["notes"])
    assert audited(*words)[1] == found


def test_copies_of_an_output_count_once(tmp_path: Path) -> None:
    """Fifteen outputs, each eight times in the log, were 120: "(best)", loops caught 12/12 (74–100 %),
    healthy stopped 0/48 (0–7 %), where the fifteen alone have 1/1 and 0/6 (0–46 %)."""
    once = [
        {
            "prompt": f"Question {n}.",
            "response": story(12, seed=n) + " round and round it goes again" * 60 * (n < 3),
        }
        for n in range(15)
    ]
    found = []
    for name, log in (("once", once), ("copies", [*once * 7, *once])):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"id": f"{n}", **row}) + "\n" for n, row in enumerate(log)))
        words = ["recommend", "--repetition-detection", str(path), "--lang", "en"]
        found.append(audited("--store", str(tmp_path / "s.sqlite3"), *words)[1])
    alone, again = found
    assert (alone["streams"], alone["loops"], alone["copies"]) == (15, 3, 0)
    assert (again["streams"], again["loops"], again["copies"], again["left_aside"]) == (15, 3, 105, 0)
    assert again["audit"] == alone["audit"]
    assert again["tokens_per_delivered_answer"] == alone["tokens_per_delivered_answer"]
    assert again["false_stops_bounded"] is False
    assert "105 more outputs are copies of these, word for word: they are in no number." in again["notes"]


def test_a_run_of_one_prompt_has_no_second_half(tmp_path: Path) -> None:
    """The setting would be tested on the prompt that it was chosen on."""
    path = str(tmp_path / "store.sqlite3")
    with open_store(path) as store:
        store.create_run(make_run("r1"))
        for index in range(24):
            made = generation(index, loops=index % 4 == 0)
            store.add_generation("r1", replace(made, prompt_id="narrative/it/0"))
    code, _, err = command("--store", path, "recommend", "--repetition-detection", "r1")
    assert code == ExitCode.INCONCLUSIVE
    assert "All 24 outputs are of one prompt" in flat(err)


def test_the_table_prints_the_request_body(tmp_path: Path) -> None:
    """A person can copy the body: one line of valid JSON with vLLM's own keys."""
    code, out, _ = command("--store", stored(tmp_path), "recommend", "--repetition-detection", "r1")
    assert code == 0
    [line] = [line for line in out.splitlines() if line.strip().startswith("{")]
    body = json.loads(line)["repetition_detection"]
    assert set(body) == {"max_pattern_size", "min_pattern_size", "min_count"}


def test_too_few_healthy_outputs_make_no_best_setting(tmp_path: Path, snapshot: Snapshot) -> None:
    """Nine healthy outputs leave room for a third of false stops: it says so, and not "best"."""
    path = stored(tmp_path)
    code, out, _ = command("--store", path, "recommend", "--repetition-detection", "r1")
    assert code == 0
    snapshot(out)
    _, found = audited("--store", path, "recommend", "--repetition-detection", "r1")
    assert found["false_stops_bounded"] is False
    assert found["audit"]["false_stops_upper"] == pytest.approx(1 - 0.025 ** (1 / 9))


def test_outputs_that_all_loop_cannot_tell_what_a_setting_does_to_healthy_text(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    """The setting that saves the most is a candidate; that it "is not worth it" would be wrong."""
    path = str(tmp_path / "store.sqlite3")
    with open_store(path) as store:
        store.create_run(make_run("r1"))
        for index in range(12):
            store.add_generation("r1", replace(generation(index, loops=True), aborted=index < 5))
    code, found = audited("--store", path, "recommend", "--repetition-detection", "r1")
    assert code == 0
    assert found["audit"]["loops_caught"]["k"] == 6
    snapshot("\n".join([found["verdict"], *found["notes"]]))


def test_too_little_or_nothing_to_stop(tmp_path: Path, snapshot: Snapshot) -> None:
    """Few outputs are an error (2); outputs without a loop are inconclusive (4), the JSON is still there."""
    path = str(tmp_path / "store.sqlite3")
    with open_store(path) as store:
        store.create_run(make_run("few"))
        store.create_run(make_run("fine"))
        store.add_generation("few", generation(1, loops=True))
        for index in range(12):
            store.add_generation("fine", generation(index, loops=False))
    code, _, err = command("--store", path, "recommend", "--repetition-detection", "few")
    assert code == 4
    snapshot(err, "too few")
    code, found = audited("--store", path, "recommend", "--repetition-detection", "fine")
    assert (code, found["repetition_detection"], found["audit"]) == (4, None, None)
    code, _, err = command("--store", path, "recommend", "--repetition-detection", "fine", "--format", "vllm")
    assert code == 2
    snapshot(err, "no loop")


def certified(path: str) -> None:
    with open_store(path) as store:
        store.create_run(make_run("r1"))
        threshold = Threshold(0.05, 0.95, 900, 124, 2, 0.04, True)
        store.save_threshold("r1", threshold, 810, PlaneVerdict(Plane.DECODING, None, "It loops."))


def test_the_cheapest_cap_stands_beside_the_certified_one(tmp_path: Path, snapshot: Snapshot) -> None:
    """From the newest stored cost of the subject: natural, uncapped, judged requests; others do not count."""
    path = str(tmp_path / "store.sqlite3")
    certified(path)
    base = {"arm": "loops", "planted": False, "failure": None, "degenerate": False, "capped": False}
    timeline = [{**base, "output_tokens": 100 + n} for n in range(80)]
    timeline += [{**base, "output_tokens": 3_000, "degenerate": True, "capped": True}] * 6
    timeline += [{**base, "arm": "capped", "output_tokens": 5}] * 50
    timeline += [{**base, "planted": True, "output_tokens": 9_000, "capped": True}] * 50
    subject = {"model": SUBJECT.model, "task": SUBJECT.task, "language": SUBJECT.language}
    with open_store(path) as store:
        store.save_document(DocumentKind.COST, {"subject": subject, "timeline": timeline}, id="c1")
        store.save_document(
            DocumentKind.COST, {"subject": {**subject, "model": "other"}, "timeline": timeline}, id="c2"
        )
        penalised = {"subject": subject, "decoding": {"repetition_penalty": 1.2}, "timeline": timeline[40:]}
        store.save_document(DocumentKind.COST, penalised, id="c3")
    code, out, _ = command("--store", path, "recommend", "--format", "json")
    assert code == 0
    [cheapest] = json.loads(out)["cheapest"]
    assert cheapest["cost"] == "c1", "not that of another decoding"
    assert 170 <= cheapest["optimum"]["max_tokens"] <= 179
    assert cheapest["optimum"]["requests"] == 86
    snapshot(command("--store", path, "recommend")[1])


def cost_of(path: str, lengths: list[int], looping: int) -> None:
    base = {"arm": "loops", "planted": False, "failure": None, "degenerate": False, "capped": False}
    timeline = [{**base, "output_tokens": length} for length in lengths]
    timeline += [{**base, "output_tokens": 3_000, "degenerate": True, "capped": True}] * looping
    subject = {"model": SUBJECT.model, "task": SUBJECT.task, "language": SUBJECT.language}
    with open_store(path) as store:
        store.save_document(DocumentKind.COST, {"subject": subject, "timeline": timeline}, id="c1")


@pytest.mark.parametrize(
    ("lengths", "looping"),
    [
        pytest.param(list(range(695, 775)), 0, id="no loop"),
        pytest.param(list(range(2_990, 3_070)), 3, id="no saving"),
    ],
)
def test_no_cap_is_called_cheapest_that_saves_nothing(
    tmp_path: Path, snapshot: Snapshot, lengths: list[int], looping: int
) -> None:
    """Without a loop, or with a saving of nothing or less, there is no number but the reason."""
    path = str(tmp_path / "store.sqlite3")
    certified(path)
    cost_of(path, lengths, looping)
    _, out, _ = command("--store", path, "recommend", "--format", "json")
    [found] = json.loads(out)["cheapest"]
    assert found["optimum"]["max_tokens"] is None
    _, table, _ = command("--store", path, "recommend")
    assert found["optimum"]["lacking"] in flat(table)
    snapshot(table)


def test_a_cheapest_cap_above_the_certified_limit_says_which_one_holds(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    """810 tokens are certified; healthy answers of up to 1,079 tokens are cheapest to let end."""
    path = str(tmp_path / "store.sqlite3")
    certified(path)
    cost_of(path, list(range(1_000, 1_080)), 6)
    _, out, _ = command("--store", path, "recommend", "--format", "json")
    [found] = json.loads(out)["cheapest"]
    assert found["optimum"]["max_tokens"] > 810
    assert (found["safe_max_tokens"], found["above_safe"]) == (810, True)
    snapshot(command("--store", path, "recommend")[1])


def test_every_decoding_has_its_own_limit_in_the_metrics(tmp_path: Path) -> None:
    """Two decodings of one subject are two samples, told apart by a label that a person can read."""
    path = str(tmp_path / "store.sqlite3")
    certified(path)
    run = make_run("r2")
    penalised = replace(run.settings, decoding=Decoding(repetition_penalty=1.15))
    with open_store(path) as store:
        store.create_run(replace(run, settings=penalised))
        threshold = Threshold(0.05, 0.95, 4_000, 124, 2, 0.04, True)
        store.save_threshold("r2", threshold, 3_600, PlaneVerdict(Plane.DECODING, None, "It loops."))
    _, out, _ = command("--store", path, "recommend", "--format", "openmetrics")
    samples = [s for family in text_string_to_metric_families(out) for s in family.samples]
    limits = {s.labels["decoding"]: s.value for s in samples if s.name == "stresstest_safe_max_tokens"}
    assert limits == {"temperature 0.7, top_k 20": 810, "repetition_penalty 1.15": 3_600}


def test_limits_are_printed_as_metrics(tmp_path: Path) -> None:
    """`--format openmetrics` is read back by the parser with the limit, its n and its labels."""
    path = str(tmp_path / "store.sqlite3")
    certified(path)
    code, out, _ = command("--store", path, "recommend", "--format", "openmetrics")
    assert code == 0
    found = {s.name: s for family in text_string_to_metric_families(out) for s in family.samples}
    limit = found["stresstest_safe_max_tokens"]
    assert limit.value == 810
    subject = {"model": "lab", "task": "narrative", "language": "it", "simulated": "false"}
    assert limit.labels == subject | {"decoding": "temperature 0.7, top_k 20"}
    assert found["stresstest_certified"].value == 1
    assert found["stresstest_at_risk_requests"].value == 124
