"""Driving generations: retries are visible, lost streams are kept, aborts are certain, stops are clean."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.campaign.execution.driver import GenerationTask, RetryPolicy, drive
from stresstest.campaign.execution.events import (
    AlarmRaised,
    AttemptRetried,
    GenerationAdvanced,
    GenerationEvent,
    GenerationFinished,
    GenerationStarted,
)
from stresstest.campaign.execution.token_scale import TokenScale
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.text.tokens import text_tokens
from stresstest.diagnosis.evidence.capped import find_server_cap
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import Timeouts
from stresstest.endpoint.wire import RequestFeatures
from stresstest.errors import EndpointError
from stresstest.model import (
    RIGORS,
    Decoding,
    EndpointProfile,
    FailureKind,
    Generation,
    GenerationRequest,
    Job,
    Message,
    Phase,
    ServiceFailure,
    SymptomKind,
    Token,
)
from stresstest.statistics import certified_threshold
from stresstest.statistics.sample import observations
from tests.support.fake_vllm import (
    DONE,
    Answer,
    Asked,
    Events,
    Hang,
    Page,
    answer,
    chunk,
    fake_vllm,
    page,
    sse,
    usage_only,
)

FAST = RetryPolicy(base=0.01, cap=0.02)
STORY = [
    "Nel",
    "mattino",
    "chiaro",
    "la",
    "barca",
    "lasciò",
    "il",
    "porto",
    "e",
    "nessuno",
    "la",
    "vide",
    "tornare",
    "prima",
    "di",
    "sera",
    ".",
]
THOUGHT = [f" {first}{rest}" for first in "bcdfglmnprst" for rest in ("allo", "ene", "irono", "otto", "uma")]
LOOP = STORY + ["e", " poi", " ancora", " il", " mare", " grande", " canta", " piano"] * 60


def task_of(index: int, max_tokens: int = 64) -> GenerationTask:
    """A task whose prompt holds its index, so that a script can tell the tasks apart."""
    job = Job(Phase.CERTIFY, 0, index, None, index, 1, max_tokens)
    request = GenerationRequest(
        "lab", max_tokens, Decoding(), messages=(Message("user", f"work {index}"),), seed=index
    )
    return GenerationTask(
        job, request, f"p{index}", f"work {index}", DetectorSpec(prompt_text=f"work {index}")
    )


def index_of(asked: Asked) -> int:
    """Which task a request belongs to."""
    return int(asked.body["messages"][0]["content"].split()[1])


async def collect(endpoint: Endpoint, tasks: list[GenerationTask], **options: Any) -> list[Generation]:
    """Drive to the end."""
    settings: dict[str, Any] = {"concurrency": 4, "abort": True, "retry": FAST} | options
    return [generation async for generation in drive(endpoint, tasks, **settings)]


async def keep(generations: AsyncIterator[Generation], kept: Callable[[Generation], object]) -> None:
    """Hand over what comes out, so that it can be looked at even after an error."""
    async for generation in generations:
        kept(generation)


async def test_every_task_ends_once_whatever_the_order() -> None:
    """Slow and fast answers interleave; each task yields its own text, none twice, none lost."""

    def script(asked: Asked) -> Answer:
        index = index_of(asked)
        return Events(answer([f"{index}", " fine"]), pause=0.01 * ((index * 7) % 5))

    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        tasks = [task_of(i) for i in range(12)]
        parallel = await collect(endpoint, tasks, concurrency=5)
        serial = await collect(endpoint, tasks, concurrency=1)
        assert len(server.generations) == 24
    assert {g.key: g.text for g in parallel} == {f"certify/0/{i}": f"{i} fine" for i in range(12)}
    assert {g.key: (g.text, g.verdict) for g in parallel} == {g.key: (g.text, g.verdict) for g in serial}
    assert [g.key for g in serial] == [w.job.key for w in tasks]


async def test_a_generation_holds_what_was_measured() -> None:
    """Tokens, times, finish reason, prompt tokens, verdict and our own lag are all there."""
    async with fake_vllm(Events(answer(STORY, finish="length"))) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)])
    assert made.text == "".join(STORY)
    assert (made.finish_reason, made.failure, made.aborted, made.attempts) == ("length", None, False, 1)
    assert made.verdict.tokens == made.output_tokens == len(STORY)
    assert made.prompt_tokens == 7
    assert made.first_token is not None
    assert made.started <= made.first_token <= made.ended
    assert made.loop_lag is not None
    assert made.loop_lag >= 0.0


@pytest.mark.parametrize("finish", ["length", "stop"])
@pytest.mark.parametrize("words", [[], STORY], ids=["no text", "text before"])
async def test_tokens_that_nobody_saw_are_not_observed(words: list[str], finish: str) -> None:
    """Tokens that a gateway counts and does not show are no health: the answer stays in doubt."""
    total = len(words) + 500
    shown = answer(words, finish=None, done=False)[:-1]
    events = [*shown, *sse(chunk("", finish=finish), usage_only(7, total)), DONE]
    async with fake_vllm(Events(events)) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0, max_tokens=total)])
    assert (made.verdict.tokens, made.verdict.observed) == (total, 0)
    (seen,) = observations([made])
    assert seen.unresolved
    assert seen.observed == 0
    assert made.unseen_tokens >= 400
    assert (seen.digest is None) is (not words)


@pytest.mark.parametrize(
    ("before", "counted", "hidden"),
    [
        ([], 490, 490),
        ([], 63, 0),
        (["<think>", "\n", *THOUGHT, "</think>", "\n"], 70, 0),
        ([*THOUGHT, "</think>", "\n"], 70, 0),
        (["<think>", "\n", *THOUGHT, "</think>", "\n"], 490, 300),
    ],
    ids=["none shown", "few", "in the text", "opened in the prompt", "in part"],
)
async def test_reasoning_that_is_counted_and_not_shown_is_not_observed(
    before: list[str], counted: int, hidden: int
) -> None:
    """The text alone could hold all the tokens; the server says that many of them are reasoning, which a
    gateway keeps to itself."""
    words = [*before, *(f"{word}, unbelievably" for word in STORY)]
    usage = usage_only(7, len(words))
    usage["usage"]["completion_tokens_details"] = {"reasoning_tokens": counted}
    events = [*answer(words, finish=None, done=False)[:-1], *sse(chunk("", finish="stop"), usage), DONE]
    async with fake_vllm(Events(events)) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0, max_tokens=4096)])
    assert hidden <= made.unseen_tokens <= (counted if hidden else 0)
    assert not hidden or made.verdict.observed == 0


@pytest.mark.parametrize(("total", "hidden"), [(7 + 200 + 900, 900), (7 + 200, 0), (180, 0), ("1107", 0)])
async def test_tokens_that_are_in_the_total_only_are_not_observed(total: object, hidden: int) -> None:
    """Gemini's API counts its thoughts in neither prompt nor answer."""
    words = [f"{STORY[i % len(STORY)]}-{i}, unbelievably" for i in range(200)]
    usage = usage_only(7, 200)
    usage["usage"]["total_tokens"] = total
    events = [*answer(words, finish=None, done=False)[:-1], *sse(chunk("", finish="stop"), usage), DONE]
    async with fake_vllm(Events(events)) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0, max_tokens=4096)])
    assert (made.unseen_tokens, made.failure) == (hidden, None)


