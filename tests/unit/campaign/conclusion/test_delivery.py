"""Tokens that arrive later than they were generated: the API process is busy, not the GPU."""

from __future__ import annotations

from dataclasses import replace

from stresstest.campaign.conclusion.delivery import slow_delivery_sentence
from stresstest.model import GenerationRecord, ServerSample
from tests.support.generations import make, make_job


def answers(pace: float) -> list[GenerationRecord]:
    """Eight answers of 401 tokens, `pace` seconds apart."""
    made = make(make_job(), 401).to_record()
    return [replace(made, started=0.0, first_token=0.5, ended=0.5 + 400 * pace, output_tokens=401)] * 8


def readings(pace: float, every: float = 0.25, until: float = 12.0) -> list[ServerSample]:
    """/metrics of an engine that generates a token every `pace` seconds."""
    found = []
    for i in range(int(until / every) + 1):
        tokens = 100.0 * i
        histograms = {"inter_token_latency_seconds": (pace * tokens, tokens)}
        found.append(ServerSample(i * every, 8.0, 0.0, 0.1, 0.0, histograms=histograms))
    return found


def test_tokens_that_queue_behind_the_engine_are_noted() -> None:
    """As on an H200 with 64 streams and 20 logprobs: 22 ms against 4.6 ms, and /metrics silent for 27 s."""
    told = slow_delivery_sentence(answers(0.022), readings(0.0046, every=27.0, until=60.0), logprobs=True)
    assert told is not None
    assert "22 ms apart, but were generated 4.6 ms apart" in told
    assert "/metrics could not be read for up to 27 s" in told
    assert "--no-logprobs, like a lower --concurrency, relieves it" in told


def test_without_logprobs_only_fewer_requests_help() -> None:
    """What is not requested is not blamed."""
    told = slow_delivery_sentence(answers(0.022), readings(0.0046), logprobs=False)
    assert told is not None
    assert "logprobs" not in told
    assert "could not be read" not in told


def test_an_engine_that_sets_the_pace_is_not_noted() -> None:
    """Nor is a server without the histogram, nor a handful of tokens."""
    assert slow_delivery_sentence(answers(0.006), readings(0.0046), logprobs=True) is None
    assert slow_delivery_sentence(answers(0.022), [], logprobs=True) is None
    assert slow_delivery_sentence(answers(0.022)[:2], readings(0.0046), logprobs=True) is None
