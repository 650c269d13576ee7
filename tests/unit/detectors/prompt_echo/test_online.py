"""A prompt that comes back is no answer; a question restated before its answer is one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import detect_recorded
from stresstest.detectors.suite import DetectorSuite, detect_text
from stresstest.detectors.text.tokens import split_pieces, text_tokens
from stresstest.model import GenerationVerdict, SymptomKind
from stresstest.tasks import load_task
from tests.support.stories import story

PROMPT = (
    "Write a report on the harbour in sections numbered from 1 to 6. Begin every section with a title, keep "
    'to the facts, and do not stop before section 6. Topic: how the "old light" was repaired last winter.'
)
QUESTION = (
    "What is the roof of the highest of the three towers made of that stand on the hill behind the harbour?"
)
TEXT = (
    "The committee have met on tuesday and it were decided that the roof of the hall is to be repaired "
    "before the winter come, altough nobody knew who would pays for it."
)

CODING = (
    "Implement a Python function to find the longest common subsequence of two strings "
    "by dynamic programming."
)
CODED = f"""\
**Longest common subsequence of two strings by dynamic programming**

Here is a function that uses dynamic programming to find the longest common subsequence (LCS) of two strings.

```python
def common(one: str, other: str) -> str:
    '''{CODING.removeprefix("Implement a Python function to ").capitalize()}

    Args:
        one: the first string.
        other: the second string.
    '''
    return table(one, other)[-1]
```
"""


def echo(text: str, prompt: str, reason: str | None = "stop") -> GenerationVerdict:
    """The verdict online; the recorded one must find the same."""
    spec = DetectorSpec("en", prompt_text=prompt)
    verdict = detect_text(text, spec, reason)
    recorded = detect_recorded(text, spec, reason)
    assert (recorded.symptom, recorded.onset) == (verdict.symptom, verdict.onset)
    return verdict


@pytest.mark.parametrize("lead", ["", "Certainly, here it is.\n\n", f"{story(2)}\n\n"])
def test_a_prompt_given_back_is_found_where_it_begins(lead: str) -> None:
    """The onset is the first word that only repeats the prompt, wherever the answer was until then."""
    verdict = echo(lead + PROMPT, PROMPT)
    assert verdict.symptom is SymptomKind.PROMPT_ECHO
    assert verdict.onset == len(split_pieces(lead.rstrip(" "))) + 1


def test_half_a_sentence_more_or_less_is_an_echo_still() -> None:
    """Models leave out the last words, count differently and stray a little."""
    shown = PROMPT.replace("1 to 6", "1 to 9").replace("keep to the facts", "keep to all of the facts")
    assert echo(shown[: shown.index("Topic")], PROMPT).symptom is SymptomKind.PROMPT_ECHO


def test_the_second_echo_is_known_before_the_answer_ends() -> None:
    """`run` closes a stream that says the prompt again and again, whether or not it would ever end."""
    suite = DetectorSuite(DetectorSpec("en", prompt_text=PROMPT))
    for token in text_tokens(f"{PROMPT}\n\n" * 4):
        suite.update(token)
    assert suite.alarm is not None
    assert suite.verdict().onset == 1


def test_an_echo_that_was_cut_off_is_open() -> None:
    """Nobody knows whether an answer would have followed."""
    verdict = echo(PROMPT, PROMPT, "length")
    assert (verdict.onset, verdict.observed) == (None, 0)


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        (PROMPT, f"{PROMPT}\n\n{story(4)}"),
        (QUESTION, f"{QUESTION} Coppered oak."),
        (PROMPT, "How the old light was repaired last winter: a report on the harbour in six sections."),
        (f"Please correct the grammar of this text: {TEXT}", TEXT.replace("altough", "although")),
        (f"{TEXT}\n\nCorrect the text above.", TEXT.replace("altough", "although")),
        (f"{TEXT}<br><br>Correct the text above.", TEXT.replace("altough", "although")),
        (f"Which mistakes are in “{TEXT}”?", f"“{TEXT}”"),
        (
            "What is the capital of the country where the light stands?",
            "The capital of the country where the light stands?",
        ),
        (
            "Is it true that the keepers of the light were really prisoners of the Crown?",
            "No, it is not true that the keepers of the light were really prisoners of the Crown. That the "
            f"keepers of the light were prisoners of the Crown is a common misconception. {story(2)}",
        ),
        ("", PROMPT),
        (CODING, CODED),
    ],
)
def test_what_was_asked_for_is_no_echo(prompt: str, answer: str) -> None:
    """A restated question before its answer, a topic, a text to correct, a short or an unknown prompt,
    a title and a docstring that say what was asked for."""
    assert not echo(answer, prompt).degenerate


@pytest.mark.slow
@pytest.mark.parametrize("task", ["narrative", "technical", "qa"])
@pytest.mark.parametrize("language", ["en", "it", "fr", "de", "es", "pt"])
def test_shipped_prompts_are_recognised_with_a_word_in_twelve_changed(language: str, task: str) -> None:
    """The rule knows no task and no language. About one in 300 is missed: the changes fall close together."""
    missed = 0
    for seed in range(12):
        rng = random.Random(seed)
        prompt = load_task(task).prompt(language, seed, 8).messages[-1].content
        words = prompt.split(" ")
        for _ in range(len(words) // 12):
            words[rng.randrange(len(words))] = rng.choice(["faro", "lampe", "stone", "12"])
        spec = DetectorSpec(language, prompt_text=prompt)
        for detect in (detect_text, detect_recorded):
            verdict = detect(" ".join(words), spec, "stop")
            missed += not any(
                s.kind is SymptomKind.PROMPT_ECHO and s.onset <= 4 * 3 for s in verdict.symptoms
            )
    assert missed <= 2


@pytest.mark.slow
@given(st.integers(0, 10_000), st.sampled_from(["narrative", "technical", "qa"]))
@settings(max_examples=30, deadline=None)
def test_a_healthy_answer_is_none(seed: int, task: str) -> None:
    """Answers share words with their prompt, not the prompt."""
    prompt = load_task(task).prompt("en", seed, 8).messages[-1].content
    assert not echo(story(8, seed=seed), prompt).degenerate
