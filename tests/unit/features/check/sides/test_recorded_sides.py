"""`stresstest check` over recorded outputs: what nobody planned and nobody vouches for must not pass."""

from __future__ import annotations

import json
import random
import shutil
from math import comb
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.campaign.refusals import rejected_run_ids
from stresstest.detectors.text.tokens import split_pieces
from stresstest.errors import ExitCode
from stresstest.model import DocumentKind, Observation
from stresstest.statistics.comparison import lower_bound, more_failures_p
from stresstest.statistics.findings import LeftAsideOutputs, assess_left_aside, count_repeated
from stresstest.store import open_store
from tests.support import checked_runs
from tests.support.commands import command
from tests.support.scanned_files import write
from tests.support.stories import LOOP, story

N = 24
"""Answers of a side: the least that certifies at the rigor quick, so that the tests are quick too."""
LENGTH = 480
"""Words of a healthy answer."""
LOOPING = story(1) + f" {LOOP}" * 30

Row = dict[str, Any]


def healthy(seed: int, n: int = N) -> list[Row]:
    """Answers that reach T, each to a prompt of its own, all cut at the same length."""
    texts = ("".join(split_pieces(story(8, seed=seed + i))[:LENGTH]) for i in range(n))
    return [{"prompt": f"p{i}", "output": text, "finish_reason": "length"} for i, text in enumerate(texts)]


