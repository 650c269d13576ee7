"""The fast path: what the panel would flag never passes, and folding a loop changes no verdict."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import BatchDetector, Detector, DetectorSpec
from stresstest.detectors.flooding.batch import BatchFloodingDetector
from stresstest.detectors.flooding.online import FloodingDetector
from stresstest.detectors.loop.batch import BatchLoopDetector
from stresstest.detectors.loop.online import LoopDetector
from stresstest.detectors.near_loop.batch import BatchNearLoopDetector
from stresstest.detectors.near_loop.online import NearLoopDetector
from stresstest.detectors.screening.collapse_loop import collapse_loop
from stresstest.detectors.screening.recorded import RecordedText, detect_many, detect_recorded
from stresstest.detectors.screening.screen import OPEN_TAIL, screen_texts
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.features import extract_features, piece_count, piece_ends
from stresstest.detectors.text.tokens import split_pieces, text_tokens
from stresstest.detectors.text.windows import (
    cusum,
    dense_window_ends,
    distance_to_previous,
    max_per_text,
    repeated_run_starts,
    run_starts,
    unmarked_gaps,
)
from stresstest.model import SymptomKind, Token
from tests.fuzz.answers import fuzz
from tests.support.foreign_texts import GERMAN, ITALIAN, RUSSIAN
from tests.support.screened import healthy_verdict
from tests.support.stories import BODY, LOOP, story

EN = DetectorSpec(language="en")


def counted(units: int, seed: int) -> str:
    """One body under a counter: a near-loop."""
    body = story(1, seed=seed).split(". ", 1)[1]
    return "\n\n".join(f"Paragraph {n}. {body}" for n in range(1, units + 1))


def edited(units: int, seed: int) -> str:
    """One body with a word or two exchanged each time: a near-loop."""
    rng = random.Random(seed)
    words = story(1, seed=seed).split()
    copies = []
    for _ in range(units):
        copy = list(words)
        for _ in range(2):
            copy[rng.randrange(len(copy))] = rng.choice(["stone", "river", "window", "morning"])
        copies.append(" ".join(copy))
    return "\n".join(copies)


def noise(words: int, seed: int) -> str:
    """Letters that make no words."""
    rng = random.Random(seed)
    return " ".join(
        "".join(rng.choices("bcdfghjklmnpqrstvwxzaeiou", k=rng.randint(4, 9))) for _ in range(words)
    )


def flood(words: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(["no", "yes", "well"]) for _ in range(words))


_BROKEN = st.one_of(
    st.builds(lambda n, m: f" {LOOP}" * n + " " + story(m, seed=3), st.integers(6, 40), st.integers(0, 2)),
    st.builds(lambda s, n: story(1, seed=s) * n, st.integers(20, 40), st.integers(2, 5)),
    st.builds(counted, st.integers(2, 8), st.integers(0, 50)),
    st.builds(edited, st.integers(3, 9), st.integers(0, 50)),
    st.builds(flood, st.integers(20, 120), st.integers(0, 50)),
    st.builds(noise, st.integers(4, 60), st.integers(0, 50)),
    st.sampled_from(
        [ITALIAN, GERMAN, RUSSIAN, ITALIAN[:97], GERMAN[:85], ITALIAN[:97] + story(1), "=" * 300]
    ),
    st.sampled_from(
        ["| a | b |\n" * 30, "1. One\n2. Two\n3. Three\n" * 12, "```python\nx = [1, 2]\n", "\n- - -\n" * 60]
    ),
)
_TEXTS = st.builds(
    lambda before, broken, after, end: before + "\n\n" + broken + "\n\n" + after + end,
    st.builds(story, st.integers(0, 6), st.integers(0, 30)),
    st.lists(_BROKEN, max_size=2).map("\n".join),
    st.builds(story, st.integers(0, 4), st.integers(0, 30)),
    st.sampled_from(["", "", "\n\nAnd then the old keeper walked to the", "\n```\ncode"]),
)


@pytest.mark.slow
@given(
    _TEXTS
    | st.text("ab1 \n.,_é中", max_size=200)
    | st.builds(lambda n, m: "x" * n + " ab c" * m, st.integers(60, 6000), st.integers(0, 60)),
    st.sampled_from(["stop", "length"]),
    st.booleans(),
    st.sampled_from(["", "", "Say yes and no and well, and write «yes no well» 100 times."]),
)
@settings(max_examples=60, deadline=None)
def test_an_answer_read_at_once_is_read_token_by_token(
    text: str, reason: str, lines: bool, prompt: str
) -> None:
    """What a detector passes over while it reads changes nothing: the same symptoms, the same candidates."""
    texts = text.splitlines(keepends=True) if lines else split_pieces(text)
    makers: tuple[tuple[Callable[[DetectorSpec], Detector], Callable[[DetectorSpec], BatchDetector]], ...] = (
        (LoopDetector, BatchLoopDetector),
        (NearLoopDetector, BatchNearLoopDetector),
        (FloodingDetector, BatchFloodingDetector),
    )
    for detector, reader in makers:
        spec = DetectorSpec(language="en", prompt_text=prompt)
        online, offline = detector(spec), reader(spec)
        for each in texts:
            online.update(Token(each))
        offline.update_all(texts)
        for made in (online, offline):
            made.finish(reason)
        assert offline.symptoms() == online.symptoms()
        assert offline.open_from == online.open_from


@pytest.mark.slow
@given(_TEXTS, st.sampled_from(["stop", "length", None]), st.sampled_from(["en", "it", None]))
@example(f"the end of the road{' and the end of the road' * 6} and \n\n{BODY}", "stop", "en")  # circles
@settings(max_examples=40, deadline=None)
def test_what_the_panel_flags_never_passes(text: str, reason: str | None, language: str | None) -> None:
    """No miss: a text with any confirmed symptom fails the screen; one that passes has the panel's length,
    and is observed no further than its end; the tail of one that did not choose it is left out."""
    spec = DetectorSpec(language=language)
    passed = healthy_verdict(text, spec, reason)
    verdict = detect_text(text, spec, reason)
    if passed is not None:
        assert not verdict.degenerate, [s.summary for s in verdict.symptoms if s.confirmed]
        assert passed.tokens == verdict.tokens
        assert 0 <= passed.observed <= passed.tokens
        assert reason == "stop" or passed.observed <= max(passed.tokens - OPEN_TAIL, 0)


@given(st.lists(_TEXTS, min_size=1, max_size=3), st.sampled_from(["stop", "length", None]))
@settings(max_examples=8, deadline=None)
def test_recorded_verdicts_are_the_panels(texts: list[str], reason: str | None) -> None:
    """With screen and folding in front, every degenerate verdict is the panel's in all that `scan` tells,
    whatever other texts are screened along with it."""
    found = detect_many([RecordedText(text, EN, reason) for text in texts])
    same = ("tokens", "onset", "alarm", "symptom", "recovered", "loops_to_end")
    for each, text in zip(found, texts, strict=True):
        verdict = detect_text(text, EN, reason)
        assert each.degenerate == verdict.degenerate
        if verdict.degenerate:
            assert [getattr(each, name) for name in same] == [getattr(verdict, name) for name in same]
            assert each.score == pytest.approx(verdict.score, abs=0.01)


_SIGNS = st.characters(exclude_categories=("Cs", "Co", "Cn")) | st.sampled_from("abc012 .,-_|*½②Ⅳ")


@given(
    st.lists(st.text(_SIGNS, min_size=1, max_size=5), min_size=3, max_size=15),
    st.integers(1, 30),
    st.sampled_from([" ", "", "\n", " | ", ". "]),
    st.sampled_from(["stop", "length", None]),
    st.sampled_from(["en", "it", "ja", "zh", "ko", "ru", "ar", "th"]),
)
@example(["In", "chapter", "Ⅳ1", "the", "boat", "left", "the", "old", "harbour."], 12, " ", None, "en")
@settings(max_examples=60, deadline=None)
def test_rows_of_any_signs_are_judged_alike_by_both_paths(
    words: list[str], rows: int, between: str, reason: str | None, language: str
) -> None:
    """Every sign of Unicode may stand in a model's answer, as part of a word, a label or a figure: a "Ⅳ1"
    ended a scan."""
    spec = DetectorSpec(language)
    text = "\n".join(between.join([*words, str(row)]) for row in range(rows))
    found, verdict = detect_recorded(text, spec, reason), detect_text(text, spec, reason)
    assert (found.degenerate, found.onset, found.symptom) == (
        verdict.degenerate,
        verdict.onset,
        verdict.symptom,
    )


@pytest.mark.slow
def test_a_hundred_answers_of_the_long_fuzzer() -> None:
    """A small share of `make fuzz`, so that it is known to run: several symptoms come up."""
    found = fuzz(60, seed=7)
    assert sum(found.values()) == 120
    assert {"healthy", "loop", "language_drift"} <= found.keys()


@given(
    st.lists(_TEXTS | st.sampled_from(["", " ", "🙂 ok", "𝐀𝐁", "l'été", "x" * 90]), min_size=1, max_size=6),
    st.sampled_from(["en", "it", None]),
)
@settings(max_examples=30, deadline=None)
def test_a_text_is_suspected_alone_as_among_others(texts: list[str], language: str | None) -> None:
    """Nothing reaches from one text of a batch into the next: chunks and workers change no verdict."""
    reasons = (["stop", "length", None] * 2)[: len(texts)]
    prompts = ["Write a story of three paragraphs about the keeper of a light on the coast.", ""] * 3
    assert screen_texts(texts, language, reasons, prompts[: len(texts)]) == [
        screen_texts([text], language, [reason], [prompt])[0]
        for text, reason, prompt in zip(texts, reasons, prompts, strict=False)
    ]


def test_healthy_prose_passes() -> None:
    """The screen is worth having: prose of nine in ten seeds needs no panel at all."""
    passed = [healthy_verdict(story(8, seed=seed), EN, "stop") for seed in range(30)]
    assert sum(each is not None for each in passed) >= 27
    assert healthy_verdict("", EN, None) is not None
    assert healthy_verdict(story(2), DetectorSpec(language="en", unit_pattern=r"(\d+)"), "stop") is None


@pytest.mark.slow
@given(
    st.sampled_from([" the end of the road and", " no", "ab ", f"\n{story(1, seed=4)}", "路的尽头", "x"]),
    st.integers(18_000, 26_000),
    st.integers(0, 60),
    st.integers(0, 4),
    st.sampled_from(["stop", "length", None]),
)
@example("x", 25_472, 0, 0, "length")
@example("x", 25_472, 0, 0, "stop")
@example("ab", 20_001, 3, 1, "stop")
@settings(max_examples=14, deadline=None)
def test_folding_a_loop_changes_nothing(
    period: str, size: int, less: int, after: int, reason: str | None
) -> None:
    """A long loop judged without its middle has the panel's verdict, recovered or not: tokens, onset,
    alarm, score, zones, and the loop's own numbers."""
    text = story(2, seed=5) + period * (size // len(period))
    text = text[: len(text) - less] + (f"\n\n{story(after, seed=8)}" if after else "")
    assert collapse_loop(text) is not None
    found, verdict = detect_recorded(text, EN, reason), detect_text(text, EN, reason)
    same = ("tokens", "observed", "onset", "alarm", "symptom", "zones", "recovered", "loops_to_end")
    assert [getattr(found, name) for name in same] == [getattr(verdict, name) for name in same]
    assert found.score == pytest.approx(verdict.score, abs=0.01)
    loops = [[s for s in v.symptoms if s.kind == "loop"] for v in (found, verdict)]
    assert [(s.onset, s.alarm, s.end, s.detail, s.summary) for s in loops[0]] == [
        (s.onset, s.alarm, s.end, s.detail, s.summary) for s in loops[1]
    ]


def test_a_folded_loop_is_dated_as_a_whole_one() -> None:
    """How long a loop lasted decides whether what led into it dates it back: what was cut out counts."""
    head = f"{story(4)}\n\n{BODY.replace('wind', 'tide')}. {BODY.replace('boats', 'ships')}. "
    text = head + f"{BODY}. " * 200
    assert collapse_loop(text) is not None
    found, verdict = detect_recorded(text, EN, "length"), detect_text(text, EN, "length")
    same = ("tokens", "observed", "onset", "alarm", "symptom", "recovered", "loops_to_end")
    assert [getattr(found, name) for name in same] == [getattr(verdict, name) for name in same]
    assert any(s.kind is SymptomKind.NEAR_LOOP and s.onset < (verdict.onset or 0) for s in verdict.symptoms)


@pytest.mark.parametrize("text", ["", "short", story(40), "a" * 4000, story(20) + f" {LOOP}" * 100])
def test_what_has_no_long_loop_is_not_folded(text: str) -> None:
    """Only a loop that stands at the end and is long enough to be worth it."""
    assert collapse_loop(text) is None


@given(st.text(max_size=200) | st.text("ab1 \n.,_'é中한ก🙂\u0301\u3000\x00", max_size=300))
@settings(max_examples=200, deadline=None)
def test_pieces_are_counted_as_the_panel_cuts_them(text: str) -> None:
    """The count of the fast path and of the panel are one scale, in every script, and so are the places."""
    cut = text_tokens(text)
    assert piece_count(text) == len(cut)
    assert piece_ends(text) == list(accumulate(len(piece.text) for piece in cut))


_WORDS = st.lists(st.sampled_from(["one", "Two", "due", "12", "7", "x1"]), max_size=40)


@given(st.lists(_WORDS, min_size=1, max_size=3))
@settings(deadline=None)
def test_hashes_say_what_stood_before(texts: list[list[str]]) -> None:
    """Repeated four-grams of each text, figures masked and case folded, and where they stood last."""
    seen = extract_features([" ".join(words) for words in texts])
    at, source = repeated_run_starts(seen.words, 4, seen.word_fences)
    close = distance_to_previous(seen.words, seen.word_fences) <= 5
    expected = []
    begin = 0
    for words, fence in zip(texts, seen.word_fences.tolist(), strict=True):
        masked = ["0" if w.isdecimal() else w.lower() for w in words]
        assert begin + len(masked) == fence
        for i in range(len(masked)):
            before = [j for j in range(i) if masked[j : j + 4] == masked[i : i + 4] and i + 4 <= len(masked)]
            expected += [(begin + i, begin + before[-1])] if before else []
            assert close[begin + i] == (masked[i] in masked[max(i - 5, 0) : i])
        begin = fence + 1
    assert list(zip(at.tolist(), source.tolist(), strict=True)) == expected


def test_rows_windows_sums_and_gaps() -> None:
    """The small tools, over two texts of five and two places, each with its fence: none reaches further."""
    fences = np.array([5, 8])
    flags = np.array([1, 0, 0, 1, 1, 0, 1, 1, 0], np.bool_)
    assert dense_window_ends(flags, 3, 2, fences).tolist() == [4, 5, 8]
    assert run_starts(np.array([1, 2, 3, 7, 8]), 2).tolist() == [1, 2, 7]
    evidence = np.array([2, -5, 2, 2, -1, 0, 3, -1, 0])
    assert cusum(evidence, fences).tolist() == [2, 0, 2, 4, 3, 0, 3, 2, 0]
    assert max_per_text(cusum(evidence, fences), fences).tolist() == [4, 3]
    assert [each.tolist() for each in unmarked_gaps(flags, fences, 1)] == [[1], [3]]
    assert [each.tolist() for each in unmarked_gaps(np.zeros(9, np.bool_), fences, 2)] == [[0, 6], [5, 8]]


def test_a_foreign_opening_is_not_hidden_by_what_follows() -> None:
    """Spanish shares most of its little words: many of them must not outvote an English sentence."""
    text = (
        "Aquí are five examples of questions and answers related to psychology:\n\n"
        "1. ¿Qué es la ansiedad y cómo puede ser tratada?\n   La ansiedad es una sensación de preocupación, "
        "miedo o terror que puede interferir con la vida cotidiana. Es tratada de manera efectiva."
    )
    spanish = DetectorSpec(language="es")
    assert detect_text(text, spec=spanish).degenerate
    assert healthy_verdict(text, spanish, None) is None


def test_a_flood_of_emoji_is_not_screened_out() -> None:
    """Emoji are no words to the fast path's features, but they flood: the panel is asked."""
    opening = "The old keeper went down to the harbour and counted every boat before the storm came in. "
    spec = DetectorSpec(language="en")
    text = opening + "".join(("😀", "🎉", "🔥")[(i * i) % 3] for i in range(400))
    assert healthy_verdict(text, spec, "length") is None
    assert healthy_verdict(opening + "Good night 😀", spec, "stop") is not None
