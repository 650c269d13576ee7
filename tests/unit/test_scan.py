"""`scan` as a workflow: verdicts in order, the same with any number of workers, on the right scale."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from stresstest.detectors.screen import OPEN_TAIL
from stresstest.errors import UsageError
from stresstest.model.scanned import Extent, ScanResult
from stresstest.records import Damaged, Mapped, Record, parse_fields, source
from stresstest.workflows import scan_pool
from stresstest.workflows.scan import ScanSettings, scan
from stresstest.workflows.scan_judge import OTHER_LANGUAGE, Job, judge_records
from tests.unit.test_panel import LOOP, story

LOOPING = f" {LOOP}" * 30


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.lines: list[str] = []

    def advanced(self, done: int, requests: int, degenerate: int) -> None:
        self.done.append(done)

    def damaged(self, damaged: Damaged) -> None:
        self.lines.append(str(damaged))


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def run(*files: str, **more: Any) -> ScanResult:
    job = more.pop("job", Job(language="en"))
    return scan(ScanSettings(files=files, job=job, **{"workers": 1, **more}), Heard())


def corpus(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Stories of two models; every fourth of the second one loops after its second unit."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        model = "ab"[i % 2]
        text = story(rng.randint(3, 6), seed=i)
        if i % 8 == 1:
            text = story(2, seed=i) + LOOPING
        rows.append({"id": f"r{i}", "model": model, "response": text, "finish_reason": "length"})
    return rows


def test_groups_rates_and_verdicts_in_order(tmp_path: Path) -> None:
    """The whole way: groups by key, lowest rate first, one verdict line a request in input order."""
    path = write(tmp_path / "a.jsonl", corpus(160))
    out = tmp_path / "verdicts.jsonl"
    result = run(path, job=Job(parse_fields([], ["model"]), ("model",), "en"), out=str(out), rigor="quick")
    assert (result.requests, result.damaged) == (160, 0)
    healthy, failing = result.groups
    assert (healthy.key, healthy.degenerate, healthy.rate) == ({"model": "a"}, 0, 0.0)
    assert (failing.key, failing.degenerate, failing.rate) == ({"model": "b"}, 20, 0.25)
    assert failing.rate_ci == pytest.approx((0.1599, 0.3594), abs=1e-3)
    assert failing.symptoms == {"loop": 20}
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == [f"r{i}" for i in range(160)]
    keys = "id degenerate symptom onset_char onset_token alarm_char loops_to_end recovered score"
    assert list(lines[1]) == keys.split()
    first = lines[1]
    start = len(story(2, seed=1)) + len(f" {LOOP}") + 1
    assert first["onset_char"] == start
    assert (first["degenerate"], first["symptom"], first["loops_to_end"]) == (True, "loop", True)
    assert first["onset_token"] is None
    assert first["alarm_char"] > start


def test_any_number_of_workers_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes change the time, never the answer nor the order."""
    monkeypatch.setattr(source, "CHUNK_BYTES", 4000)
    monkeypatch.setattr(scan_pool, "ALONE", 1)
    path = write(tmp_path / "a.jsonl", corpus(60))
    outs = [tmp_path / "1", tmp_path / "2"]
    results = [run(path, workers=n, out=str(out)) for n, out in enumerate(outs, 1)]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert results[0].groups == results[1].groups


def test_damage_is_counted_named_and_never_fatal_unless_strict(tmp_path: Path) -> None:
    """The first few by file and line; --strict stops at the first."""
    path = tmp_path / "a.jsonl"
    good = json.dumps({"text": "Good."})
    path.write_text("\n".join([good, "{", *["nonsense"] * 8, good]), encoding="utf-8")
    heard = Heard()
    result = scan(ScanSettings((str(path),), Job(language="en"), workers=1), heard)
    assert (result.requests, result.damaged) == (2, 9)
    assert len(heard.lines) == len(result.damaged_examples) == 5
    assert heard.lines[0].startswith(f"{path}:2: not JSON")
    assert heard.done == [path.stat().st_size]
    with pytest.raises(UsageError, match=r"a\.jsonl:2: not JSON"):
        run(str(path), strict=True)


def test_out_must_not_be_an_input(tmp_path: Path) -> None:
    """Writing verdicts over the records would destroy what cannot be generated again."""
    path = write(tmp_path / "a.jsonl", corpus(3))
    before = Path(path).read_bytes()
    with pytest.raises(UsageError, match="one of the files"):
        run(path, out=path)
    assert Path(path).read_bytes() == before


def test_dharma_needs_to_know_the_cap(tmp_path: Path) -> None:
    """Their rate: ended by the cap and the tail stands four times; known caps only."""
    text = story(2) + LOOPING
    rows: list[dict[str, Any]] = [
        {"text": text, "finish_reason": "length"},
        {"text": text, "finish_reason": "stop"},
        {"text": text, "completion_tokens": 600, "max_tokens": 600},
        {"text": text, "completion_tokens": 500, "max_tokens": 600},
        {"text": text},
    ]
    (group,) = run(write(tmp_path / "a.jsonl", rows)).groups
    assert (group.dharma_known, group.dharma_rate, group.degenerate) == (4, 0.5, 5)
    (unknown,) = run(write(tmp_path / "b.jsonl", rows[-1:])).groups
    assert unknown.dharma_rate is None