async def test_reasoning_that_is_shown_is_observed() -> None:
    """As `reasoning`, beside the server's count of it."""
    usage = usage_only(7, 2 * len(STORY))
    usage["usage"]["completion_tokens_details"] = {"reasoning_tokens": 70}
    thought = [chunk("", reasoning=word) for word in THOUGHT]
    events = [
        *sse(*thought),
        *answer(STORY, finish=None, done=False)[:-1],
        *sse(chunk("", finish="stop"), usage),
    ]
    async with fake_vllm(Events([*events, DONE])) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0, max_tokens=4096)])
    assert made.unseen_tokens == 0
    assert made.verdict.observed > 0


async def test_an_answer_that_is_cut_with_nothing_shown_is_no_evidence() -> None:
    """A gateway keeps reasoning and its count to itself: what loops in it ends at the cap, with nothing
    there, and fell out of the sample as empty."""
    events = [*sse(chunk("", finish="length"), usage_only(7, 0)), DONE]
    async with fake_vllm(Events(events)) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0, max_tokens=600)])
    (seen,) = observations([made])
    assert (made.unseen_tokens, seen.observed, seen.unresolved) == (600, 0, True)
    assert find_server_cap([made] * 5, EndpointProfile("http://x", "m")) is None


async def test_an_answer_without_any_text_is_no_evidence() -> None:
    """Ten counted tokens and no text: a limit was certified from 38 such answers."""
    events = [*sse(chunk("", finish="stop"), usage_only(7, 10)), DONE]
    async with fake_vllm(Events(events)) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)])
    (seen,) = observations([made])
    assert (made.unseen_tokens, seen.observed, seen.unresolved) == (10, 0, True)


