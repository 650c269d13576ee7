"""What a scan says in words: notes below the table, and the sentence on a group's limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stresstest.features.scan.console import judgement_sentence, length_sentence, limit_sentence
from stresstest.features.scan.notes import scan_notes
from stresstest.model import Threshold
from stresstest.model.scanned import GroupResult, LengthEffect, ScanResult
from stresstest.statistics.rate_limit import judge_rates


def group(**more: object) -> GroupResult:
    made = {"threshold": Threshold(0.05, 0.95, lacking="All."), "unit": "words", **more}
    return GroupResult({}, 9, 0, 0.0, (0.0, 0.3), **made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lo", "hi", "independent", "said"),
    [
        (7.45, 8.07, False, "it depends on the requested length (outside 0.8–1.25)"),
        (0.2, 0.7, False, "it depends on the requested length (outside 0.8–1.25)"),
        (1.1, 2.0, False, "not shown to be independent (that needs 0.8–1.25)"),
        (0.5, 2.0, False, "not shown to be independent (that needs 0.8–1.25)"),
        (0.9, 1.1, True, ", independent of the requested length"),
    ],
)
def test_an_onset_that_moves_with_the_length_is_said_to(
    lo: float, hi: float, independent: bool, said: str
) -> None:
    """An interval outside the range shows dependence; one across its edge shows neither."""
    effect = LengthEffect("2000", "16000", (lo + hi) / 2, lo, hi, 9, 9, independent)
    assert length_sentence(effect).endswith(said)


def test_languages_that_are_not_named_are_counted() -> None:
    """Six stand for all only where it is said how many more there are."""
    languages = {f"l{n}": 20 - n for n in range(9)} | {"unknown": 3}
    result = ScanResult(9, 0, (group(languages=languages, language_sources={"answer": 9}),))
    (said,) = [note for note in scan_notes(result) if note.startswith("Expected language")]
    assert "l4 16, l5 15, 3 more 39; inferred" in said
    few = ScanResult(9, 0, (group(languages={"en": 6, "it": 3}, language_sources={"answer": 9}),))
    assert any("language: English 6, Italian 3; inferred" in note for note in scan_notes(few))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"at_cap": 5}, "The server counted them itself: 5 that its cap ended have max_tokens."),
        ({"at_cap": 0}, "Nothing tells who counted them: a gateway may have, with another tokenizer"),
        ({"unit": "words", "beyond_cap": 5}, "those of 5 answers are higher than their max_tokens"),
    ],
)
def test_who_counted_the_tokens_is_said(more: dict[str, object], said: str) -> None:
    """LiteLLM counts some streams with a tokenizer of its own: T was twice the true one, and nothing told."""
    result = ScanResult(9, 0, (group(**{"unit": "tokens (estimate)", **more}),))
    assert any(said in note for note in scan_notes(result))


def test_a_share_that_nobody_knows_is_not_told() -> None:
    """Where no healthy answer is left, a cap cuts no share of them."""
    certified = Threshold(0.05, 0.95, tokens=100, n=60, onsets=0, certified=True)
    assert "of the healthy" not in limit_sentence(group(threshold=certified))
    assert "cuts 2.00 % of the healthy" in limit_sentence(group(threshold=certified, healthy_cut=0.02))
    withheld = limit_sentence(replace(group(threshold=certified, healthy_cut=0.9), rate=0.4))
    assert withheld.endswith(  # a diagnosis takes no log
        "a cap there would cut 90.0 % of the healthy answers. To find a decoding that fails less: "
        "`stresstest run`, then `stresstest diagnose` of that run"
    )


def test_an_undecided_rate_is_told_what_it_needs_as_it_is() -> None:
    """Six of 60 had degenerated, and the advice was on a log in which nothing does."""
    some = replace(group(), requests=60, degenerate=6, rate=0.1)
    below = judgement_sentence(judge_rates([some], 0.12))
    assert "6 of 60, between 4.4 % and 18.8 % (one-sided bounds, each at 95 %; a two-sided" in below
    assert "The rate seen, 10.0 %, is below the limit. If it stays so, about " in below
    assert "none of them degenerates" not in below
    above = judgement_sentence(judge_rates([some], 0.08))
    assert "The rate seen, 10.0 %, is above the limit. If it stays so, about " in above
    none = judgement_sentence(judge_rates([replace(some, degenerate=0, rate=0.0)], 0.02))
    assert "are enough if none of them degenerates." in none
    assert "The rate seen" not in none
    level = judgement_sentence(judge_rates([some], 0.1))
    assert "no log is large enough" in level


def test_the_best_of_several_groups_is_no_finding() -> None:
    """Of 24 equal groups the farthest T lay at four times the truth, with a confidence for one beside it."""
    certified = Threshold(0.05, 0.95, tokens=100, n=60, onsets=0, certified=True)
    one = ScanResult(9, 0, (group(threshold=certified), group()))
    several = ScanResult(9, 0, (group(threshold=certified), group(threshold=certified)))
    said = "Each T holds for its group alone; the largest of several may be chance."
    assert said not in scan_notes(one)
    assert said in scan_notes(several)
