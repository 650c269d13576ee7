"""The panel: one verdict of many detectors, the same online and offline, with zones that add up."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import DetectorSuite, detect_text, detect_tokens
from stresstest.detectors.text.thinking import recorded_tokens
from stresstest.detectors.text.tokens import text_tokens
from stresstest.detectors.verdict import WARNING_LOOKBACK
from stresstest.model import GenerationVerdict, SymptomKind, Token, ZoneKind
from tests.support.stories import BODY, LOOP, sentence, story

PATTERN = r"^\s*Paragraph\s+(\d+)"
SPEC = DetectorSpec(language="en", unit_pattern=PATTERN, units=40)


def with_entropy(text: str, change: int, before: float = 0.8, after: float = 2.4) -> list[Token]:
    """The text's tokens, their entropies of one level up to `change` and of another from it on."""
    rng = random.Random(9)
    return [
        replace(token, entropy=rng.gammavariate(4, (before if n < change else after) / 4))
        for n, token in enumerate(text_tokens(text), 1)
    ]


def assert_coherent(verdict: GenerationVerdict) -> None:
    """What holds for every verdict, whatever the text."""
    assert 0 <= verdict.observed <= verdict.tokens
    if verdict.onset is None:
        assert (verdict.alarm, verdict.symptom) == (None, None)
        assert not any(s.confirmed for s in verdict.symptoms)
        assert not verdict.recovered
    else:
        assert verdict.alarm is not None
        assert verdict.onset <= verdict.alarm <= verdict.tokens
        assert verdict.observed == verdict.onset - 1
        assert verdict.symptom in {s.kind for s in verdict.symptoms if s.confirmed}
        assert verdict.score >= 0.5
    covered = [n for zone in verdict.zones for n in range(zone.start, zone.end + 1)]
    assert covered == list(range(1, verdict.tokens + 1))
    collapsed = [zone.start for zone in verdict.zones if zone.kind is ZoneKind.COLLAPSED]
    assert collapsed == ([] if verdict.onset is None else [verdict.onset])
    assert list(verdict.symptoms) == sorted(verdict.symptoms, key=lambda s: s.onset)
    assert not (verdict.recovered and verdict.loops_to_end)


_PIECES = st.sampled_from(
    [
        story(6),
        story(3, seed=2, first=7),
        story(2, seed=3, first=7),
        f" {LOOP}" * 30,
        " no" * 80,
        " yes no no" * 9,
        "Il mare era calmo e la barca tornava piano verso il porto, mentre le donne aspettavano sul molo. ",
        "Nessuno ricordava un inverno così lungo, e il vecchio guardiano accendeva ogni sera la lampada. ",
        "\n-----\n",
        "\nParagraph 3. \n\nParagraph 3. \n\n",
        "And then, in the middle of the",
    ]
)


@pytest.mark.slow
@given(st.lists(_PIECES, max_size=6), st.sampled_from(["stop", "length", None]), st.data())
@settings(max_examples=40, deadline=None)
def test_online_and_offline_agree(pieces: list[str], reason: str | None, data: st.DataObject) -> None:
    """Asking in between changes nothing, the online alarm is the earliest of the final symptoms or came
    with the end, and every verdict, of a prefix too, is coherent."""
    tokens = text_tokens("".join(pieces))
    stops = set(data.draw(st.lists(st.integers(1, max(len(tokens), 1)), max_size=5)))
    panel = DetectorSuite(SPEC)
    alarms = set()
    for n, token in enumerate(tokens, 1):
        panel.update(token)
        alarms.add(panel.alarm)
        if n in stops:
            assert_coherent(panel.verdict())
    verdict = panel.finish(reason)
    assert verdict == detect_tokens(tokens, SPEC, reason)
    assert verdict == panel.finish(reason)
    assert_coherent(verdict)
    assert len(alarms - {None}) <= 1
    known = [s.alarm for s in verdict.symptoms if s.confirmed]
    for alarm in alarms - {None}:
        assert alarm is not None
        assert alarm <= min(known)


@given(st.text(max_size=300))
def test_text_tokens_join_to_the_text(text: str) -> None:
    """Nothing is lost or invented in cutting a text, so that offsets can be told from tokens."""
    tokens = text_tokens(text)
    assert "".join(token.text for token in tokens) == text
    assert all(token.text for token in tokens)


