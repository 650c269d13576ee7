"""Where an onset is in a text that a server's parser held back."""

from __future__ import annotations

from stresstest.campaign.execution.driver import GenerationTask, drive
from stresstest.campaign.execution.held_text import date_at_earliest
from stresstest.detectors.entry import DetectorSpec
from stresstest.endpoint.client import Endpoint
from stresstest.model import Decoding, GenerationRequest, Job, Message, Phase, SymptomKind
from tests.support.fake_vllm import DONE, Events, chunk, fake_vllm, sse, usage_only
from tests.support.stories import story

ITALIAN = "Nel mattino chiaro la barca lasciò il porto e nessuno la vide tornare prima di sera."


def task() -> GenerationTask:
    """Italian is wanted."""
    job = Job(Phase.CERTIFY, 0, 0, None, 0, 1, 800)
    request = GenerationRequest("lab", 800, Decoding(), messages=(Message("user", "Perché?"),), seed=1)
    return GenerationTask(job, request, "p", "Perché?", DetectorSpec(prompt_text="Perché?", language="it"))


async def test_an_argument_that_came_at_its_end_fails_where_it_began() -> None:
    """vLLM's parsers of tools send a long argument when it is closed, and an empty event with its id for each
    token before: drift from its beginning on was dated at its last token, and a limit certified up to it."""
    begun = [chunk(f" {word}", ids=[n]) for n, word in enumerate(ITALIAN.split() * 2)]
    held = [chunk(ids=[100 + n]) for n in range(600)]
    end = chunk(story(20), ids=[99], finish="stop")
    usage = usage_only(5, len(begun) + 601)
    events = sse(*[*begun, *held, end, usage])
    async with fake_vllm(Events([*events, DONE])) as server, Endpoint(server.url) as endpoint:
        (made,) = [each async for each in drive(endpoint, [task()], concurrency=1, abort=False)]
    assert made.verdict.symptom is SymptomKind.LANGUAGE_DRIFT
    assert made.verdict.onset == len(begun) + 1
    assert made.verdict.observed == len(begun)
    assert made.output_tokens == made.verdict.tokens == len(begun) + 601


async def test_what_was_not_held_back_stays() -> None:
    """Nothing stands before its text, or the text is no longer than a token's."""
    shown = [chunk(f" {word}", ids=[n]) for n, word in enumerate(story(20).split())]
    events = sse(*[*shown, chunk(ids=[0], finish="stop"), usage_only(5, len(shown) + 1)])
    async with fake_vllm(Events([*events, DONE])) as server, Endpoint(server.url) as endpoint:
        (made,) = [each async for each in drive(endpoint, [task()], concurrency=1, abort=False)]
    assert made.verdict.symptom is SymptomKind.LANGUAGE_DRIFT
    assert date_at_earliest(made.verdict, made.tokens) == made.verdict