def judged(text: str, **more: Any) -> Any:
    return judge_records([Record("x", "f", 1, text, **more)], Job(language="en"), {})[0]


def test_completion_tokens_are_spread_over_the_text() -> None:
    """An estimate, labelled, never beyond the count, and never later than the text allows."""
    text = story(2) + LOOPING
    found = judged(text, completion_tokens=900)
    assert found.token_source == "estimate"
    share = found.onset_char / len(text)
    assert found.tokens.length == 900
    assert found.tokens.onset == int(900 * share) + 1
    assert found.tokens.observed == found.tokens.onset - 1
    assert judged(text).tokens is None
    healthy = judged(story(3), completion_tokens=400, finish_reason="stop")
    assert healthy.tokens == Extent(400, 400)


def test_an_empty_answer_without_a_count_takes_no_tokens_from_its_group(tmp_path: Path) -> None:
    """It has none: the others' counts stand. A text without a count still makes the group one of words."""
    rows = [
        {"response": story(3, seed=i), "completion_tokens": 400, "finish_reason": "stop", "model": "a"}
        for i in range(4)
    ]
    blank = {"response": "", "finish_reason": "stop", "model": "a"}
    (group,) = run(write(tmp_path / "a.jsonl", [*rows, blank])).groups
    assert (group.unit, group.total, group.uncounted, group.empty) == ("tokens (estimate)", 1600, 0, 1)
    uncounted = {"response": story(3), "finish_reason": "stop", "model": "a"}
    (group,) = run(write(tmp_path / "b.jsonl", [*rows, uncounted])).groups
    assert (group.unit, group.uncounted) == ("words", 1)
    assert judged("").tokens == Extent(0, 0)
    assert judged("", completion_tokens=7).tokens == Extent(7, 7)


def test_a_records_own_tokens_are_exact() -> None:
    """With logprobs the positions are the model's, and characters and words still fit the text."""
    from stresstest.model import Token

    text = story(2) + LOOPING
    pieces = [text[i : i + 3] for i in range(0, len(text), 3)]
    found = judged(text, tokens=tuple(Token(piece) for piece in pieces))
    assert found.token_source == "record"
    assert found.tokens.length == len(pieces)
    assert abs(found.onset_char - 3 * (found.tokens.onset - 1)) <= 3
    plain = judged(text)
    assert found.words.length == plain.words.length
    assert abs(found.words.onset - plain.words.onset) <= 8


def test_reasoning_counts_as_tokens_but_not_as_text() -> None:
    """A loop in the thoughts is a loop; its place is no character of the answer."""
    found = judged("Yes.", reasoning=story(1) + LOOPING, completion_tokens=500)
    assert found.symptom == "loop"
    assert found.onset_char is None
    assert found.tokens.onset > 1
    answer = judged(story(1) + LOOPING, reasoning="Let me think. " * 3)
    assert answer.onset_char == judged(story(1) + LOOPING).onset_char


@pytest.mark.parametrize(
    ("more", "unresolved", "ended"),
    [
        ({"finish_reason": "content_filter"}, True, False),
        ({"finish_reason": "length"}, True, False),
        ({"finish_reason": "MAX_TOKENS"}, True, False),
        ({"finish_reason": "abort"}, True, False),
        ({"finish_reason": "repetition"}, True, False),
        ({}, True, False),
        ({"finish_reason": "timeout"}, True, False),
        ({"finish_reason": "tool_calls"}, True, False),
        ({"completion_tokens": 90, "max_tokens": 90}, True, False),
    ],
)
def test_what_stopped_an_output_with_an_open_end(more: dict[str, Any], unresolved: bool, ended: bool) -> None:
    """A cap may have stopped a failure that was about to show; without a finish reason a text that breaks
    off counts as stopped."""
    found = judged(story(4) + "\n\nAnd then the keeper walked to the", **more)
    assert (found.symptom, found.unresolved, found.ended) == (None, unresolved, ended)


@pytest.mark.parametrize("end", ["", "\n\nTHE END", "\n\nYours, Anna"])
def test_a_text_that_ends_like_one_ended_by_itself(end: str) -> None:
    """Without a known finish reason a closed sentence, or closing words on a line of their own, is an end."""
    for reason in (None, "timeout"):
        found = judged(story(4) + end, finish_reason=reason)
        assert (found.unresolved, found.ended) == (False, True)
        assert found.words.observed == found.words.length


def test_a_truncation_needs_a_known_reason() -> None:
    """An open code block is a truncation where the model chose to end, and only there."""
    text = story(4) + "\n\n```python\nprint('one.')"
    assert judged(text, finish_reason="end_turn").symptom == "truncation"
    assert judged(text).symptom is None
    assert judged(text, finish_reason="timeout").symptom is None