async def test_an_empty_finish_reason_is_none() -> None:
    """Gateways that send "" until the end: a failing stream is still aborted, and one that is cut is lost."""

    def emptied(event: bytes) -> bytes:
        return event.replace(b'"finish_reason": null', b'"finish_reason": ""')

    looping, cut = (Events([*map(emptied, answer(words, done=False))]) for words in (LOOP, STORY[:-1]))
    cut = Events([part for part in cut.parts if b'"finish_reason": "stop"' not in part])
    async with fake_vllm(looping) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)], keep_after=32)
    assert made.aborted
    async with fake_vllm(cut) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)])
    assert made.failure is not None
    assert made.failure.kind is FailureKind.CUT


async def test_a_certain_onset_aborts_after_some_more_tokens() -> None:
    """The loop is seen, a tail is kept as evidence, the server's slot is freed, the verdict covers all."""
    told: list[GenerationEvent] = []
    async with fake_vllm(Events(answer(LOOP), pause=0.0005)) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)], keep_after=32, on_event=told.append)
        await server.until(lambda: server.hung_up == 1)
    assert made.aborted
    assert made.finish_reason is None
    assert made.verdict.symptom is SymptomKind.LOOP
    alarm = made.verdict.alarm
    assert alarm is not None
    assert alarm + 32 <= len(made.tokens) <= alarm + 32 + 16
    (alarmed,) = [event for event in told if isinstance(event, AlarmRaised)]
    assert alarmed.at_token >= alarm


async def test_without_abort_the_end_is_observed() -> None:
    """--no-abort keeps the stream open to the server's own end."""
    async with fake_vllm(Events(answer(LOOP, finish="length"))) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0, len(LOOP))], keep_after=0, abort=False)
    assert len(made.tokens) == len(LOOP)
    assert (made.aborted, made.finish_reason) == (False, "length")
    assert made.verdict.degenerate


async def test_what_an_attempt_without_an_answer_took_is_kept() -> None:
    """It may have been a generation that nobody saw; what was refused cannot have been one."""
    slow, refused = Page(b"", 504, delay=0.2), Page(b"", 429, delay=0.2)
    replies: list[Answer] = [slow, refused, Events(answer(["ok"])), refused, Events(answer(["ok"]))]
    async with fake_vllm(lambda asked: replies.pop(0)) as server, Endpoint(server.url) as endpoint:
        (first,) = await collect(endpoint, [task_of(0)])
        (second,) = await collect(endpoint, [task_of(1)])
    assert (first.attempts, second.attempts) == (3, 2)
    assert first.unanswered_s >= 0.2
    assert second.unanswered_s == 0.0


async def test_a_key_that_a_looping_answer_echoes_is_in_no_evidence() -> None:
    """The tokens were without it, but the verdict quoted it: store, report and alarm showed the key."""
    key, told = "sk-9f8e7d6c5b4a3b2c", list[GenerationEvent]()
    words = [f" {word}" for word in f"The key is {key} and I say it.".split()]
    async with (
        fake_vllm(Events(answer(words * 40, finish="length"))) as server,
        Endpoint(server.url, api_key=key) as endpoint,
    ):
        (made,) = await collect(endpoint, [task_of(0, 400)], on_event=told.append)
    assert made.verdict.symptom is SymptomKind.LOOP
    shown = f"{made.verdict} {list(made.tokens)} {told}"
    assert not any(key[at : at + 8] in shown for at in range(len(key) - 7))