def test_text_tokens_are_words_marks_and_line_breaks() -> None:
    """One token a word, as in the published lists of loops; ideographs one by one."""
    pieces = ["Ciao", ",", " mondo", "!", "\n", "\n", "  Sì", " \n", "海", "の", "家", " "]
    assert [t.text for t in text_tokens("Ciao, mondo!\n\n  Sì \n海の家 ")] == pieces


def test_a_healthy_story_is_observed_to_its_end() -> None:
    """No symptom, one stable zone, all units counted, and nothing left open when the model ended it."""
    verdict = detect_text(story(20), SPEC, "stop")
    assert_coherent(verdict)
    assert not verdict.degenerate
    assert verdict.observed == verdict.tokens
    assert verdict.units == 20
    assert [zone.kind for zone in verdict.zones] == [ZoneKind.STABLE]


def test_a_capped_story_is_observed_up_to_its_open_sentence() -> None:
    """A sentence that was cut off could not be judged: it is censored, and is no symptom."""
    text = f"{story(20)}\n\nParagraph 21. "
    whole = len(text_tokens(text))
    verdict = detect_text(f"{text}The keeper walked slowly towards the", SPEC, "length")
    assert not verdict.degenerate
    assert whole - 4 <= verdict.observed < verdict.tokens


def test_a_loop_at_the_end() -> None:
    """Onset at the second copy, collapsed from there on, standing, not recovered."""
    text = f"{story(5)} {sentence(random.Random(8))}"
    before = len(text_tokens(text))
    verdict = detect_text(text + f" {LOOP}" * 40, SPEC, "length")
    assert_coherent(verdict)
    assert verdict.symptom is SymptomKind.LOOP
    assert verdict.onset == before + 7
    assert verdict.loops_to_end
    assert not verdict.recovered


def test_a_loop_that_ended_is_marked_recovered() -> None:
    """Degenerate all the same: the reader had to go through it."""
    verdict = detect_text(f"{story(3)} {LOOP}" + f" {LOOP}" * 20 + f".\n\n{story(3, first=4)}", SPEC, "stop")
    assert_coherent(verdict)
    assert verdict.degenerate
    assert verdict.recovered
    assert not verdict.loops_to_end


def test_an_open_candidate_bounds_what_was_observed() -> None:
    """Fifteen repeated words at the cap might have become a loop."""
    text = f"{story(5)}\n"
    verdict = detect_text(text + f" {LOOP}" * 4, DetectorSpec(), "length")
    assert not verdict.degenerate
    assert verdict.observed <= len(text_tokens(text)) + 6


def test_a_loop_of_few_words_is_a_loop_and_no_flood() -> None:
    """Its first copy is legitimate text, although the flood begins with it."""
    verdict = detect_text("It was so. " + "never again " * 100, DetectorSpec(), "length")
    assert [s.kind for s in verdict.symptoms if s.confirmed] == [SymptomKind.LOOP]
    assert verdict.onset == 7


def test_a_flood_before_a_loop_comes_first() -> None:
    """Overlapping symptoms settle on the earliest onset."""
    words = random.Random(2).choices(["never", "again", "more"], k=150)
    verdict = detect_text(" ".join(words) + " once upon" * 60, DetectorSpec(), "length")
    assert_coherent(verdict)
    assert (verdict.symptom, verdict.onset) == (SymptomKind.FLOODING, 1)
    assert SymptomKind.LOOP in {s.kind for s in verdict.symptoms}


def test_truncation_is_a_degeneration_of_its_own() -> None:
    """The model stopped by itself in mid-sentence: onset at that sentence. At the cap it is none."""
    text = f"{story(4)} "
    cut = f"{text}The captain closed the windows of the mill because the"
    verdict = detect_text(cut, SPEC, "stop")
    assert_coherent(verdict)
    assert (verdict.symptom, verdict.onset) == (SymptomKind.TRUNCATION, len(text_tokens(text.rstrip())) + 1)
    assert not detect_text(cut, SPEC, "length").degenerate


def stuck_story() -> tuple[str, int]:
    """A story whose numbering sticks after twenty units, and the token at which it does."""
    healthy = story(20)
    stuck = "".join(f"\n\n{story(1, seed=50 + i, first=20)}" for i in range(5))
    return healthy + stuck, len(text_tokens(healthy)) + 3


