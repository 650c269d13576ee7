"""Sustained surprisal: coherent sampling has none, a flattened distribution has."""

from __future__ import annotations

import math
import random
import re
import statistics
from functools import cache
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.detectors.entropy.surprisal import REFERENCE_NATS, SurprisalDetector
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_tokens
from stresstest.model import Symptom, SymptomKind, Token
from stresstest.model.tokens import entropy_bound

VOCABULARY = 400


@cache
def shape(step: int, temperature: float) -> tuple[list[float], list[float]]:
    """Raw log probabilities by rank of one of 16 distributions, and cumulative weights at a temperature."""
    steepness = 0.8 + 0.2 * step
    logits = [-steepness * math.log(rank) for rank in range(1, VOCABULARY + 1)]
    norm = math.log(sum(map(math.exp, logits)))
    return [each - norm for each in logits], list(accumulate(math.exp(each / temperature) for each in logits))


def written(length: int, seed: int, *, temperature: float = 1.0, alternatives: int = 20) -> list[Token]:
    """Tokens of a model whose next-token distribution has another shape at every step (0.2 to 5 nats),
    sampled at a temperature; what is reported is raw, of the most likely alternatives."""
    rng = random.Random(seed)
    tokens = []
    for _ in range(length):
        raw, weights = shape(rng.randrange(16), temperature)
        chosen = rng.choices(raw, cum_weights=weights)[0]
        tokens.append(Token(" w", logprob=chosen, entropy=entropy_bound(raw[:alternatives])))
    return tokens


def watch(tokens: list[Token]) -> list[Symptom]:
    detector = SurprisalDetector()
    for token in tokens:
        detector.update(token)
    detector.finish(None)
    assert detector.open_from is None
    return detector.symptoms()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.2, 0.7, 1.0]), st.sampled_from([1, 5, 20]))
def test_coherent_sampling_is_silent(seed: int, temperature: float, alternatives: int) -> None:
    """At temperatures up to 1, however few alternatives the server reports, nothing is found."""
    assert watch(written(600, seed, temperature=temperature, alternatives=alternatives)) == []


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 400))
def test_a_flattened_distribution_is_found_where_it_begins(seed: int, healthy: int) -> None:
    """From one token on everything is chosen nearly at random: it is reported soon after, dated no later."""
    [found] = watch(written(healthy, seed) + written(300, seed + 1, temperature=20.0))
    assert found.confirmed
    assert found.onset <= healthy + 16
    assert healthy < found.alarm <= healthy + 120
    mean = found.detail["mean_surprisal"]
    assert isinstance(mean, float)
    assert mean > REFERENCE_NATS


@pytest.mark.slow
def test_its_onset_is_close() -> None:
    """Chance surprises before the true onset may date it early, by more than eight tokens in few cases."""
    errors = []
    for seed in range(200):
        healthy = 2 * seed
        [found] = watch(written(healthy, seed) + written(300, seed + 1, temperature=20.0))
        errors.append(abs(found.onset - (healthy + 1)))
    assert sum(error > 8 for error in errors) <= 10
    assert statistics.median(errors) <= 1


def test_single_odd_tokens_are_ignored() -> None:
    """A name, or a bracket that a grammar forces, is one unlikely token among likely ones."""
    tokens = written(900, 3)
    for at in range(0, 900, 12):
        tokens[at] = Token("{", logprob=-18.0, entropy=1.0)
    assert watch(tokens) == []


def test_random_digits_are_a_free_choice() -> None:
    """A column of telephone numbers surprises at every token and is what was asked for."""
    assert watch([Token(f"{number}", logprob=-6.9, entropy=0.2) for number in range(100, 400)]) == []


@pytest.mark.parametrize("missing", ["logprob", "entropy"])
def test_silent_without_logprobs(missing: str) -> None:
    """A server that sends half of what is needed proves nothing."""
    tokens = [
        Token(t.text, logprob=None if missing == "logprob" else t.logprob,
              entropy=None if missing == "entropy" else t.entropy)
        for t in written(300, 5, temperature=20.0)
    ]  # fmt: skip
    assert watch(tokens) == []


def test_it_gives_the_verdict_of_the_suite() -> None:
    """Alone it makes an answer degenerate, dated at its own onset."""
    words = re.findall(r"\S+ ?", "The lamp on the pier was lit every evening by a different keeper. ")
    tokens = [Token(word, logprob=-6.0, entropy=1.5) for word in words]
    verdict = detect_tokens(tokens * 2, DetectorSpec("en"), "length")
    assert (verdict.symptom, verdict.onset) == (SymptomKind.ENTROPY_SHIFT, 1)