async def test_what_a_gateway_asked_again_was_an_attempt() -> None:
    """LiteLLM's retries happen before its first byte: the time until then is what they took at most."""
    again = Events(answer(["ok"]), headers={"x-litellm-attempted-retries": "2"})
    async with fake_vllm(again) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)])
    assert made.first_token is not None
    assert (made.attempts, made.unanswered_s) == (3, made.first_token - made.started)


async def test_retries_are_visible_and_counted() -> None:
    """A 503 and a 429 before the first token are tried again; each retry is told with its wait."""
    replies: list[Answer] = [page({}, 503), page({}, 429, retry_after="0.05"), Events(answer(["ok"]))]
    told: list[GenerationEvent] = []
    async with fake_vllm(lambda asked: replies.pop(0)) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)], on_event=told.append)
    retried = [event for event in told if isinstance(event, AttemptRetried)]
    assert [(r.attempt, r.failure.kind, r.wait) for r in retried] == [
        (1, FailureKind.HTTP_ERROR, 0.01),
        (2, FailureKind.RATE_LIMITED, 0.05),
    ]
    assert (made.text, made.attempts, made.failure) == ("ok", 3, None)
    assert [type(event) for event in told if not isinstance(event, GenerationAdvanced)] == [
        GenerationStarted,
        AttemptRetried,
        AttemptRetried,
        GenerationFinished,
    ]


def by_character(words: list[str], finish: str = "length") -> Events:
    """A plain server: a character a chunk, no ids, no logprobs, no running usage; a total at the end."""
    text = "".join(words)
    events = [chunk(c, finish=finish if i == len(text) else None) for i, c in enumerate(text, 1)]
    return Events([b"".join(sse(*events, usage_only(7, len(words)))), DONE])


async def uncounted(reply: Answer, max_tokens: int) -> Generation:
    """One generation on a server without /tokenize that counts at the end alone."""
    async with fake_vllm(reply) as server, Endpoint(server.url) as endpoint:
        del server.pages["/tokenize"]
        endpoint.can_tokenize = endpoint.can_estimate = False
        endpoint.features = RequestFeatures(top_logprobs=0, token_ids=False, running_usage=False)
        (made,) = await collect(endpoint, [task_of(0, max_tokens)], keep_after=0)
    return made


async def test_positions_in_characters_never_exceed_tokens() -> None:
    """A character a chunk: the loop's onset lies at or before its true token, however short the loop's own
    tokens are, and the stream is not closed, because then nobody would have counted it."""
    told = "Il vecchio guardiano accese la lampada e rimase a guardare il mare. Nessuno saliva lì da anni. "
    told += "Quella sera una barca senza nome entrò nel porto, e sul ponte non si vedeva anima viva."
    healthy = [w if i == 0 else f" {w}" for i, w in enumerate(told.split())]
    words = healthy + [" a", " b", ",", " c", ";"] * 70
    made = await uncounted(by_character(words), len(words))
    assert not made.aborted
    assert made.output_tokens == made.verdict.tokens == len(made.tokens) == len(words)
    assert made.text == "".join(words)
    assert made.verdict.onset is not None
    assert len(healthy) // 2 < made.verdict.onset <= len(healthy) + 6
    assert made.verdict.alarm is not None
    assert made.verdict.onset <= made.verdict.alarm <= len(words)
    assert [z.start for z in made.verdict.zones][1:] == [z.end + 1 for z in made.verdict.zones][:-1]
    assert made.verdict.zones[-1].end == len(words)


async def test_an_uncounted_stream_certifies_nothing() -> None:
    """No ids, logprobs, usage, /tokenize or estimate: the positions are chunks, and nothing rests on them."""
    events = [chunk(c, finish="stop" if i == 600 else None) for i, c in enumerate("Una barca. " * 55, 1)]
    made = await uncounted(Events([b"".join(sse(*events[:600])), DONE]), 100)
    assert made.token_source == "words"
    threshold = certified_threshold([replace(made, prompt_id=f"p{i}") for i in range(40)], RIGORS["quick"])
    assert not threshold.certified
    assert threshold.lacking is not None
    assert threshold.lacking.startswith("token counts are unknown")


