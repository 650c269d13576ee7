"""What clients and upstreams send to hold the guard up, to read its log, or to lose somebody's answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import time
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from stresstest.campaign.conclusion import conclude
from stresstest.campaign.provenance import doubts as provenance_doubts
from stresstest.detectors.entry import DetectorSpec
from stresstest.features.guard import answer as guard_answer
from stresstest.features.guard import ending
from stresstest.features.guard import watch as guard_watch
from stresstest.features.guard.answer import AnswerReader, UnreadableAnswerError
from stresstest.features.guard.asked import MANY, MAX_DECODED, Route, TooManyItemsError, read_request
from stresstest.features.guard.assembled import AnswerAssembly
from stresstest.features.guard.command import _caps
from stresstest.features.guard.ending import WholeEvents
from stresstest.features.guard.settings import GuardLimits
from stresstest.features.guard.watch import AnswerWatch, Backlog, JudgeQueue
from stresstest.model import Subject
from stresstest.model.guard import GuardConfig, GuardPolicy, GuardRule
from stresstest.records import FieldMapping, parse_line
from stresstest.telemetry.page_sampler import MAX_PAGE, MAX_USED
from tests.support.fake_vllm import DONE, Events, Hang, Page, chunk, page, sse
from tests.support.guarded import ASK, CHAT, HEALTHY, LOOP, Guarded, chat_events, guarded, raw, words
from tests.support.steady_clock import steady_clock
from tests.support.stories import story

OUTCOMES = ("healthy", "unread")
UNSTREAMED = {name: value for name, value in ASK.items() if name != "stream"}


@pytest.mark.parametrize(
    "line",
    [b"Authorization: Bearer sk-secret\r", b"Authorization : Bearer sk-secret", b"X: Bearer sk-secret\x00"],
    ids=str,
)
async def test_a_request_that_is_no_http_is_not_quoted_in_the_log(
    line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A key read from a file with CRLF ends in one carriage return too many: the line would be logged."""
    with caplog.at_level(logging.DEBUG):
        async with guarded(page({})) as here, raw(here) as (reader, writer):
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\n")
            assert b"400" in await reader.readline()
    assert "not valid HTTP" in caplog.text
    assert "sk-secret" not in caplog.text


async def test_an_answer_to_another_prompt_that_has_not_begun_is_not_cut() -> None:
    """A plain completion may hold several prompts: each has an answer of its own."""

    def events(text: str, index: int) -> list[bytes]:
        choices: list[dict[str, Any]] = [
            {"index": index, "text": word, "finish_reason": None} for word in words(text)
        ]
        choices[-1]["finish_reason"] = "stop"
        return sse(*({"id": "c", "choices": [choice]} for choice in choices))

    script = Events([*events(HEALTHY + LOOP, 0), *events(HEALTHY, 1), DONE], pause=0.0005)
    body = {"model": "lab", "prompt": ["a", "b"], "stream": True, "max_tokens": 900}
    async with guarded(script, {"policy": "abort"}) as here:
        reply = await here.ask("/v1/completions", body)
    assert words(HEALTHY)[-1] in [e["choices"][0]["text"] for e in reply.events if e["choices"][0]["index"]]


def test_the_choices_of_a_request() -> None:
    """`n` for every prompt; a list of token ids is one prompt."""

    def choices(**body: Any) -> int:
        found = read_request(Route.COMPLETIONS, json.dumps(body).encode())
        assert found is not None
        return found.choices

    many_ids = list(range(200_000))
    assert choices(prompt="a") == choices(prompt=[1, 2]) == choices(prompt=many_ids) == 1
    assert choices(prompt="a," * 200_000) == 1
    assert choices(prompt=["a", "b"], n=3) == 6
    assert choices(prompt=[[1], [2]]) == 2
    assert choices(prompt=[[1]] * 200_000) == MANY
    assert choices(prompt_embeds=["QQ==", "Qg=="]) == 2
    assert choices(prompt="a", prompt_embeds="QQ==", n=2) == 4


def _event(index: int, text: str, finish: str | None = None) -> bytes:
    return json.dumps(
        {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}
    ).encode()