def test_a_rise_of_entropy_dates_a_break_back() -> None:
    """Sentences go wrong before the numbering shows it: the onset moves to the first sentence after the
    change, never before the change itself and never further than the warning's reach."""
    text, stuck_at = stuck_story()
    plain = detect_text(text, SPEC, "length")
    assert (plain.symptom, plain.onset) == (SymptomKind.STRUCTURE_BREAK, stuck_at)
    tokens = with_entropy(text, stuck_at - 36)
    verdict = detect_tokens(tokens, SPEC, "length")
    assert_coherent(verdict)
    (change,) = [s.onset for s in verdict.symptoms if s.kind is SymptomKind.ENTROPY_SHIFT]
    assert verdict.symptom is SymptomKind.STRUCTURE_BREAK
    assert verdict.onset is not None
    assert change <= verdict.onset < stuck_at
    assert tokens[verdict.onset - 2].text in ".\n"
    assert verdict.zones[-1].start == verdict.onset


def test_an_entropy_change_long_before_a_break_does_not_date_it_back() -> None:
    """The text survived the change for a page: it makes a drifting zone and no more."""
    text, stuck_at = stuck_story()
    verdict = detect_tokens(with_entropy(text, stuck_at - 5 * WARNING_LOOKBACK), SPEC, "length")
    assert_coherent(verdict)
    assert verdict.onset == stuck_at
    assert [zone.kind for zone in verdict.zones] == [ZoneKind.STABLE, ZoneKind.DRIFTING, ZoneKind.COLLAPSED]


@pytest.mark.parametrize("after", [2.4, 0.05])
def test_a_loops_onset_is_exact(after: float) -> None:
    """No entropy dates a loop back: its first copy is text."""
    text = f"{story(8)} {sentence(random.Random(8))}"
    onset = len(text_tokens(text)) + 7
    verdict = detect_tokens(with_entropy(text + f" {LOOP}" * 60, onset - 30, after=after), SPEC, "length")
    assert (verdict.symptom, verdict.onset) == (SymptomKind.LOOP, onset)


def test_entropy_alone_is_no_degeneration() -> None:
    """A change of level in a fluent text is a drifting zone; the output counts as observed in full."""
    verdict = detect_tokens(with_entropy(story(20), 500), SPEC, "stop")
    assert_coherent(verdict)
    assert not verdict.degenerate
    assert verdict.observed == verdict.tokens
    assert [zone.kind for zone in verdict.zones] == [ZoneKind.STABLE, ZoneKind.DRIFTING]
    assert 0 < verdict.score < 0.5


def test_reasoning_is_judged_for_loops_only() -> None:
    """A model may think in another language and without any structure, but not in circles; positions
    count its tokens."""
    italian = (
        "Devo scrivere una storia lunga, quindi comincio dal faro e dal vecchio guardiano che lo abita. "
    )
    thought = [replace(token, reasoning=True) for token in text_tokens(italian * 2 + "Paragraph 9. Sì. ")]
    verdict = detect_tokens([*thought, *text_tokens(story(5))], SPEC, "stop")
    assert not verdict.degenerate
    assert verdict.units == 5
    assert verdict.tokens == len(thought) + len(text_tokens(story(5)))
    circles = [replace(token, reasoning=True) for token in text_tokens(f"So {LOOP}" + f" {LOOP}" * 20)]
    looping = detect_tokens([*circles, *text_tokens(story(5))], SPEC, "stop")
    assert (looping.symptom, looping.onset, looping.recovered) == (SymptomKind.LOOP, 8, True)


def test_an_empty_output_has_an_empty_verdict() -> None:
    """Nothing was said, nothing is claimed."""
    assert detect_text("", DetectorSpec(), None) == GenerationVerdict(tokens=0, observed=0)


def counted(first: int, last: int, body: str = BODY) -> str:
    return "".join(f"\n\nParagraph {n}. {body}." for n in range(first, last))


def test_a_near_loop_is_a_degeneration() -> None:
    """Counters between otherwise equal units: the onset is the second copy, it stands to the end."""
    healthy = story(4)
    verdict = detect_text(healthy + counted(5, 14), SPEC, "length")
    assert_coherent(verdict)
    assert verdict.symptom is SymptomKind.NEAR_LOOP
    assert verdict.onset is not None
    assert abs(verdict.onset - len(text_tokens(healthy + counted(5, 6))) - 1) <= 3
    assert verdict.loops_to_end
    assert not verdict.recovered