def test_a_natural_end_with_a_candidate_open_is_unresolved() -> None:
    """As in a run: an answer that ends by itself while it may be failing is no witness of health."""
    repeated = story(1, seed=7).split(". ", 1)[1]
    text = story(4) + "".join(f"\n\nParagraph {n}. {repeated}" for n in (1, 2))
    found = judged(text, finish_reason="stop")
    assert found.symptom is None
    assert found.words.observed < found.words.length
    assert found.unresolved


def test_the_end_of_a_capped_text_is_not_observed() -> None:
    """The panel may have a candidate open there; a chosen end leaves none."""
    text = story(12)
    capped, chosen = judged(text, finish_reason="length"), judged(text, finish_reason="EOS_TOKEN")
    assert capped.words == Extent(chosen.words.length, chosen.words.length - OPEN_TAIL)
    assert chosen.words.observed == chosen.words.length
    assert (capped.unresolved, chosen.unresolved) == (True, False)
    assert judged(story(1), finish_reason="max_tokens").words.observed == 0


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "max_output_tokens", "model_length", "incomplete"])
def test_a_cap_by_any_name_is_a_cap(tmp_path: Path, reason: str) -> None:
    """Dharma's rate counts the caps of every library."""
    rows = [{"text": story(2) + LOOPING, "finish_reason": each} for each in (reason, "STOP", "timeout")]
    (group,) = run(write(tmp_path / "a.jsonl", rows)).groups
    assert (group.dharma_known, group.dharma_rate) == (2, 0.5)


def test_a_group_forces_its_language_on_no_answer(tmp_path: Path) -> None:
    """A whole answer in another language than the group's is no drift unless the record or the user says
    what was wanted; one that leaves the group's language still is."""
    italian = "Il mare era calmo e la barca tornava piano verso il porto, mentre le donne aspettavano. "
    whole = "".join(
        italian.replace("calmo", word) for word in ("calmo", "freddo", "grigio", "mosso", "vuoto")
    )
    rows = [{"text": story(5, seed=n), "finish_reason": "stop"} for n in range(12)]
    rows += [{"text": whole, "finish_reason": "stop"}, {"text": story(5) + whole, "finish_reason": "stop"}]
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=Job()).groups
    assert group.symptoms == {"language_drift": 1}
    assert group.language_sources == {"group": 13, OTHER_LANGUAGE: 1}
    assert group.languages == {"en": 13, "it": 1}
    rows[12]["language"] = "en"
    (said,) = run(write(tmp_path / "b.jsonl", rows), job=Job()).groups
    assert said.symptoms == {"language_drift": 2}
    (given,) = run(write(tmp_path / "c.jsonl", rows), job=Job(language="en")).groups
    assert given.symptoms == {"language_drift": 2}


def test_a_requested_repetition_in_the_prompt_is_exempt() -> None:
    """The prompt, where the log has it, reaches the detectors."""
    text = "I will not run in the corridor.\n" * 30
    prompt = 'Write "I will not run in the corridor." 30 times.'
    assert judged(text).degenerate
    assert not judged(text, prompt_text=prompt).degenerate


def test_the_wanted_language_comes_from_the_record_first() -> None:
    """Record before user; a language nobody can identify is not used."""
    italian = "Il mare era calmo e la barca tornava piano verso il porto, mentre le donne aspettavano. " * 4
    text = " ".join(f"{n}. {italian}"[:90] for n in range(4))
    assert judged(text, language="it").language_source == "record"
    assert judged(text).language_source == "given"
    assert judged(text, language="xx").language == "en"


def test_too_many_groups_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Grouping by the id would only eat memory."""
    monkeypatch.setattr("stresstest.workflows.scan_tally.MOST_GROUPS", 3)
    path = write(tmp_path / "a.jsonl", corpus(6))
    with pytest.raises(UsageError, match="more than 3 groups"):
        run(path, job=Job(Mapped(keys=("id",)), ("id",), "en"))


def test_worst_outputs_and_their_excerpts(tmp_path: Path) -> None:
    """--show keeps the worst: highest score, then most wasted; the text is cut exactly at the onset."""
    rows = corpus(16)
    rows[9]["response"] += LOOPING
    result = run(write(tmp_path / "a.jsonl", rows), job=Job(language="en", show=True), show=1)
    (worst,) = result.worst
    assert worst.id == "r9"
    assert worst.after.startswith(LOOP)
    assert worst.before.endswith(LOOP + " ")


def test_by_length_reads_the_requested_length_from_a_key(tmp_path: Path) -> None:
    """`story_2k` and `story_16k` are lengths; onsets that move with them are not independent."""
    rows = []
    for n in range(12):
        for task, units in (("story_2k", 2), ("story_16k", 12)):
            rows.append({"task": task, "text": story(units, seed=n) + LOOPING})
    job = Job(parse_fields([], ["task"]), (), "en", by_length="task")
    (group,) = run(write(tmp_path / "a.jsonl", rows), job=job).groups
    assert group.by_length is not None
    assert (group.by_length.shortest, group.by_length.longest) == ("2000", "16000")
    assert group.by_length.ratio is not None
    assert group.by_length.ratio > 3
    assert not group.by_length.independent
