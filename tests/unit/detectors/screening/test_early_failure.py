"""A long answer that fails near its beginning has the verdict of the whole, from its beginning alone."""

from __future__ import annotations

import random

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.early_failure import LOOK_BACK, failed_early
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.screening.screen import screen_texts
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.tokens import split_pieces
from stresstest.model import GenerationVerdict, SymptomKind
from tests.support.foreign_texts import GERMAN
from tests.support.stories import LOOP, story

EN = DetectorSpec(language="en")
TOKENS = 2 * (LOOK_BACK + 1024) + 500
"""Of a text that is just long enough."""


def noise(rng: random.Random, count: int) -> str:
    """Letters that make no words."""
    return " ".join(
        "".join(rng.choices("bcdfghjklmnpqrstvwxzaeiou", k=rng.randint(4, 9))) for _ in range(count)
    )


def emoji(rng: random.Random, count: int) -> str:
    return "".join(rng.choices("😀🎉👍🔥🚀✨🌍💡", k=count))


def han(rng: random.Random, count: int) -> str:
    signs = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生"
    return "".join(rng.choice(signs) + ("。" if n % 12 == 11 else "") for n in range(count))


def judged_by_its_beginning(text: str, spec: DetectorSpec = EN) -> tuple[GenerationVerdict | None, list[int]]:
    """The verdict, and the tokens of each beginning that was judged."""
    read: list[int] = []

    def judge(beginning: str) -> GenerationVerdict:
        read.append(len(split_pieces(beginning)))
        return detect_recorded(beginning, spec)

    (screened,) = screen_texts([text], spec.language, ["length"], [""])
    return failed_early(text, screened, spec, judge), read


def same(one: GenerationVerdict, other: GenerationVerdict) -> bool:
    """Whether two verdicts agree in all that is counted."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("tokens", "observed", "onset", "alarm", "symptom", "recovered", "loops_to_end")
    )


@pytest.mark.parametrize("failing", [noise, han], ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_the_beginning_tells_what_the_whole_does(failing, seed: int) -> None:  # type: ignore[no-untyped-def]
    """Also where it fails in another way later on, and is healthy in between."""
    rng = random.Random(seed)
    text = "\n\n".join([story(2, seed=seed), failing(rng, 900), story(1, seed=9), failing(rng, 400), GERMAN])
    text += "\n\n" + failing(rng, TOKENS)
    verdict, read = judged_by_its_beginning(text)
    assert read
    assert max(read) < len(split_pieces(text)) // 2
    assert verdict is not None
    assert same(verdict, detect_text(text, EN, "length"))
    assert verdict == detect_recorded(text, EN, "length")
    assert verdict.zones[-1].end == verdict.tokens


def test_a_loop_behind_the_failure_is_seen() -> None:
    """Whether loops go on to the end is counted for every answer: it is read whole."""
    rng = random.Random(1)
    text = f"{han(rng, 9000)}\n\n" + f" {LOOP}" * 60
    assert judged_by_its_beginning(text)[0] is None
    found = detect_recorded(text, EN, "length")
    assert found.loops_to_end
    assert same(found, detect_text(text, EN, "length"))


def test_a_flood_that_may_repeat_something_is_read_whole_for_repetitions_only() -> None:
    """Of eight emoji, some always stand as they stood before."""
    text = emoji(random.Random(2), 9 * (LOOK_BACK + 1024))
    verdict, read = judged_by_its_beginning(text)
    assert verdict is not None
    assert len(read) == 1
    assert (verdict.symptom, verdict.onset, verdict.loops_to_end) == (SymptomKind.FLOODING, 1, False)
    assert verdict == detect_recorded(text, EN, "length")


def test_what_fails_late_or_never_is_read_whole() -> None:
    """An alarm in the end of the beginning may be followed by an earlier onset; a healthy text has none."""
    healthy = "\n\n".join(story(8, seed=seed) for seed in range(20))
    healthy = "".join(split_pieces(healthy)[:TOKENS])
    late = "".join(split_pieces(healthy)[: TOKENS // 2 - 300]) + " " + noise(random.Random(3), TOKENS // 2)
    for text in (healthy, late):
        assert judged_by_its_beginning(text)[0] is None
    assert judged_by_its_beginning(noise(random.Random(4), 2000))[0] is None  # short