def test_a_near_loop_that_ends_is_recovered() -> None:
    """The model counted up one body, and then went on telling: degenerate, and marked."""
    verdict = detect_text(story(4) + counted(5, 14) + "\n\n" + story(8, seed=5, first=14), SPEC, "stop")
    assert_coherent(verdict)
    assert verdict.symptom is SymptomKind.NEAR_LOOP
    assert verdict.recovered
    assert not verdict.loops_to_end


def test_an_exact_loop_is_not_told_twice() -> None:
    """An exact loop is a near-loop too: the panel tells it once, with the exact onset."""
    verdict = detect_text(f"{story(4)}\n\n" + f"{BODY}. " * 30, SPEC, "length")
    assert [s.kind for s in verdict.symptoms if s.confirmed] == [SymptomKind.LOOP]


def test_a_near_loop_leads_into_an_exact_loop_as_a_warning() -> None:
    """The first copies differ by a word, then the text repeats exactly, for long: the symptom is the loop,
    from its own second copy on; what led into it is a warning, and the text drifting from there."""
    head = f"{story(4)}\n\n{BODY.replace('wind', 'tide')}. {BODY.replace('boats', 'ships')}. "
    verdict = detect_text(head + f"{BODY}. " * 60, SPEC, "length")
    assert_coherent(verdict)
    assert verdict.symptom is SymptomKind.LOOP
    warned = [s for s in verdict.symptoms if s.kind is SymptomKind.NEAR_LOOP]
    assert [s.confirmed for s in warned] == [False]
    loop = next(s for s in verdict.symptoms if s.kind is SymptomKind.LOOP)
    assert verdict.onset == loop.onset > warned[0].onset
    assert any(z.kind is ZoneKind.DRIFTING and z.start <= warned[0].onset <= z.end for z in verdict.zones)


def test_an_exact_stretch_of_a_near_loop_is_dated_by_the_near_loop() -> None:
    """A few copies in a row are equal by chance, those before and after are not: it began with the first
    near-copy, and what proved it was a stretch of it."""
    nights = ("tide", "rain", "dust", "frost", "smoke", "storm")
    near = [
        BODY.replace("wind", n).replace("home", f"past {n}").replace("light", f"{n} light") for n in nights
    ]
    text = ". ".join([*near[:2], *[BODY] * 5, *near[2:]])
    verdict = detect_text(f"{story(4)}\n\n{text}.", SPEC, "length")
    loop = next(s for s in verdict.symptoms if s.kind is SymptomKind.LOOP)
    assert verdict.symptom is SymptomKind.LOOP
    assert loop.end is not None
    assert verdict.onset == min(s.onset for s in verdict.symptoms if s.kind is SymptomKind.NEAR_LOOP)
    assert verdict.onset < loop.onset


def test_a_near_loop_proven_before_keeps_its_onset() -> None:
    """Half a page of near-copies before the text begins to repeat exactly: degenerate from there on."""
    verdict = detect_text(story(4) + counted(5, 20) + f"{BODY}. " * 30, SPEC, "length")
    assert verdict.symptom in {SymptomKind.NEAR_LOOP, SymptomKind.FLOODING}  # of few words, too
    assert {SymptomKind.LOOP, SymptomKind.NEAR_LOOP} <= {s.kind for s in verdict.symptoms}


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize(("reason", "judged"), [("stop", True), ("length", False), (None, False)])
def test_what_ends_with_nothing_but_reasoning_is_judged_as_the_answer(
    marked: bool, reason: str | None, judged: bool
) -> None:
    """A reasoning parser took the whole answer for reasoning (vLLM, with a model that does not reason), or a
    `<think>` was never closed: nobody watched its language, and a limit was certified."""
    text = story(12)
    tokens = [replace(token, reasoning=True) for token in text_tokens(text)]
    if not marked:
        tokens = recorded_tokens(f"<think>\n{text}")
    spec = DetectorSpec(language="it")
    verdict = detect_tokens(tokens, spec, reason)
    assert (verdict.symptom is SymptomKind.LANGUAGE_DRIFT) == judged
    assert verdict.tokens == len(tokens) == verdict.reasoning