@given(
    pieces=st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=40),
    thoughts=st.integers(0, 40),
    data=st.data(),
)
def test_scaled_positions_hold_together(pieces: list[str], thoughts: int, data: st.DataObject) -> None:
    """Whatever the chunks: no text is lost, thoughts stay thoughts, positions rise within 1..total."""
    chunks = [Token(piece, reasoning=i < thoughts) for i, piece in enumerate(pieces)]
    total = data.draw(st.integers(1, 80))
    ends = sorted(data.draw(st.lists(st.integers(0, sum(map(len, pieces))), max_size=90)))
    scale = TokenScale(chunks, total, ends)
    tokens = scale.tokens()
    for reasoning in (True, False):
        before, after = ("".join(t.text for t in c if t.reasoning == reasoning) for c in (chunks, tokens))
        assert before == after
    assert len(tokens) <= total + 1
    seen = [scale.tokens_in(k) for k in range(len(chunks) + 1)]
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, total)
    assert all(1 <= scale.first_token(k) <= total for k in range(1, len(chunks) + 1))
    assert all(scale.tokens_in(k) <= k * total // len(chunks) for k in range(len(chunks) + 1))


async def test_events_place_the_tokens_of_a_language_without_blanks() -> None:
    """Ollama's server counts at the end alone: every failure of a Chinese answer was at "token 1"."""
    told = (
        "山脚下的小镇每到秋天就飘满柿子的香气。老木匠把门板搬到院子里，一边刨木头一边听收音机。邻居的孩子常来借"
        "铅笔，他便教他们认树的年轮。有一次，一位外地的画家在镇上住了半个月，画下石桥、茶馆和渡口的旧船。临走时"
        "她送给老人一幅水彩，他没有挂起来，只用布包好，放进装工具的箱子。后来大水冲坏了半条街，大家忙着修房子，"
        "谁也没想到那口箱子还漂在河湾里。"
    )
    ends = sorted({*range(0, len(told), 3), *range(0, len(told), 5), len(told)})
    parts = [told[begin:end] for begin, end in pairwise(ends)]
    healthy = len(parts)
    parts += ["海很", "静。"] * 100
    events = [chunk(part, finish=None) for part in parts]
    end = chunk("", finish="stop") | {"usage": {"prompt_tokens": 9, "completion_tokens": len(parts)}}
    made = await uncounted(Events([b"".join(sse(*events, end)), DONE]), 100)
    assert made.output_tokens == made.verdict.tokens == len(parts)
    assert made.verdict.onset is not None
    assert healthy - 6 < made.verdict.onset <= healthy + 4


@pytest.mark.parametrize(("size", "by_word"), [(1, False), (4, False), (3, True)])
def test_events_of_one_size_are_no_tokens(size: int, by_word: bool) -> None:
    """A gateway cuts prose into pieces, and a flood of signs of three tokens each hides how many."""
    words = [f" w{number * 7919 % 9973:b}" for number in range(300)]
    text = "".join(words) + "🌊" * 3000
    starts = [0, *accumulate(map(len, words))]
    cuts = [at for begin, end in pairwise(starts) for at in range(begin + size, end, size)]
    by_size = [*range(size, len(text), size), len(text)]
    events = sorted({*cuts, *starts[1:], *range(starts[-1] + 1, len(text) + 1)}) if by_word else by_size
    chunks = text_tokens(text)
    total = 300 + 3 * 3000
    assert TokenScale(chunks, total, events).tokens_in(20 * 12) == TokenScale(chunks, total).tokens_in(
        20 * 12
    )


async def test_a_stream_lost_after_tokens_is_data() -> None:
    """What arrived before the cut is kept, marked, and not asked for again."""
    parts = answer(STORY, finish=None, done=False)[:6]
    async with fake_vllm(Events(parts, end="cut")) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)])
        assert len(server.generations) == 1
    assert made.text == "".join(STORY[:5])
    assert made.failure is not None
    assert (made.failure.kind, made.failure.at_token) == (FailureKind.CUT, 5)
    assert made.verdict.tokens == 5