@pytest.mark.parametrize("size", [20, 400], ids=["short events", "long events"])
def test_all_choices_of_an_answer_share_one_limit(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen choices, each up to the limit, took 1.7 GB. Nothing is kept of what comes after it."""
    judged: list[str] = []
    monkeypatch.setattr(guard_answer, "MAX_JUDGED_TOKENS", 2000)
    monkeypatch.setattr(
        guard_answer,
        "DetectorSuite",
        lambda _spec: SimpleNamespace(update=lambda token: judged.append(token.text)),
    )
    reader = AnswerReader(Route.CHAT, DetectorSpec(), keep_text=True)

    def feed() -> None:
        for turn in range(200):
            for index in range(4):
                reader.add_event(_event(index, "wordword " * size, "stop" if turn == 199 else None))
                for _ in reader.judge_long(32):
                    pass

    with pytest.raises(UnreadableAnswerError, match="more than 2000 tokens"):
        feed()
    watches = reader.choices.values()
    assert 1500 < len(judged) <= 2000
    assert sum(len(watch.texts or ()) for watch in watches) == len(judged)
    assert sum(watch.tokens for watch in watches) < 2000 + 2 * size
    assert [watch.cut_off for watch in watches].count(True) == 1


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
def test_an_answer_is_judged_up_to_a_number_of_characters(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """62 MB in events of half a kibibyte are no more tokens than an answer may have. Of what follows nothing
    is kept, and it counts neither as healthy nor as one that breaks off."""
    monkeypatch.setattr(guard_answer, "MAX_JUDGED_CHARS", 10_000)
    reader = AnswerReader(Route.CHAT, DetectorSpec(), keep_text=True)
    watch = AnswerWatch(reader, streamed=not whole)
    text = " ".join(story(200).split())
    if whole:
        answer = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
        watch.add(json.dumps(answer).encode())
    else:
        for event in sse(*(chunk(text[at : at + 400]) for at in range(0, len(text), 400))):
            watch.add(event)
    watch.close(lambda _: None)
    while watch.step():
        pass
    (choice,) = watch.outcome()
    assert 9_000 < sum(len(token.text) for token in choice.texts or ()) <= 10_000
    assert choice.broken
    assert choice.unread
    assert whole or watch.broken == "more than 10000 characters"


async def test_choices_that_nobody_asked_for_are_not_judged() -> None:
    """An upstream that sends 128 of them would take their memory for a request of one."""
    both = [*chat_events(HEALTHY, index=0), *chat_events(HEALTHY + LOOP, index=1)]
    for n, outcome in ((1, "unread"), (2, "degenerate")):
        async with guarded(Events([*both, DONE])) as here:
            await here.ask(body={**ASK, "n": n})
            found = await here.judged(1)
        assert found[f"stresstest_guard_requests_total{{lab,{outcome},{CHAT}}}"] == 1


def test_a_body_of_many_items_is_read_in_no_time() -> None:
    """Sixty megabytes of empty lists held the guard, and all its streams, for a minute."""
    body = b'{"model":"m","stream":true,"messages":[' + b",".join([b"[]"] * 5_000_000) + b"]}"
    began = time.process_time()
    asked = read_request(Route.CHAT, body)
    assert asked is not None
    assert time.process_time() - began < 1
    assert (asked.model, asked.stream) == ("m", True)
    assert asked.changed({"max_tokens": 5}) == body[:-1] + b',"max_tokens":5}'


def _peak_of(work: Callable[[], object]) -> int:
    """The most bytes that it takes at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_prompt_of_a_large_body_is_not_decoded() -> None:
    """44 MB with one emoji took 653 MB: four bytes a character, and several copies of the text. What the
    guard changes in such a request leaves the prompt as it was written."""
    text = "😀".encode() + b"a" * MAX_DECODED
    turn = b'{"role":"user","content":"' + text + b'"}'
    fields = b'{"model":"m","metadata":"' + text[:-1] + b'","n":2,"max_tokens":900,"messages":['
    body = fields + turn + b',{"role":"assistant","content":"x"}]}'
    found: list[Any] = []
    assert _peak_of(lambda: found.append(read_request(Route.CHAT, body))) < 1_000_000
    (asked,) = found
    assert (asked.model, asked.choices, asked.cap, asked.prompt) == ("m", 2, 900, "")
    assert asked.changed({}) == body
    assert asked.changed(asked.capped(100)) == body.replace(b"900", b"100")
    assert read_request(Route.CHAT, b"[" + b'"a",' * 9 + b'"' + text + b'"]') is None


async def test_an_answer_to_a_large_prompt_is_judged_and_logged() -> None:
    """The line says that the prompt is missing, and `scan` reads it."""
    body = {**ASK, "stream": False, "messages": [{"role": "user", "content": "a" * MAX_DECODED}]}
    answer = {"choices": [{"message": {"content": HEALTHY + LOOP}, "finish_reason": "stop"}]}
    async with guarded(page(answer), {"policy": "cap", "max_tokens": 100}, text=True) as here:
        assert (await here.ask(body=body)).status == 200
        await here.judged(1)
        (sent,) = here.upstream.generations
        assert sent.body == {**body, "max_tokens": 100}
    (line,) = here.log
    assert (line["symptom"], line["response"], "prompt" in line) == ("loop", HEALTHY + LOOP, False)
    (record,) = parse_line(here.out.getvalue(), "f", 1, FieldMapping())
    assert record.text == HEALTHY + LOOP


async def test_a_body_of_many_fields_is_refused() -> None:
    body = {str(n): n for n in range(200_000)}
    with pytest.raises(TooManyItemsError):
        read_request(Route.CHAT, json.dumps(body).encode())
    async with guarded(page({})) as here:
        assert (await here.ask(body=body)).status == 413


_NESTED = b'{"a":' * 400 + b"0" + b"}" * 400


async def test_objects_within_objects_are_items_too() -> None:
    """They need no commas: 20 MB of them took 750 MB."""
    nested = b",".join([_NESTED] * 600)
    with pytest.raises(TooManyItemsError):
        read_request(Route.CHAT, b'{"model":"m","messages":[],"metadata":[' + nested + b"]}")
    asked = read_request(Route.CHAT, b'{"model":"m","messages":[' + nested + b"]}")
    assert asked is not None
    assert asked.prompt == ""


def _read(*, content: bytes = b'"hi there"', logprobs: bytes = b"null") -> AnswerReader:
    reader = AnswerReader(Route.CHAT, DetectorSpec())
    choice = b'{"message":{"content":' + content + b'},"logprobs":' + logprobs + b',"finish_reason":"stop"}'
    for _ in reader.add_body(b'{"id":"x","choices":[' + choice + b'],"usage":{"completion_tokens":2}}', 9):
        pass
    return reader


def test_an_answer_of_many_objects_is_not_read_and_logprobs_are_skipped() -> None:
    """45 MB of either took up to a gigabyte; an answer with many logprobs is judged all the same."""
    listed = b"[" + b",".join([_NESTED] * 600) + b"]"
    with pytest.raises(UnreadableAnswerError, match="too many lists and objects"):
        _read(content=listed)
    reader = _read(logprobs=b'{"content":' + listed + b"}")
    assert (reader.id, reader.usage, reader.choices[0].tokens) == ("x", (None, 2), 2)
    assert reader.choices[0].finish_reason == "stop"


def test_an_answer_of_much_text_is_not_read() -> None:
    """45 MB with one emoji took 709 MB. Whatever the size of its logprobs, an answer is judged."""
    text = "😀".encode() + b"a" * guard_answer.MAX_DECODED
    body = b'{"choices":[{"message":{"content":"' + text + b'"}}]}'

    def refused() -> None:
        with pytest.raises(UnreadableAnswerError, match="too much text"):
            next(AnswerReader(Route.CHAT, DetectorSpec()).add_body(body, 9))

    assert _peak_of(refused) < 1_000_000
    assert _read(logprobs=b'"' + text + b'"').choices[0].tokens == 2


@pytest.mark.parametrize(
    ("route", "asked", "sent"),
    [
        (Route.CHAT, {"max_completion_tokens": "8000"}, {"max_completion_tokens": 100}),
        (Route.CHAT, {"max_completion_tokens": 8e3}, {"max_completion_tokens": 100}),
        (Route.CHAT, {"max_completion_tokens": " 8_000 "}, {"max_completion_tokens": 100}),
        (Route.CHAT, {"max_completion_tokens": 9, "max_tokens": "8000"}, {"max_tokens": 100}),
        (Route.CHAT, {"max_completion_tokens": -1}, {"max_completion_tokens": 100}),
        (Route.CHAT, {"max_completion_tokens": "lots"}, {"max_tokens": 100}),
        (Route.CHAT, {"max_tokens": [8000]}, {"max_tokens": 100}),
        (Route.CHAT, {"max_tokens": True}, {"max_tokens": 100}),
        (Route.CHAT, {"max_tokens": "50"}, {}),
        (Route.CHAT, {"max_tokens": None}, {"max_tokens": 100}),
        (Route.COMPLETIONS, {"max_tokens": -1}, {"max_tokens": 100}),
        (Route.COMPLETIONS, {"max_tokens": 0}, {}),
        (Route.CHAT, {"max_tokens": 0}, {"max_tokens": 100}),
        (Route.COMPLETIONS, {"max_tokens": "8000.0"}, {"max_tokens": 100}),
        (Route.RESPONSES, {"max_output_tokens": "8000"}, {"max_output_tokens": 100}),
        (Route.CHAT, {"max_tokens": 90, "n_predict": 5000}, {"n_predict": 100}),
        (Route.CHAT, {"max_tokens": 90, "n_predict": -1}, {"n_predict": 100}),
        (Route.COMPLETIONS, {"max_tokens": 900, "n_predict": 20}, {"max_tokens": 100}),
        (Route.CHAT, {"n_predict": 5000}, {"max_tokens": 100, "n_predict": 100}),
        (Route.CHAT, {"max_tokens": 900, "min_tokens": 500}, {"max_tokens": 100, "min_tokens": 100}),
    ],
)
def test_a_cap_is_not_evaded_by_the_type_of_a_number(
    route: Route, asked: dict[str, Any], sent: dict[str, Any]
) -> None:
    """vLLM reads "8000" as 8000, some servers take -1 for no cap, and others read the field beside."""
    found = read_request(route, json.dumps(asked).encode())
    assert found is not None
    assert found.capped(100) == sent


@pytest.mark.parametrize(("stream", "streamed"), [(1, True), ("true", True), (0, False), ([1], False)])
def test_a_stream_is_asked_for_in_lax_types(stream: Any, streamed: bool) -> None:
    """A client that gets a stream from the server gets one from the guard."""
    found = read_request(Route.CHAT, json.dumps({"stream": stream, "n": "3"}).encode())
    assert found is not None
    assert (found.stream, found.choices) == (streamed, 3)


async def test_a_content_encoding_that_is_not_true_evades_nothing() -> None:
    """Servers parse the body as JSON whatever that header says, so the guard does too."""
    script = Events([*chat_events(HEALTHY + LOOP), DONE], pause=0.0005)
    headers = {"Content-Encoding": "Identity"}
    async with (
        guarded(script, {"policy": "abort"}) as here,
        here.session.post(here.url + CHAT, json=ASK, headers=headers) as response,
    ):
        body = await response.read()
    assert b"stresstest_guard:loop" in body


async def test_all_bodies_together_have_a_limit() -> None:
    """A few requests of 64 MB at once would take all memory; one that is alone always has room."""
    large = {**UNSTREAMED, "messages": [{"role": "user", "content": "x" * 300_000}]}
    limits = GuardLimits(bodies=400_000, drain=1)
    async with guarded(Hang(), limits=limits) as here:
        first = asyncio.create_task(here.ask(body=large))
        while not here.upstream.asked:
            await asyncio.sleep(0.01)
        refused = await here.ask(body=large)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert "no room" in refused.json["error"]["message"]
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        here.upstream.script = page({"choices": []})
        async with asyncio.timeout(10):
            while (await here.ask(body=large)).status != 200:
                await asyncio.sleep(0.01)
        larger = {**UNSTREAMED, "messages": [{"role": "user", "content": "x" * 500_000}]}
        assert (await here.ask(body=larger)).status == 200


async def test_answers_that_are_put_together_share_that_limit() -> None:
    """Each may have 64 MiB, with log probabilities ten times as much in memory: a hundred clients at once
    that do not stream would take all of it. What was held is given back."""
    tops = [{"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}] * 800
    events = [chunk(word, entries=tops) for word in words(HEALTHY)[:10]]
    events[-1]["choices"][0]["finish_reason"] = "stop"
    script = Events([*sse(*events), DONE], pause=0.02)
    limits = GuardLimits(bodies=700_000, drain=1)
    async with guarded(script, {"policy": "abort"}, limits=limits) as here:
        assert (await here.ask(body=UNSTREAMED)).status == 200
        several = await asyncio.gather(*(here.ask(body=UNSTREAMED) for _ in range(4)))
        assert sorted({reply.status for reply in several}) == [200, 503]
        assert (await here.ask(body=UNSTREAMED)).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("form", ["chat", "responses"])
def test_a_long_event_is_judged_in_short_steps(form: str) -> None:
    """An upstream that sends its answer in one event held up every other stream for a minute."""
    text = "The miller went home at noon. " * 4_000
    route = Route.CHAT if form == "chat" else Route.RESPONSES
    event = chunk(text) if form == "chat" else {"type": "response.output_text.delta", "delta": text}
    reader = AnswerReader(route, DetectorSpec())
    watch = AnswerWatch(reader, streamed=True)
    watch.add(sse(event)[0])
    watch.close(lambda _: None)
    steps = 1
    while watch.step():
        steps += 1
    assert steps > 200
    assert watch.outcome()[0].verdict.degenerate


@pytest.mark.slow
def test_what_is_put_together_has_a_limit() -> None:
    """A stream without an end, for a client that did not ask for a stream."""
    assembly = AnswerAssembly(Route.CHAT)
    event = sse(chunk("x" * 1_000_000))[0]

    def feed() -> None:
        for _ in range(70):
            assembly.add(event)

    with pytest.raises(Exception, match="too large"):
        feed()


def test_an_event_of_many_lines_costs_linear_time() -> None:
    """Every line looked through all lines before it."""
    events, line = WholeEvents(), b"data: " + b"x" * 60 + b"\n"
    for _ in range(100_000):  # it would take hours
        assert events.add(line) == b""
    assert events.add(b"\ndata: y") == line * 100_000 + b"\n"
    assert events.held == b"data: y"


@pytest.mark.parametrize("line", [b"data: <html>\n\ndata: ", b": still here\n"], ids=["line", "comments"])
async def test_what_never_becomes_an_event_is_not_held(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind an event that was no chunk, a line without an end was held in whole; comments without an empty
    line were, too. 1.2 GB of one request."""
    monkeypatch.setattr(ending, "MAX_EVENT", 100_000)
    endless = [*chat_events("Hello"), line, *[b"x" * 4000 if b"data" in line else b": x\n" * 1000] * 200]
    async with guarded(Events(endless, end="stall"), {"policy": "abort"}) as here:
        with pytest.raises(aiohttp.ClientPayloadError):
            await here.ask()
        assert (await here.series())["stresstest_guard_upstream_failures_total{endless_line}"] == 1


async def test_whole_answers_that_wait_to_be_judged_have_a_limit() -> None:
    """Sixty-four answers with log probabilities that ended at once took 1.5 GB. Of what there is no room for
    in five seconds nobody says that it is healthy."""
    backlog = Backlog(1000)
    body = json.dumps({"choices": [{"index": 0, "message": {"content": HEALTHY}}]}).encode()
    size = len(body)
    assert 300 < size < 1000
    watches = [
        AnswerWatch(AnswerReader(Route.CHAT, DetectorSpec()), streamed=False, backlog=backlog)
        for _ in range(3)
    ]
    for watch in watches:
        await watch.wait_for_room(0.1, 600)
        watch.add(body)
    assert [watch.broken for watch in watches] == [None, *["too much waits to be judged"] * 2]
    queue = JudgeQueue(lambda _: None)
    settled: list[AnswerWatch] = []
    for watch in watches:
        watch.close(settled.append)
        queue.put(watch)
    await queue.empty()
    assert len(settled) == 3
    assert [[each.hidden for each in watch.outcome()] for watch in watches] == [[False], [], []]
    assert not backlog.is_full(0, 1000)


@pytest.mark.parametrize("policy", ["count", "abort"])
async def test_events_that_have_not_ended_have_a_limit_together(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty streams with a line of 16 MiB each that had no end yet took 1.1 GB. One alone is held and judged;
    of several, those that find no room pass byte for byte, and are not called healthy."""
    monkeypatch.setattr(guard_watch, "MAX_PENDING", 1000)
    event, end = sse(chunk(story(20), finish="stop"))[0], DONE
    pieces = [event[at : at + 100] for at in range(0, len(event), 100)]
    limits = GuardLimits(bodies=len(event) * 3 // 2)
    script = Events([*pieces, end], pause=0.005)
    async with guarded(script, {"policy": policy}, limits=limits) as here:
        assert (await here.ask()).body == event + end
        several = await asyncio.gather(*(here.ask() for _ in range(3)))
        assert [reply.body for reply in several] == [event + end] * 3
        assert (await here.ask()).body == event + end
        found = await here.judged(5)
        counts = [found.get(f"stresstest_guard_requests_total{{lab,{each},{CHAT}}}", 0) for each in OUTCOMES]
        assert counts in ([3, 2], [4, 1])


def test_the_start_of_an_event_counts_while_it_is_put_together() -> None:
    """Its bytes are held like those of the answer, and given back once the event is whole."""
    assembly, event = AnswerAssembly(Route.CHAT), sse(chunk("x" * 5000))[0]
    first = assembly.add(event[:4000])
    assert first == 4000
    assert first + assembly.add(event[4000:]) == AnswerAssembly(Route.CHAT).add(event)


async def test_of_whole_answers_one_is_judged_at_a_time() -> None:
    """Each takes ten times its bytes while it is judged; streams go on between its steps."""
    steps = []

    class Watch:
        queued = False

        def __init__(self, name: str, *, whole: bool) -> None:
            self.name, self.whole, self.left = name, whole, 3

        def step(self) -> bool:
            steps.append(self.name)
            self.left -= 1
            return self.left > 0

    queue = JudgeQueue(lambda _: None)
    for name in ("body 1", "stream 1", "body 2", "stream 2"):
        watch: Any = Watch(name, whole="body" in name)
        queue.put(watch)
    await queue.empty()
    assert [name for name in steps if "body" in name] == ["body 1"] * 3 + ["body 2"] * 3
    assert steps[:6:2] == ["stream 1", "stream 2", "stream 1"]


@pytest.mark.parametrize("field", ["text", "content", "arguments", "part"])
def test_a_text_of_many_pieces_is_put_together(field: str) -> None:
    """Each piece was added to a string, which was copied: a million of them held the guard for minutes."""
    pieces = ["", "The miller", *(f" {n}" for n in range(5000)), " é"]
    assembly = AnswerAssembly(Route.COMPLETIONS if field == "text" else Route.CHAT)
    for piece in pieces:
        delta = {
            "content": piece,
            "arguments": [{"index": 0, "function": {"arguments": piece}}],
            "part": [{"type": "text", "text": piece}],
        }
        name = {"arguments": "tool_calls"}.get(field, "content")
        said = {"text": piece} if field == "text" else {"delta": {name: delta[field]}}
        assembly.add(f"data: {json.dumps({'choices': [{'index': 0, **said}]})}\n\n".encode())
    [choice] = json.loads(assembly.body(AnswerReader(Route.CHAT, DetectorSpec())))["choices"]
    if field == "text":
        found = choice["text"]
    elif field == "arguments":
        found = choice["message"]["tool_calls"][0]["function"]["arguments"]
    else:
        content = choice["message"]["content"]
        found = content if field == "content" else "".join(part["text"] for part in content)
    assert found == "".join(pieces)


async def test_an_event_that_is_no_chunk_is_the_upstreams_failure() -> None:
    """Calls of tools with numbers out of order are no error of the guard's own."""
    calls = [{"index": -7, "function": {"arguments": "x"}}]
    script = Events([*sse({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}), DONE])
    async with guarded(script, {"policy": "abort"}) as here:
        assert (await here.ask(body=UNSTREAMED)).status == 502


async def test_the_upstream_is_asked_not_to_compress_what_may_be_ended() -> None:
    """Without the header a server may; what is compressed all the same passes unread."""
    plain = b"".join([*chat_events(HEALTHY + LOOP), DONE])
    headers = {"content_encoding": "gzip"}
    script = Page(gzip.compress(plain), 200, "text/event-stream", headers)
    async with guarded(script, {"policy": "abort"}) as here:
        reply = await here.ask()
        assert here.upstream.asked[-1].headers["accept-encoding"] == "identity"
        assert gzip.decompress(reply.body) == plain
        reply = await here.ask(body=UNSTREAMED)
        assert "compresses" in reply.json["error"]["message"]


async def test_a_client_that_waits_to_be_told_to_continue_is_told() -> None:
    """It has sent no body yet, and nobody else will answer it."""
    body = json.dumps(UNSTREAMED).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
    async with guarded(page({"choices": []})) as here, raw(here) as (reader, writer):
        writer.write(head.encode())
        async with asyncio.timeout(10):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert "expect" not in here.upstream.asked[-1].headers


async def upload(here: Guarded, pieces: int, size: int, pause: float) -> bytes:
    """The status line of the reply to a body that arrives in pieces on a path that is not judged."""
    async with raw(here) as (reader, writer):
        head = f"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: {pieces * size + 2}\r\n\r\n"
        writer.write(head.encode() + b'"')
        reply = asyncio.create_task(reader.readline())
        for _ in range(pieces):
            writer.write(b"x" * size)
            await asyncio.wait([reply], timeout=pause)
        if not reply.done():
            writer.write(b'"')
        async with asyncio.timeout(60):
            return await reply


@pytest.mark.parametrize(("pieces", "size", "pause"), [(1, 1, 60.0), (200, 1, 0.05)], ids=["none", "slow"])
async def test_a_body_that_stands_still_is_given_up_where_it_is_not_judged_too(
    pieces: int, size: int, pause: float
) -> None:
    """A connection with a body of some bytes a minute stayed open, and one to the upstream with it."""
    async with guarded(page({}), limits=GuardLimits(arrival=0.5, drain=1)) as here:
        with steady_clock():
            assert (await upload(here, pieces, size, pause)).startswith(b"HTTP/1.1 408")


@pytest.mark.slow
async def test_a_large_upload_that_makes_progress_may_take_longer() -> None:
    """A batch of inputs, or an audio file over a slow line, takes more than a minute, and is served."""
    async with guarded(page({}), limits=GuardLimits(arrival=1.0, drain=1)) as here:
        here.upstream.pages["/v1/embeddings"] = page({"ok": True})
        with steady_clock():
            assert (await upload(here, 30, 2048, 0.1)).startswith(b"HTTP/1.1 200")


async def test_headers_of_a_connection_named_in_a_second_line_end_here() -> None:
    lines = b"Connection: keep-alive\r\nConnection: x-mine\r\nX-Mine: 1\r\n\r\n"
    async with guarded(page({})) as here, raw(here) as (reader, writer):
        here.upstream.everything = page({})
        writer.write(b"GET /version HTTP/1.1\r\nHost: a\r\n" + lines)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert "x-mine" not in here.upstream.asked[-1].headers


async def test_a_tunnel_is_refused() -> None:
    async with guarded(page({})) as here, raw(here) as (reader, writer):
        writer.write(b"CONNECT /version HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
        assert not here.upstream.asked


async def test_the_upstreams_series_are_read_to_the_end() -> None:
    """A page that comes in several pieces ended within a number: 17 requests were 1."""
    async with guarded(page({})) as here:
        lines = [f'other{{i="{n}"}} 1' for n in range(30_000)]
        text = "\n".join([*lines, "vllm:num_requests_running 17", ""])
        here.upstream.pages["/metrics"] = Page(text.encode(), 200, "text/plain")
        assert (await here.series())["vllm:num_requests_running"] == 17


@pytest.mark.slow
async def test_a_large_page_of_series_is_not_repeated() -> None:
    """45 MB of short lines took 1.4 GB and half a minute, in which nothing passed through."""
    async with guarded(page({})) as here:
        line = b"vllm:num_requests_running 17\n"
        for text, repeated in (
            (b"#" * MAX_PAGE + line, False),
            (line * (MAX_USED // len(line) + 1), False),
            (b"a\n" * (MAX_PAGE // 2 - len(line)) + line, True),
        ):
            here.upstream.pages["/metrics"] = Page(text, 200, "text/plain")
            tracemalloc.start()
            try:
                found = await here.series()
                assert tracemalloc.get_traced_memory()[1] < 8 * MAX_PAGE
            finally:
                tracemalloc.stop()
            assert ("vllm:num_requests_running" in found) is repeated


def test_what_caps_production_was_measured_on_several_prompts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A limit that `recommend` refuses to print caps nothing either; simulated ones are named as such."""

    def row(prompts: int, *, simulated: bool, alone: int | None = None) -> Any:
        return SimpleNamespace(
            latest=True,
            limit=100,
            distinct_prompts=prompts,
            simulated=simulated,
            subject=Subject("a", "narrative", "it"),
            run_id=f"r{prompts}",
            holds_up_to=alone,
        )

    rule = GuardRule(policy=GuardPolicy.CAP)

    def caps(*rows: Any, rules: tuple[GuardRule, ...] = (rule,)) -> list[Any]:
        opened = nullcontext(SimpleNamespace(thresholds=lambda: list(rows)))
        monkeypatch.setattr("stresstest.store.open_store", lambda _: opened)
        monkeypatch.setattr(
            provenance_doubts, "doubts_about", lambda _, run_id: [f"The server of {run_id} restarted."]
        )
        monkeypatch.setattr(conclude, "chance_notes", lambda _, row: [f"T of {row.run_id} may be chance."])
        return list(_caps(GuardConfig(rules, ()), None))

    single, real, simulated = row(1, simulated=False), row(40, simulated=False), row(40, simulated=True)
    assert caps(single, real, simulated) == [real]
    said = capsys.readouterr().err
    assert "single prompt" in said
    assert "warning: run r40: The server of r40 restarted." in said
    assert "warning: run r40: T of r40 may be chance." in said
    assert caps(single, simulated) == [simulated]
    assert "SIMULATED" in capsys.readouterr().err
    assert caps(single) == []
    assert caps(row(40, simulated=False, alone=1), real) == [real]
    assert "hold only for a smaller load" in capsys.readouterr().err
    assert caps() == []
    assert "so nothing is capped" in capsys.readouterr().err
    assert caps(rules=(rule, replace(rule, max_tokens=500))) == []
    assert "so only rules with a max_tokens of their own cap" in capsys.readouterr().err


def test_the_first_event_is_decoded_into_what_is_used_of_it() -> None:
    """16 MB of small objects in a field that nobody reads took 430 MB."""
    reader = AnswerReader(Route.CHAT, DetectorSpec())
    payload = b'{"id":"a","model":"m","choices":[],"x":[' + b",".join([b'{"a":0}'] * 200_000) + b"]}"
    tracemalloc.start()
    try:
        reader.add_event(payload)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (reader.head, peak < 2_000_000) == ({"id": "a", "model": "m"}, True)


async def test_a_stream_to_an_old_client_ends_with_its_connection() -> None:
    """HTTP/1.0 with keep-alive (`ab -k`, nginx by default): nothing else tells where the answer ends, and the
    client waited 75 s for it."""
    body = json.dumps(ASK).encode()
    head = f"POST {CHAT} HTTP/1.0\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"
    async with guarded(Events([*chat_events(HEALTHY), DONE])) as here, raw(here) as (reader, writer):
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await asyncio.wait_for(reader.read(), 30)
    assert answer.endswith(DONE)