def rows(n: int, **more: Any) -> list[Row]:
    """The same answer to n other prompts."""
    return [{"prompt": f"q{i}", "finish_reason": "stop", **more} for i in range(n)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A healthy baseline."""
    return write(tmp_path_factory.mktemp("base") / "base.jsonl", healthy(0))


def check(tmp_path: Path, base: str, candidate: str, *words: str) -> tuple[int, Row, str]:
    """Exit code, the JSON document ({} when none was printed), stderr."""
    sides = ("--baseline", base, "--candidate", candidate, "--rigor", "quick", "--lang", "en")
    return checked_runs.check(str(tmp_path / "s.sqlite3"), *sides, *words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"output": None, "finish_reason": "error"}, "lines have no answer"),
        ({"output": ""}, "answers are empty"),
        ({"output": "The captain", "finish_reason": "abort"}, "were given up by the service"),
    ],
)
def test_a_sample_that_is_mostly_missing_decides_nothing(
    tmp_path: Path, base: str, more: Row, said: str
) -> None:
    """Lost, empty and unreadable answers, more than half of all: no pass, on whichever side they are."""
    candidate = write(tmp_path / "c.jsonl", healthy(100) + rows(N + 1, **more))
    code, document, _ = check(tmp_path, base, candidate)
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert f"{N + 1} of {2 * N + 1} lines of" in document["lacking"]
    assert "more than half of the sample is missing" in document["lacking"]
    assert any(f"{N + 1} " in note and said in note for note in document["notes"])
    code, document, _ = check(tmp_path, candidate, base)
    assert (code, document["at_tokens"]) == (ExitCode.INCONCLUSIVE, None)
    assert "more than half of the sample is missing" in document["lacking"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"output": None, "finish_reason": "error"},
        {"output": "The captain", "finish_reason": "abort"},
        {"output": "", "finish_reason": "timeout"},
        {"output": ""},
    ],
)
def test_what_was_lost_counts_against_a_pass(tmp_path: Path, base: str, more: Row) -> None:
    """Fewer than half lost or empty: they may be the loops that timed out, and an empty answer cannot
    fail, so a pass must hold with them failed."""
    some = write(tmp_path / "some.jsonl", healthy(100) + rows(8, **more))
    code, document, _ = check(tmp_path, base, some)
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert "8 more were stopped or undecided" in document["lacking"]
    assert document["candidate"]["failed"] == 0
    assert any("count as failed" in note for note in document["notes"])
    few = write(tmp_path / "few.jsonl", healthy(100) + rows(1, **more))
    code, document, _ = check(tmp_path, base, few)
    assert code == ExitCode.DONE
    assert document["interval"][1] == pytest.approx(0.18, abs=0.005)


def test_prompts_that_the_candidate_leaves_out_count_against_a_pass(tmp_path: Path, base: str) -> None:
    """An answer that was never written down may have failed like one that is empty: a candidate passed
    without a word by leaving out the prompts that fail. Fewer than half of the prompts decide no pass."""
    answers = healthy(100, 60)
    code, document, _ = check(tmp_path, base, write(tmp_path / "all.jsonl", answers[:40]))
    assert (code, document["verdict"]) == (ExitCode.DONE, "pass")
    assert not any("prompts have no answer" in note for note in document["notes"])
    code, document, _ = check(tmp_path, base, write(tmp_path / "most.jsonl", answers[6:40]))
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    said = "6 of the baseline's 24 prompts have no answer in the candidate. For a pass they count as failed."
    assert said in document["notes"]
    code, document, _ = check(tmp_path, base, write(tmp_path / "part.jsonl", answers[18:]))
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert "answers 6 of the baseline's 24 prompts, fewer than half" in document["lacking"]
    assert "18 of the baseline's 24 prompts have no answer in the candidate." in document["notes"]


def test_sides_without_a_common_prompt_are_told(tmp_path: Path, base: str) -> None:
    """A date in each prompt hid which ones the candidate had left out: that cannot be seen, and is said."""
    stamped = [row | {"prompt": f"[10:{n}] {row['prompt']}"} for n, row in enumerate(healthy(500))]
    code, document, _ = check(tmp_path, base, write(tmp_path / "c.jsonl", stamped))
    assert code == 0
    assert any("have no prompt in common" in note for note in document["notes"])
    code, document, _ = check(tmp_path, base, write(tmp_path / "d.jsonl", healthy(500)))
    assert not any("have no prompt in common" in note for note in document["notes"])


def test_one_text_for_every_prompt_is_no_pass(tmp_path: Path, base: str) -> None:
    """A cache in front of the candidate: 24 copies of one healthy answer are one answer."""
    one = healthy(500)[0]
    cached = [row | {"output": one["output"]} for row in healthy(500)]
    code, document, _ = check(tmp_path, base, write(tmp_path / "c.jsonl", cached))
    assert (code, document["verdict"]) == (4, "inconclusive")


def test_an_increase_that_nothing_could_exceed_is_refused(tmp_path: Path, base: str) -> None:
    """--max-increase 96% passed a candidate of which every answer degenerates."""
    looping = [row | {"output": LOOPING} for row in healthy(500)]
    code, _, err = check(tmp_path, base, write(tmp_path / "c.jsonl", looping), "--max-increase", "96%")
    assert code == 2
    assert "nothing could fail this check" in err


def test_further_outputs_of_a_prompt_are_told_and_may_stop_a_pass(tmp_path: Path, base: str) -> None:
    """Only the first output of a prompt is tested; where the later ones loop, the first are no fair part."""
    again = [{**row, "output": LOOPING + f" {i}"} for i, row in enumerate(healthy(100))]
    looping = write(tmp_path / "later.jsonl", healthy(100) + again)
    code, document, _ = check(tmp_path, base, looping)
    assert (code, document["tested"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert f"{N} of {N} at risk" in document["lacking"]
    assert document["evidence"]["not_used"]["failed"] == N
    fine = write(tmp_path / "fine.jsonl", healthy(100) + healthy(200))
    store = ("--store", str(tmp_path / "s.sqlite3"), "--display", "none")
    sides = ("--baseline", base, "--candidate", fine, "--rigor", "quick", "--lang", "en")
    code, out, _ = command(*store, "check", *sides)
    assert code == ExitCode.DONE
    assert f"{N} further outputs of the same prompts are not used" in " ".join(out.replace("│", " ").split())


@pytest.mark.slow
def test_a_file_is_not_compared_with_itself(tmp_path: Path, base: str) -> None:
    """The sample that chose T cannot test it: the same file and a copy are refused, its answers in another
    order, or most of them, decide nothing; a few of them are told."""
    copy = str(shutil.copy(base, tmp_path / "copy.jsonl"))
    for same in (base, copy):
        code, document, err = check(tmp_path, base, same)
        assert (code, document) == (ExitCode.USAGE, {})
        assert "its sample determined T and cannot test it" in err
        assert ("on both sides" in err) is (same == base)
    known = [{"output": row["output"], "finish_reason": "length"} for row in reversed(healthy(0))]
    new = healthy(100)
    code, document, _ = check(tmp_path, base, write(tmp_path / "mixed.jsonl", known[:20] + new[:6]))
    assert code == ExitCode.INCONCLUSIVE
    assert "identical to the baseline's" in document["lacking"]
    assert document["evidence"]["same_as_baseline"] == 20
    code, document, _ = check(tmp_path, base, write(tmp_path / "few.jsonl", known[:4] + new))
    assert code == ExitCode.DONE
    assert any("4 of the candidate's 28 healthy answers" in note for note in document["notes"])


def test_a_regression_is_not_hidden_by_what_stands_against_a_pass(tmp_path: Path, base: str) -> None:
    """Repeats and further outputs hold back a pass, never a regression."""
    looping = [{**row, "output": f"{LOOPING} {i}"} for i, row in enumerate(healthy(0))]
    code, document, _ = check(tmp_path, base, write(tmp_path / "bad.jsonl", looping + healthy(0)[:4]))
    assert (code, document["verdict"]) == (ExitCode.REGRESSION, "regression")
    more = looping[:9] + rows(9, output="")
    code, document, _ = check(tmp_path, base, write(tmp_path / "part.jsonl", more))
    assert (code, document["candidate"]["at_risk"]) == (ExitCode.REGRESSION, 9)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, 50, 150])), max_size=60))
def test_left_aside_is_bounded_as_clusters(outputs: list[tuple[int, int | None]]) -> None:
    """Counts are those at T; the bound is never tighter than that of independent outputs."""
    sample = [Observation(onset, (onset or 121) - 1, f"{prompt:x}") for prompt, onset in outputs]
    found = assess_left_aside(100, sample, 0.95)
    if not outputs:
        assert found is None
        return
    failed = sum(onset == 50 for _, onset in outputs)
    assert found is not None
    assert (found.outputs, found.at_risk, found.failed) == (len(outputs), len(outputs), failed)
    assert found.lower is not None
    assert found.lower <= lower_bound(failed, len(outputs), 0.95) + 1e-9


def test_what_is_not_at_risk_says_nothing() -> None:
    """Short outputs have no risk at T, neither 0 nor 1; an unknown output repeats nothing."""
    short = Observation(None, 50, "a", "x", ended=True)
    long = Observation(None, 200, "b", "y")
    blank = Observation(None, 200, "c", None)
    assert assess_left_aside(100, [short], 0.95) == LeftAsideOutputs(1, 0, 0, None)
    assert count_repeated(100, [short, long], [short, long, blank]) == (1, 2)


def _italian(seed: int) -> str:
    rng = random.Random(seed)
    who = ["il guardiano", "un vecchio marinaio", "mia sorella", "il capitano", "il fornaio", "la bambina"]
    did = ["trovò una lettera sotto", "camminò verso", "dipinse la porta di", "ricordò il nome di", "sognò"]
    what = ["il faro", "la stazione vuota", "un giardino", "il porto", "la biblioteca", "un piccolo ponte"]
    when = [
        *("prima che cominciasse la pioggia", "mentre nessuno guardava", "perché la notte era fredda"),
        *("dopo il treno", "quando suonavano le campane", "senza una parola", "nonostante il vento"),
    ]
    words = (" ".join(map(rng.choice, (who, did, what, when, when))) for _ in range(60))
    return " ".join(f"{each[0].upper()}{each[1:]}." for each in words)


def test_answers_in_another_language_than_the_baselines_are_no_pass(tmp_path: Path, base: str) -> None:
    """A model that answers two of five prompts in Italian passed where no --lang was given."""
    changed = healthy(100)
    for i, row in enumerate(changed):
        if i % 5 < 2:
            row["output"] = "".join(split_pieces(_italian(i))[:LENGTH])
    candidate = write(tmp_path / "c.jsonl", changed)
    sides = ("--baseline", base, "--candidate", candidate, "--rigor", "quick")
    code, document, err = checked_runs.check(str(tmp_path / "s.sqlite3"), *sides)
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive"), err
    assert "in languages that are rare in the baseline (it)" in document["lacking"]
    sides = ("--baseline", base, "--candidate", write(tmp_path / "d.jsonl", healthy(100)), "--rigor", "quick")
    assert checked_runs.check(str(tmp_path / "s.sqlite3"), *sides)[0] == ExitCode.DONE


@pytest.mark.slow
@pytest.mark.parametrize("output", ["", "The captain", "The captain found a letter.", LOOPING])
def test_a_count_that_the_text_cannot_have_moves_nothing_beyond_t(tmp_path: Path, output: str) -> None:
    """Empty, short and looping answers passed where completion_tokens said thousands, as if beyond T."""
    counted = [{**row, "completion_tokens": 700} for row in healthy(0)]
    base = write(tmp_path / "base.jsonl", counted)
    changed = [{**row, "output": text["output"]} for row, text in zip(counted, healthy(100), strict=True)]
    for i, row in enumerate(changed):
        if i % 2:  # the others alone are too few
            row |= {"output": output, "completion_tokens": 9000}
            row["finish_reason"] = "stop" if output.endswith(".") else "length"
    _, document, err = check(tmp_path, base, write(tmp_path / "c.jsonl", changed))
    assert document["verdict"] in ("inconclusive", "regression"), err


def test_a_file_that_could_not_be_read_to_its_end_decides_nothing(tmp_path: Path, base: str) -> None:
    """Half of the answers stood behind a damaged element, and the rest passed."""
    whole = json.dumps(healthy(100))
    candidate = tmp_path / "cut.json"
    candidate.write_text(whole[: 3 * len(whole) // 4])
    code, document, _ = check(tmp_path, base, str(candidate))
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert "could not be read to the end" in document["lacking"]


@pytest.mark.slow
def test_answers_that_all_fail_after_t_are_no_pass(tmp_path: Path, base: str) -> None:
    """A candidate that is healthy up to T and loops in every answer after it: inconclusive, and told."""
    long = [row | {"output": row["output"] + f" {LOOP}" * 30} for row in healthy(100)]
    code, document, _ = check(tmp_path, base, write(tmp_path / "late.jsonl", long))
    assert (code, document["verdict"]) == (ExitCode.INCONCLUSIVE, "inconclusive")
    assert f"{N} of its {N} answers degenerate, against 0 of {N} of the baseline's" in document["lacking"]
    code, _, _ = check(tmp_path, base, write(tmp_path / "good.jsonl", healthy(100)))
    assert code == ExitCode.DONE


def test_a_cap_that_would_cut_most_healthy_answers_is_recommended_by_no_check(tmp_path: Path) -> None:
    """`scan` withheld it, while `check` named a safe max_tokens for the same file."""
    texts = [story(2, seed=i) + f" {LOOP}" * 30 if i % 6 == 0 else story(8, seed=i) for i in range(36)]
    rows = [
        {
            "prompt": f"p{i}",
            "output": text,
            "finish_reason": "stop",
            "completion_tokens": len(split_pieces(text)),
        }
        for i, text in enumerate(texts)
    ]
    log = write(tmp_path / "log.jsonl", rows)
    group = json.loads(command("scan", log, "--rigor", "quick", "--lang", "en", "--json")[1])["groups"][0]
    assert group["threshold"]
    assert group["safe_max_tokens"] is None
    again = write(tmp_path / "again.jsonl", [row | {"id": i} for i, row in enumerate(rows)])
    _, compared, _ = check(tmp_path, log, again)
    for side in (compared["baseline"], compared["candidate"]):
        assert side["threshold"]
        assert side["safe_max_tokens"] is None
        assert side["limit_without_cap"]
    assert any("would cut" in note and "healthy answers" in note for note in compared["notes"])


@given(st.tuples(*[st.integers(0, 12)] * 4))
def test_the_test_of_later_failures_is_the_sum_over_all_tables(drawn: tuple[int, int, int, int]) -> None:
    """Fisher's one-sided p, counted by hand: every way to share the failures that is at least as bad."""
    d, extra, e, more = drawn
    n, m = d + extra, e + more
    ways = sum(comb(m, k) * comb(n, d + e - k) for k in range(e, min(m, d + e) + 1))
    expected = ways / comb(n + m, d + e) if n and m else 1.0
    assert more_failures_p((d, n), (e, m)) == pytest.approx(expected)


def test_a_pass_against_other_recorded_outputs_lifts_no_refusal(tmp_path: Path) -> None:
    """Recorded baselines have no run, and were one and the same: a log of a bad model lifted what a log of a
    good one had refused."""
    store = str(tmp_path / "s.sqlite3")
    checked_runs.stored(store, "bad", checked_runs.sample(12), created=1000.0)

    def judged(log: str, verdict: str) -> set[str]:
        body = {
            "baseline": {"run_ids": [], "files": [log]},
            "candidate": {"run_ids": ["bad"]},
            "verdict": verdict,
        }
        with open_store(store) as opened:
            opened.save_document(DocumentKind.CHECK, body, runs=["bad"])
            return rejected_run_ids(opened)

    assert judged("good.jsonl", "regression") == judged("bad.jsonl", "pass") == {"bad"}
    assert judged("good.jsonl", "pass") == set()


def test_lines_that_are_no_json_are_not_asked_for_a_layout(tmp_path: Path, base: str) -> None:
    """--field maps the keys of records; what is no JSON has none."""
    for text, hint in (
        ("nonsense\n", "must be a whole JSON object"),
        ('{"foo": "x"}\n', "--field response="),
    ):
        broken = tmp_path / "broken.jsonl"
        broken.write_text(text, encoding="utf-8")
        code, _, err = check(tmp_path, base, str(broken))
        assert code == ExitCode.INCONCLUSIVE
        assert hint in err


@pytest.mark.parametrize("factor", [1, 2])
def test_sides_that_different_tokenizers_counted_are_compared_in_words(tmp_path: Path, factor: int) -> None:
    """A candidate that looped at the baseline's T passed, as its counts were twice its own model's."""

    def counted(row: Row, text: str, factor: int) -> Row:
        return {**row, "output": text, "completion_tokens": factor * len(split_pieces(text))}

    fine = [counted(row, row["output"], 1) for row in healthy(0)]
    broken = [
        counted(row, f"{row['output'][:700]} {LOOP * 40}" if i % 2 else row["output"], factor)
        for i, row in enumerate(healthy(100))
    ]
    sides = write(tmp_path / "b.jsonl", fine), write(tmp_path / "c.jsonl", broken)
    code, document, _ = check(tmp_path, *sides)
    assert (code, document["verdict"]) == (ExitCode.REGRESSION, "regression")
    assert (document["baseline"]["unit"] == "words") == (factor == 2)
    assert any("They are compared in words" in note for note in document["notes"]) == (factor == 2)