async def test_a_task_that_never_gets_an_answer_is_data_while_others_do() -> None:
    """One prompt that always ends in 500 is lost, kept as lost, and stops nobody."""

    def script(asked: Asked) -> Answer:
        return page({}, 500) if index_of(asked) == 1 else Events(answer(["ok"]))

    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        made = await collect(endpoint, [task_of(i) for i in range(4)])
    lost = {g.key: g for g in made if g.failure is not None}
    assert len(made) == 4
    assert list(lost) == ["certify/0/1"]
    assert (lost["certify/0/1"].attempts, lost["certify/0/1"].tokens) == (4, ())


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_no_retry_mends_ends_at_once(status: int) -> None:
    """The answer to the first such request ends the drive; what had finished was yielded before."""

    def script(asked: Asked) -> Answer:
        return Events(answer(["ok"])) if index_of(asked) < 2 else page({}, status)

    made: list[Generation] = []
    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        tasks = [task_of(i) for i in range(9)]
        generations = drive(endpoint, tasks, concurrency=1, abort=True, retry=FAST)
        with pytest.raises(EndpointError, match=str(status)):
            await keep(generations, made.append)
        assert len(server.generations) == 3
    assert [g.key for g in made] == ["certify/0/0", "certify/0/1"]


async def test_one_refused_prompt_is_lost_alone() -> None:
    """A prompt that is too long for the server (400) is recorded as lost, even when its answer is the first
    to come; otherwise every resume would end at it again."""
    slow = Events(answer(STORY), pause=0.01)

    def script(asked: Asked) -> Answer:
        return page({"error": {"message": "too long"}}, 400) if index_of(asked) in (0, 3) else slow

    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        made = await collect(endpoint, [task_of(i) for i in range(6)])
        assert len(server.generations) == 6
    lost = {g.key: g.failure for g in made if g.failure is not None}
    assert len(made) == 6
    assert sorted(lost) == ["certify/0/0", "certify/0/3"]
    assert {failure.kind for failure in lost.values()} == {FailureKind.BAD_REQUEST}


@pytest.mark.parametrize("tasks", [1, 20])
async def test_a_server_that_refuses_everything_ends_the_drive(tasks: int) -> None:
    """Nothing but 400: the request is wrong, not a prompt; its reason is told, nothing is recorded."""
    made: list[Generation] = []
    refused = page({"error": {"message": "no such parameter"}}, 400)
    async with fake_vllm(refused) as server, Endpoint(server.url) as endpoint:
        generations = drive(
            endpoint, [task_of(i) for i in range(tasks)], concurrency=1, abort=True, retry=FAST
        )
        with pytest.raises(EndpointError, match="no such parameter"):
            await keep(generations, made.append)
        assert len(server.generations) == min(tasks, FAST.give_up_after)
    assert made == []


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_drive_without_any_answer_is_an_error(status: int) -> None:
    """Few tasks, all answered with 503: nothing is recorded, so that a resume asks them again."""
    made: list[Generation] = []
    async with fake_vllm(page({}, status)) as server, Endpoint(server.url) as endpoint:
        generations = drive(endpoint, [task_of(0), task_of(1)], concurrency=2, abort=True, retry=FAST)
        with pytest.raises(EndpointError, match=str(status)) as caught:
            await keep(generations, made.append)
    assert made == []
    assert caught.value.hint == "The results so far are kept; resume when the server is back."


async def test_a_fatal_answer_cancels_the_others() -> None:
    """Streams in flight are closed when the drive cannot go on."""

    def script(asked: Asked) -> Answer:
        if index_of(asked) == 0:
            return Events(answer(["a", "b"], finish=None)[:3], end="stall")
        return page({}, 401)

    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        with pytest.raises(EndpointError, match="API key"):
            await collect(endpoint, [task_of(0), task_of(1)], concurrency=2)
        await server.until(lambda: server.hung_up == 1 and server.open == 0)


async def test_a_dead_server_ends_the_drive() -> None:
    """After so many tasks in a row without an answer the server is gone: nothing is recorded as data."""
    policy = RetryPolicy(attempts=2, base=0.001, cap=0.001, give_up_after=3)
    made: list[Generation] = []

    def script(asked: Asked) -> Answer:
        return page({}, 500) if index_of(asked) >= 2 else Events(answer(["ok"]))

    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        tasks = [task_of(i) for i in range(20)]
        generations = drive(endpoint, tasks, concurrency=1, abort=True, retry=policy)
        with pytest.raises(
            EndpointError, match="died or is overloaded: every attempt failed for 3 requests"
        ) as caught:
            await keep(generations, made.append)
        assert len(server.generations) == 2 + 3 * 2
    assert [g.key for g in made] == ["certify/0/0", "certify/0/1"]
    assert all(g.failure is None for g in made)
    assert caught.value.hint is not None


