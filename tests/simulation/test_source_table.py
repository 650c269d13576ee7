"""The source case's table: what `run --no-abort` shows on the scenarios that are made after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from tests.simulation.campaigns import Campaign, Truth, disagreements, truths
from tests.simulation.source_case import (
    CONSTRAINED,
    DRIFT,
    LOOP,
    MISTRAL_FR,
    MISTRAL_IT,
    MISTRAL_TECHNICAL,
    Row,
    asked_units,
)

pytestmark = pytest.mark.simulated

Played = Callable[[Row], tuple[Campaign, dict[str, Truth]]]


@pytest.fixture
def play(tmp_path: Path) -> Played:
    """Runs a row and says what is true of it; what holds for every row is asserted on the way."""

    def played(row: Row) -> tuple[Campaign, dict[str, Truth]]:
        found = row.run(tmp_path)
        assert found.code == 0, found.said
        assert found.document["simulated"] is True
        assert found.document["threshold"]["certified"] is True
        assert found.document["planes"]["system"] == 0
        assert found.system_facts == []
        # Readings a quarter second apart may all miss a fast campaign's requests: only its calm is sure.
        assert found.kv_peak <= 0.21
        known = truths(found)
        assert all(known[g.key].text.startswith(g.text) for g in found.generations)
        return found, known

    return played


def certified_below_the_onsets(found: Campaign, row: Row) -> None:
    """The threshold lies at the first onsets: at most one in ten of the answers had failed by then."""
    assert row.onset is not None
    threshold = found.document["threshold"]
    assert row.onset[0] <= threshold["tokens"] <= sorted(found.onsets)[len(found.onsets) // 5]
    assert found.document["safe_max_tokens"] == threshold["tokens"] * 9 // 10


def test_without_a_penalty_italian_stories_loop_at_800_to_1000_and_never_end(play: Played) -> None:
    """Row 1: a loop that stands to the cap, dated to the token, in every answer."""
    found, known = play(LOOP)
    assert found.document["symptoms"] == {"loop": len(found.generations)}
    assert all(LOOP.onset[0] <= onset <= LOOP.onset[1] for onset in found.onsets)  # type: ignore[index]
    assert all(g.verdict.loops_to_end and g.finish_reason == "length" for g in found.generations)
    assert disagreements(found, known, within=0) == []
    certified_below_the_onsets(found, LOOP)
    assert found.document["verdict"]["plane"] == "decoding"


@pytest.mark.long
def test_with_penalty_1_2_the_story_reaches_75_and_drifts_into_english(play: Played) -> None:
    """Row 2: no loop; all 75 paragraphs are written, mostly in English from about paragraph 66 on."""
    found, known = play(DRIFT)
    into: Counter[str] = Counter()
    assert found.document["symptoms"] == {"language_drift": len(found.generations)}
    assert all(5000 <= onset <= 5500 for onset in found.onsets)
    assert disagreements(found, known, within=2) == []
    for generation in found.generations:
        assert generation.finish_reason == "stop"
        assert "Paragrafo 75." in generation.text
        onset = generation.verdict.onset or 0
        before = "".join(token.text for token in generation.tokens[: onset - 1])
        assert 60 <= before.count("Paragrafo ") <= 70
        [drift] = [s for s in generation.verdict.symptoms if s.kind == "language_drift" and s.confirmed]
        into[drift.detail["language"]] += 1
    # The simulated model drifts into Spanish or French now and then.
    assert into["en"] >= 0.6 * len(found.generations)
    certified_below_the_onsets(found, DRIFT)


@pytest.mark.long
def test_only_in_italian_it_fails_at_the_same_place_however_much_is_asked(play: Played) -> None:
    """Row 3: structure breaks at 5,000-5,500 and floods by 7,000, for 75, 100, 150 and 200 paragraphs."""
    found, known = play(CONSTRAINED)
    failing = found.failing
    assert found.document["symptoms"] == {"structure_break": len(failing)}
    assert all(5000 <= onset <= 5500 for onset in found.onsets)
    assert disagreements(found, known, within=60) == []
    # The climb's first rungs are cut before anything can fail.
    assert all(g.verdict.tokens < 5000 for g in found.generations if not g.verdict.degenerate)
    by_length: dict[int, list[int]] = {units: [] for units in CONSTRAINED.asked}
    for generation in failing:
        by_length[asked_units(generation.prompt_text)].append(generation.verdict.onset or 0)
        stuck = [s for s in generation.verdict.symptoms if s.kind in ("flooding", "loop") and s.confirmed]
        assert stuck
        assert 6000 <= min(s.onset for s in stuck) <= 7000
    assert min(len(onsets) for onsets in by_length.values()) >= 5
    medians = [median(onsets) for onsets in by_length.values()]
    assert max(medians) / min(medians) <= 1.05
    certified_below_the_onsets(found, CONSTRAINED)
    assert found.document["verdict"]["plane"] == "context"


@pytest.mark.parametrize("row", [MISTRAL_IT, MISTRAL_FR], ids=["it", "fr"])
def test_mistral_collapses_in_its_third_or_fourth_paragraph(play: Played, row: Row) -> None:
    """Rows 4 and 5: gibberish within the first paragraphs: all answers by truth, nearly all by verdict.

    Salads of signs are the ones that are missed, and a first symptom may be the broken sentence.
    """
    found, known = play(row)
    assert row.onset is not None
    assert {truth.symptom for truth in known.values()} == {"gibberish"}
    assert Counter(g.verdict.symptom for g in found.failing).most_common(1)[0][0] in row.symptoms
    there = [onset for onset in found.onsets if row.onset[0] <= onset <= row.onset[1]]
    assert len(there) >= 0.85 * len(found.generations)
    assert row.onset[0] <= median(found.onsets) <= row.onset[1]
    certified_below_the_onsets(found, row)


def test_mistral_writes_technical_text_of_400_tokens_in_good_order(play: Played) -> None:
    """Row 6: the same model and penalty, another task: nothing is found, and C is certified as such."""
    found, known = play(MISTRAL_TECHNICAL)
    assert found.onsets == []
    assert {truth.symptom for truth in known.values()} == {None}
    threshold = found.document["threshold"]
    assert threshold["tokens"] == threshold["censored_at"] >= 400
    assert found.document["verdict"]["plane"] is None