@pytest.mark.parametrize("seeds", [True, False])
async def test_the_death_of_a_vllm_on_the_cpu_names_its_likely_cause(seeds: bool) -> None:
    """Requests with a seed end such a server; without seeds it died of something else."""
    async with fake_vllm(page({}, 500)) as server, Endpoint(server.url, send_seed=seeds) as endpoint:
        endpoint.on_cpu = True
        with pytest.raises(EndpointError) as caught:
            await collect(endpoint, [task_of(0), task_of(1)])
    named = ["--max-num-batched-tokens 16384" in str(caught.value), "--no-seed" in str(caught.value)]
    assert named == [seeds, seeds]


async def test_nobody_there_is_an_error_even_for_few_tasks() -> None:
    """Fewer tasks than the limit, all refused: an error, not a sample of failures."""
    async with fake_vllm(page({})) as server:
        url = server.url
    async with Endpoint(url) as endpoint:
        with pytest.raises(EndpointError, match="refused the connection"):
            await collect(endpoint, [task_of(0), task_of(1)])


async def test_stop_drops_what_is_in_flight_and_keeps_what_finished() -> None:
    """Ctrl-C: finished generations come out, the others are closed and not recorded."""

    def script(asked: Asked) -> Answer:
        if index_of(asked) == 0:
            return Events(answer(["ok"]))
        return Events(answer(["a"], finish=None)[:2], end="stall")

    stop = asyncio.Event()
    made: list[Generation] = []
    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        async for generation in drive(
            endpoint, [task_of(i) for i in range(6)], concurrency=3, abort=True, stop=stop
        ):
            made.append(generation)
            await server.until(lambda: server.open >= 2)
            stop.set()
        await server.until(lambda: server.open == 0)
        assert server.hung_up >= 2
    assert [g.key for g in made] == ["certify/0/0"]


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
async def test_a_stop_keeps_what_has_failed_in_flight(keep: bool) -> None:
    """A resume asks again for what an interruption dropped: where seeds are ignored, a sample of which a
    third loops was drawn anew until nothing failed. What is healthy so far is dropped."""
    words = [LOOP + LOOP[len(STORY) :] * 40, STORY]

    def script(asked: Asked) -> Answer:
        return Events(answer(words[index_of(asked)], finish=None, done=False), end="stall", pause=0.005)

    stop = asyncio.Event()
    failed: set[str] = set()

    def tell(event: GenerationEvent) -> None:
        if isinstance(event, AlarmRaised):
            failed.add(event.key)
            stop.set()

    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        tasks = [task_of(i, 9_000) for i in range(2)]
        made = await collect(
            endpoint, tasks, concurrency=2, abort=False, keep_failed=keep, stop=stop, on_event=tell
        )
        await server.until(lambda: server.open == 0)
    assert failed == {"certify/0/0"}
    assert [g.key for g in made] == (["certify/0/0"] if keep else [])
    assert all(g.verdict.degenerate and g.aborted and g.failure is None for g in made)


async def test_stop_interrupts_a_wait_between_attempts() -> None:
    """A stop is not held up by a server that asks for a long pause."""
    stop = asyncio.Event()
    told: list[GenerationEvent] = []

    def tell(event: GenerationEvent) -> None:
        told.append(event)
        if isinstance(event, AttemptRetried):
            stop.set()

    busy = page({}, 429, retry_after="200")
    async with fake_vllm(busy) as server, Endpoint(server.url) as endpoint, asyncio.timeout(60):
        assert await collect(endpoint, [task_of(0)], stop=stop, on_event=tell) == []
    assert [event.wait for event in told if isinstance(event, AttemptRetried)] == [200.0]


async def test_a_budget_starts_nothing_more() -> None:
    """A spent budget lets what runs end: dropping the long ones would bias what remains."""
    async with fake_vllm(Events(answer(STORY))) as server, Endpoint(server.url) as endpoint:
        tasks = [task_of(i) for i in range(20)]
        made = await collect(endpoint, tasks, concurrency=2, should_stop=lambda: len(server.generations) >= 4)
        asked = len(server.generations)
    assert 4 <= asked <= 5
    assert len(made) == asked
    assert all(g.finish_reason == "stop" for g in made)


async def test_leaving_early_closes_everything() -> None:
    """A consumer that breaks off leaves no stream open behind it."""

    def script(asked: Asked) -> Answer:
        return Events(answer(["ok"])) if index_of(asked) == 0 else Hang()

    async with fake_vllm(script) as server, Endpoint(server.url) as endpoint:
        generations = drive(endpoint, [task_of(i) for i in range(3)], concurrency=3, abort=True)
        async for generation in generations:
            assert generation.key == "certify/0/0"
            break
        await server.until(lambda: len(server.generations) == 3)
        await generations.aclose()
        await server.until(lambda: server.hung_up == 2)


async def test_answers_do_not_pile_up_behind_a_slow_disk() -> None:
    """What is asked and not yet taken in is at most the concurrency: no more is asked again after a kill."""
    ahead: list[int] = []
    async with fake_vllm(Events(answer(["ok"]))) as server, Endpoint(server.url) as endpoint:
        async for _ in drive(endpoint, [task_of(i) for i in range(20)], concurrency=3, abort=True):
            all_asked = min(20, len(ahead) + 3)
            await server.until(lambda: len(server.generations) >= all_asked)  # noqa: B023  awaited here
            await asyncio.sleep(0.02)
            ahead.append(len(server.generations) - len(ahead))
    assert len(ahead) == 20
    assert max(ahead) == 3


async def test_progress_is_told_every_sixteen_tokens() -> None:
    """Often enough for a display, seldom enough to cost nothing."""
    told: list[GenerationEvent] = []
    words = [f"w{i}" for i in range(50)]
    async with fake_vllm(Events(answer(words))) as server, Endpoint(server.url) as endpoint:
        await collect(endpoint, [task_of(0)], on_event=told.append)
    assert [event.tokens for event in told if isinstance(event, GenerationAdvanced)] == [16, 32, 48]


async def test_a_blocked_loop_is_recorded() -> None:
    """When we ourselves are late, the generation says by how much."""

    def block(event: GenerationEvent) -> None:
        if isinstance(event, GenerationAdvanced) and event.tokens == 16:
            time.sleep(0.2)

    words = [f"w{i}" for i in range(24)]
    async with fake_vllm(Events(answer(words))) as server, Endpoint(server.url) as endpoint:
        (made,) = await collect(endpoint, [task_of(0)], on_event=block)
    assert made.loop_lag is not None
    assert made.loop_lag >= 0.1


async def test_no_tasks_is_no_error() -> None:
    """An empty plan ends at once and sends nothing."""
    async with fake_vllm(page({})) as server, Endpoint(server.url, timeouts=Timeouts()) as endpoint:
        assert await collect(endpoint, []) == []
        assert server.asked == []


def test_the_wait_doubles_up_to_its_cap() -> None:
    """0.5, 1, 2, … up to 8 s; a server's Retry-After counts when it is longer, within reason."""
    plain = ServiceFailure(FailureKind.REFUSED, "x")
    asked = ServiceFailure(FailureKind.RATE_LIMITED, "x", retry_after=20.0)
    absurd = ServiceFailure(FailureKind.RATE_LIMITED, "x", retry_after=1e9)
    policy = RetryPolicy()
    assert [policy.wait(n, plain) for n in range(1, 7)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert policy.wait(1, asked) == 20.0
    assert policy.wait(1, absurd) == 300.0


@pytest.mark.slow
def test_language_tables_load_before_the_first_request() -> None:
    """Loading them blocks for a second; inside a stream that would be a lag of our own making."""
    program = (
        "import sys; from stresstest.detectors.identification.votes import warm_up;"
        "loaded = 'langdetect' in sys.modules; warm_up('it');"
        "print(loaded, 'langdetect' in sys.modules, 'py3langid' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]
