"""What each policy does to which answer, what the client gets, and that a dry run does nothing."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from stresstest.detectors.entry import DetectorSpec
from stresstest.features.guard.answer import AnswerReader
from stresstest.features.guard.asked import Route, read_request
from stresstest.features.guard.ending import last_events
from stresstest.features.guard.settings import GuardSettings, cap_lines, idle_rules
from stresstest.model import Decoding, Subject
from stresstest.model.guard import GuardPolicy, GuardRule
from tests.support.fake_vllm import DONE, Answer, Asked, Events, Page, chunk, page, sse, usage_only
from tests.support.guarded import ASK, CHAT, HEALTHY, LOOP, chat_events, guarded, words
from tests.support.stories import story

FAILING = Events([*chat_events(HEALTHY + LOOP), DONE], pause=0.0005)
WHOLE = Events([*chat_events(HEALTHY, finish="stop"), *sse(usage_only(9, 51)), DONE])
RETRY = {"policy": "retry", "change": {"repetition_penalty": 1.1}}
LONG = " ".join(story(24).split())
UNSTREAMED = {name: value for name, value in ASK.items() if name != "stream"}


def text_of(events: list[dict[str, Any]], name: str = "content") -> str:
    return "".join(
        choice["delta"].get(name) or ""
        for event in events
        for choice in event["choices"]
        if choice["index"] == 0
    )


async def test_abort_ends_a_stream_in_a_valid_chunk_that_says_why() -> None:
    """Never as an ordinary stop; the upstream is closed, and what was saved is counted."""
    async with guarded(FAILING, {"policy": "abort"}) as here:
        reply = await here.ask()
        await here.upstream.until(lambda: here.upstream.open == 0)
        found = await here.judged(1)
    last = reply.events[-1]
    assert last["choices"][0]["finish_reason"] == "length"
    assert last["choices"][0]["stop_reason"] == "stresstest_guard:loop"
    why = last["stresstest_guard"]
    assert why["action"] == "abort"
    assert why["onset"] < why["alarm"]
    assert last["id"] == reply.events[0]["id"]
    whole = HEALTHY + LOOP
    assert whole.startswith(text_of(reply.events))
    assert len(text_of(reply.events)) < len(whole) / 2
    (line,) = here.log
    assert (line["action"], line["finish_reason"]) == ("abort", "length")
    saved = found[f"stresstest_guard_tokens_saved_total{{lab,{CHAT}}}"]
    assert saved == ASK["max_tokens"] - line["completion_tokens"]


async def test_the_client_is_told_the_positions_that_the_log_has() -> None:
    """In output tokens: the client's were words, 597 beside 835 in the log of the same answer."""
    pieces = [piece for word in words(HEALTHY + LOOP) for piece in (word[:3], word[3:]) if piece]
    events = sse(*map(chunk, pieces), chunk(finish="length"))
    async with guarded(Events([*events, DONE], pause=0.0005), {"policy": "abort"}) as here:
        reply = await here.ask()
        await here.judged(1)
    why = reply.events[-1]["stresstest_guard"]
    (line,) = here.log
    assert (why["onset"], why["alarm"]) == (line["onset"], line["alarm"])
    assert line["alarm"] > len(words(HEALTHY))


def test_an_end_that_was_read_and_not_passed_on_is_written() -> None:
    """The upstream's last chunk lay in the same read as the alarm: the client got no finish reason at all."""
    asked = read_request(Route.CHAT, json.dumps(ASK).encode())
    assert asked is not None
    reader = AnswerReader(Route.CHAT, DetectorSpec())
    for event in sse(chunk("Ciao"), chunk(finish="length")):
        reader.add_event(event.removeprefix(b"data: ").strip())
    first, _ = last_events(asked, reader, {"action": "abort", "choice": 0, "symptom": "loop"}).split(
        b"\n\n", 1
    )
    (ended,) = json.loads(first.removeprefix(b"data: "))["choices"]
    assert (ended["index"], ended["finish_reason"]) == (0, "length")


async def test_the_length_of_a_stream_is_not_promised_where_it_may_be_ended() -> None:
    """A client waited for bytes that never came, and took the end for a broken connection."""
    stream = Page(b"".join([*chat_events(HEALTHY), DONE]), content_type="text/event-stream")
    for policy, told in (("count", str(len(stream.body))), ("abort", None)):
        async with guarded(stream, {"policy": policy}) as here:
            reply = await here.ask()
        assert (reply.body, reply.headers.get("Content-Length")) == (stream.body, told)


async def test_log_probabilities_of_the_prompt_are_asked_for_as_they_were() -> None:
    """vLLM refuses them with `stream`: the request failed under a policy, and not without. The answer is
    judged."""
    body = {name: value for name, value in ASK.items() if name != "stream"} | {"prompt_logprobs": 1}
    answer = page({"choices": [{"message": {"content": HEALTHY + LOOP}}], "prompt_logprobs": [None]})
    async with guarded(answer, {"policy": "abort"}) as here:
        reply = await here.ask(body=body)
        found = await here.judged(1)
        assert here.upstream.generations[0].body == body
    assert reply.body == answer.body
    assert found[f"stresstest_guard_degenerate_total{{lab,{CHAT},loop}}"] == 1


async def test_abort_leaves_a_healthy_stream_as_it_is() -> None:
    """Byte for byte."""
    async with guarded(WHOLE, {"policy": "abort"}) as here:
        assert (await here.ask()).body == (await here.direct()).body


async def test_abort_waits_while_a_choice_is_healthy() -> None:
    """n = 2: one failing choice does not take the other's answer away."""
    good, bad = chat_events(LONG, index=0, finish="stop"), chat_events(HEALTHY + LOOP, index=1)
    mixed = [event for pair in zip(good, bad, strict=False) for event in pair]
    rest = good[len(bad) :] + bad[len(good) :]
    async with guarded(Events([*mixed, *rest, DONE]), {"policy": "abort"}) as here:
        reply = await here.ask(body={**ASK, "n": 2})
    assert text_of(reply.events) == LONG
    assert "stresstest_guard" not in reply.events[-1]


async def test_only_symptoms_that_are_to_act_do() -> None:
    """A rule may be confined to some of them."""
    async with guarded(FAILING, {"policy": "abort", "symptoms": ["gibberish"]}) as here:
        reply = await here.ask()
    assert text_of(reply.events) == HEALTHY + LOOP


async def test_an_unstreamed_answer_is_streamed_upstream_and_put_together() -> None:
    """As the client expects it, with usage; and ended where it fails, with the reason in header and body."""
    async with guarded(WHOLE, {"policy": "abort"}) as here:
        reply = await here.ask(body=UNSTREAMED)
        assert here.upstream.generations[0].body["stream"] is True
    assert reply.json["object"] == "chat.completion"
    choice = reply.json["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": HEALTHY}
    assert choice["finish_reason"] == "stop"
    assert reply.json["usage"]["completion_tokens"] == 51
    assert "stresstest_guard" not in reply.json
    async with guarded(FAILING, {"policy": "abort"}) as here:
        reply = await here.ask(body=UNSTREAMED)
    assert reply.json["choices"][0]["finish_reason"] == "length"
    assert reply.json["stresstest_guard"]["symptom"] == "loop"
    assert reply.headers["X-Stresstest-Guard"].startswith("abort; symptom=loop; onset=")


async def test_calls_of_tools_and_logprobs_are_put_together() -> None:
    """By their index, in the order in which they came."""
    calls = [{"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": ""}}]
    parts: list[dict[str, Any]] = [{"tool_calls": calls}]
    parts += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ('{"a"', ": 1}")]
    events = [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in parts]
    logprobs = {"content": [{"token": "x", "logprob": -1.0}]}
    events += [
        {"id": "c", "choices": [{"index": 0, "delta": {}, "logprobs": logprobs, "token_ids": [i]}]}
        for i in (1, 2)
    ]
    events += [{"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
    async with guarded(Events([*sse(*events), DONE]), {"policy": "abort"}) as here:
        choice = (await here.ask(body=UNSTREAMED)).json["choices"][0]
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert len(choice["logprobs"]["content"]) == 2
    assert choice["token_ids"] == [1, 2]


def _call(arguments: str, **more: Any) -> dict[str, Any]:
    named = {"name": "f"} if "id" in more else {}
    return {"tool_calls": [{**more, "function": {**named, "arguments": arguments}}]}


def _called(id: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.parametrize(
    ("deltas", "message"),
    [
        (
            [{"function_call": {"name": "f", "arguments": '{"a":'}}, {"function_call": {"arguments": "1}"}}],
            {"content": "", "function_call": {"name": "f", "arguments": '{"a":1}'}},
        ),
        (
            [
                {"reasoning_details": [{"text": "a"}]},
                {"reasoning_details": [{"text": "b"}]},
                {"content": "x"},
            ],
            {"content": "x", "reasoning_details": [{"text": "a"}, {"text": "b"}]},
        ),
        (
            [{"audio": {"id": "u", "data": "AB", "expires_at": 1}}, {"audio": {"id": "u", "data": "CD"}}],
            {"content": "", "audio": {"id": "u", "data": "ABCD", "expires_at": 1}},
        ),
        (
            [_call('{"a"', id="x"), _call(":1}"), _call("{", id="y"), _call("}", id="y", index=None)],
            {"content": None, "tool_calls": [_called("x", '{"a":1}'), _called("y", "{}")]},
        ),
        (
            [_call("{", id="x", index=0, type="function"), _call("}", id="x", index=0, type="function")],
            {"content": None, "tool_calls": [_called("x", "{}")]},
        ),
        (
            [
                {"tool_calls": [{"id": "x", "type": "custom", "custom": {"name": "f", "input": "a"}}]},
                {"tool_calls": [{"index": 0, "custom": {"input": "b"}}]},
            ],
            {
                "content": None,
                "tool_calls": [{"id": "x", "type": "custom", "custom": {"name": "f", "input": "ab"}}],
            },
        ),
    ],
    ids=["function_call", "lists", "objects", "no index", "names again", "custom"],
)
async def test_pieces_of_any_kind_are_put_together(
    deltas: list[dict[str, Any]], message: dict[str, Any]
) -> None:
    """A client that asked for no stream gets all that the model wrote, not the last piece of it."""
    events = [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events += [{"id": "c", "choices": [{"delta": {}, "finish_reason": "stop"}]}]
    async with guarded(Events([*sse(*events), DONE]), {"policy": "abort"}) as here:
        reply = await here.ask(body=UNSTREAMED)
    assert reply.status == 200
    assert reply.json["choices"][0]["message"] == {"role": "assistant", **message}


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, {"max_tokens": 100}),
        ({"max_tokens": 500}, {"max_tokens": 100}),
        ({"max_tokens": 50}, {"max_tokens": 50}),
        ({"max_completion_tokens": 500, "max_tokens": 20}, {"max_completion_tokens": 100, "max_tokens": 20}),
    ],
)
async def test_cap_sets_what_is_missing_or_higher(asked: dict[str, int], sent: dict[str, int]) -> None:
    """And says so in a header; a lower cap is the client's own."""
    body = {name: value for name, value in UNSTREAMED.items() if name != "max_tokens"} | asked
    async with guarded(page({"choices": []}), {"policy": "cap", "max_tokens": 100}) as here:
        reply = await here.ask(body=body)
        got = here.upstream.generations[0].body
    assert {name: got[name] for name in sent} == sent
    changed = got != body
    assert ("X-Stresstest-Guard" in reply.headers) is changed
    assert got["messages"] == body["messages"]


@pytest.mark.parametrize(("model", "cap"), [("a", 900), ("b", 500), ("", 500), ("c", None)])
def test_a_request_without_a_model_gets_the_lowest_cap(model: str, cap: int | None) -> None:
    """vLLM answers it with the model that it serves; the guard does not know which one that is."""
    rows: Any = [
        SimpleNamespace(safe_max_tokens=tokens, subject=Subject(name, "narrative", "it"))
        for name, tokens in (("a", 900), ("b", 500))
    ]
    settings = GuardSettings("http://vllm:8000", caps=rows)
    asked = read_request(Route.CHAT, json.dumps({"model": model} if model else {}).encode())
    assert asked is not None
    assert settings.cap_for(asked, GuardRule()) == cap


SUBJECT = Subject("a", "narrative", "it")


@pytest.mark.parametrize(
    ("rule", "idle"),
    [
        ({}, False),
        ({"model": "a*", "language": "it", "task": "narrative"}, False),
        ({"language": "it-IT"}, True),
        ({"task": "Narrative"}, True),
        ({"model": "b*"}, True),
        ({"model": "b*", "max_tokens": 500}, False),
    ],
)
def test_a_cap_rule_that_fits_no_limit_is_told(rule: dict[str, Any], idle: bool) -> None:
    """The guard listed a cap at its start that its only rule, for "it-IT", never applied."""
    row: Any = SimpleNamespace(subject=SUBJECT)
    found = idle_rules([GuardRule(policy=GuardPolicy.CAP, **rule)], [row])
    assert bool(found) is idle
    assert all("fits no limit in the store, so it caps nothing" in line for line in found)
    assert all(repr(value) in line for line in found for value in rule.values())


def test_the_caps_of_the_store_are_told_at_the_start() -> None:
    """Who is capped, at how many tokens, and by which run, measured how; of many, the first."""
    row: Any = SimpleNamespace(
        safe_max_tokens=1900,
        subject=SUBJECT,
        run_id="r1",
        simulated=False,
        concurrency=8,
        decoding=Decoding(temperature=0.7, repetition_penalty=1.1),
    )
    line = (
        "cap from the store: a · narrative · Italian: max_tokens 1,900, run r1 "
        "(with temperature 0.7, repetition_penalty 1.1; 8 requests in flight)"
    )
    assert cap_lines([row]) == [line]
    assert cap_lines([row] * 25)[20:] == ["and 5 more caps from the store"]


def test_a_plain_completion_without_a_cap_needs_none() -> None:
    """It ends after 16 tokens; a cap would make it longer."""
    asked = read_request(Route.COMPLETIONS, b'{"prompt": "x"}')
    assert asked is not None
    assert asked.capped(100) == {}
    without = read_request(Route.COMPLETIONS, b'{"prompt": "x", "max_tokens": null}')
    assert without is not None
    assert without.capped(100) == {"max_tokens": 100}, "null is no cap: vLLM fills the context"


@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbf{"model": "m", "messages": [], "max_tokens": 5000}',
        '{"model": "m", "messages": [], "max_tokens": 5000}'.encode("utf-16"),
        b'{"model": "m", "messages": [], "max_tokens": 5000, "temperature": NaN}',
        b'{"model": "m\\ud800", "messages": [{"content": "\\udc00"}], "max_tokens": 5000}',
    ],
    ids=["BOM", "UTF-16", "NaN", "half a surrogate pair"],
)
def test_what_python_servers_read_is_capped(body: bytes) -> None:
    """vLLM reads bodies with `json.loads`, which takes more than JSON; such a body went past every cap."""
    asked = read_request(Route.CHAT, body)
    assert asked is not None
    assert asked.cap == 5000
    sent = asked.changed(asked.capped(100))
    assert json.loads(sent)["max_tokens"] == 100
    asked.model.encode()
    asked.prompt.encode()


async def test_a_body_that_is_no_request_is_counted() -> None:
    """It passes, as the server may know better; the series say that it was not read."""
    async with guarded(page({"choices": []}), {"policy": "cap", "max_tokens": 100}) as here:
        async with here.session.post(here.url + CHAT, data=b"{nonsense") as reply:
            await reply.read()
        found = await here.judged(1)
    assert sum(n for name, n in found.items() if "requests_total" in name and "unread" in name) == 1


def by_penalty(asked: Asked) -> Answer:
    """Loops unless the request has the declared change."""
    changed = "repetition_penalty" in asked.body or "chat_template_kwargs" in asked.body
    return WHOLE if changed else FAILING


async def test_retry_asks_once_more_with_the_declared_change() -> None:
    """And the answer says so; both attempts are counted, and what the policy did once."""
    async with guarded(by_penalty, RETRY) as here:
        reply = await here.ask(body=UNSTREAMED)
        found = await here.judged(2)
        assert [g.body.get("repetition_penalty") for g in here.upstream.generations] == [None, 1.1]
    assert reply.json["choices"][0]["message"]["content"] == HEALTHY
    assert reply.json["stresstest_guard"]["action"] == "retry"
    assert reply.headers["X-Stresstest-Guard"].endswith("changed=repetition_penalty")
    assert found[f"stresstest_guard_actions_total{{retry,false,lab,{CHAT}}}"] == 1


async def test_retry_is_not_repeated() -> None:
    """A second failure is ended as `abort` ends it."""
    async with guarded(FAILING, RETRY) as here:
        reply = await here.ask(body=UNSTREAMED)
        assert len(here.upstream.generations) == 2
        found = await here.judged(2)
    assert reply.json["choices"][0]["finish_reason"] == "length"
    assert reply.json["stresstest_guard"]["after"] == "retry"
    did = {
        action: found[f"stresstest_guard_actions_total{{{action},false,lab,{CHAT}}}"]
        for action in ("retry", "abort")
    }
    assert did == {"retry": 1, "abort": 1}


async def test_a_refused_retry_leaves_the_first_answer_cut() -> None:
    """A server that does not know the change: the client never sent it, and must not get its error. The
    answer counts once."""

    def script(asked: Asked) -> Answer:
        if "repetition_penalty" not in asked.body:
            return FAILING
        return page({"error": {"message": "repetition_penalty is not known"}}, status=400)

    async with guarded(script, RETRY) as here:
        reply = await here.ask(body=UNSTREAMED)
        found = await here.judged(1)
    assert reply.status == 200
    assert reply.json["choices"][0]["finish_reason"] == "length"
    assert reply.json["stresstest_guard"]["after"] == "retry"
    assert found[f"stresstest_guard_degenerate_total{{lab,{CHAT},loop}}"] == 1
    assert found[f"stresstest_guard_requests_total{{lab,degenerate,{CHAT}}}"] == 1


async def test_an_answer_in_parts_is_put_together() -> None:
    """Mistral's API streams what its model thinks in parts, and the answer behind it as text."""
    thoughts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": word}]} for word in ("Well, ", "well.")
    ]
    deltas: list[Any] = [{"role": "assistant", "content": ""}, *({"content": [part]} for part in thoughts)]
    deltas += [{"content": [{"type": "text", "text": "It "}]}, {"content": "rains."}]
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    ended = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    async with guarded(Events([*sse(*chunks, ended), DONE]), {"policy": "abort"}) as here:
        reply = await here.ask(body=UNSTREAMED)
    assert reply.status == 200
    assert reply.json["choices"][0]["message"]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Well, well."}]},
        {"type": "text", "text": "It rains."},
    ]


async def test_the_second_answer_is_marked_behind_a_comment() -> None:
    """Gateways keep streams alive with comments, which come before the first chunk."""
    answer = Events([b": keepalive\n\n", *chat_events(HEALTHY, finish="stop"), DONE])
    async with guarded(
        lambda asked: answer if "chat_template_kwargs" in asked.body else THINKING, {"policy": "end-thinking"}
    ) as here:
        reply = await here.ask()
    assert reply.body.count(b'"stresstest_guard"') == 1


async def test_the_second_answer_is_marked_whatever_its_line_ends() -> None:
    """sse-starlette's events end with CRLF: the first one ran into the second, and was no JSON."""
    answer = [event.replace(b"\n", b"\r\n") for event in [*chat_events(HEALTHY, finish="stop"), DONE]]
    async with guarded(
        lambda asked: Events(answer) if "chat_template_kwargs" in asked.body else THINKING,
        {"policy": "end-thinking"},
    ) as here:
        reply = await here.ask()
    events = [each for each in reply.body.replace(b"\r\n", b"\n").split(b"\n\n") if each]
    assert events.pop() == b"data: [DONE]"
    read = [json.loads(event.removeprefix(b"data: ")) for event in events]
    assert text_of(read).endswith(HEALTHY)


async def test_half_of_an_emoji_is_put_together_too() -> None:
    """A server that cuts one in two got its client a 502, where it did not ask for a stream."""
    halves = [
        b'data: {"choices":[{"index":0,"delta":{"content":"Fine \\ud83d"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00."},"finish_reason":"stop"}]}\n\n',
    ]
    async with guarded(Events([*halves, DONE]), {"policy": "abort"}) as here:
        reply = await here.ask(body=UNSTREAMED)
    assert reply.status == 200
    assert reply.json["choices"][0]["message"]["content"] == "Fine \ufffd\ufffd."


async def test_a_stream_that_was_passed_on_is_not_retried() -> None:
    """What a client has read cannot be taken back."""
    async with guarded(FAILING, RETRY) as here:
        reply = await here.ask()
        assert len(here.upstream.generations) == 1
    assert reply.events[-1]["stresstest_guard"]["action"] == "abort"


THINKING = Events([*chat_events(HEALTHY + LOOP, reasoning=True), DONE], pause=0.0005)


@pytest.mark.parametrize("stream", [True, False])
async def test_thinking_that_loops_is_ended_and_the_answer_asked_for(stream: bool) -> None:
    """The client gets the reasoning so far (in a stream), then an answer without any, marked."""

    def script(asked: Asked) -> Answer:
        return WHOLE if "chat_template_kwargs" in asked.body else THINKING

    async with guarded(script, {"policy": "end-thinking"}) as here:
        reply = await here.ask(body={**ASK, "stream": stream})
        assert here.upstream.generations[1].body["chat_template_kwargs"] == {"enable_thinking": False}
    if stream:
        assert text_of(reply.events) == HEALTHY
        assert text_of(reply.events, "reasoning").startswith(HEALTHY)
        marked = [event for event in reply.events if "stresstest_guard" in event]
        assert [event["stresstest_guard"]["action"] for event in marked] == ["end-thinking"]
        assert sum("role" in choice["delta"] for event in reply.events for choice in event["choices"]) == 1
    else:
        assert reply.json["choices"][0]["message"]["content"] == HEALTHY
        assert reply.json["stresstest_guard"]["action"] == "end-thinking"


async def test_an_answer_that_loops_is_no_thinking_to_be_ended() -> None:
    """It is ended as `abort` ends it."""
    async with guarded(FAILING, {"policy": "end-thinking"}) as here:
        reply = await here.ask()
    assert reply.events[-1]["stresstest_guard"]["action"] == "abort"


@pytest.mark.slow
@pytest.mark.parametrize("rules", [{"policy": "abort"}, {"policy": "cap", "max_tokens": 9}, RETRY])
async def test_a_dry_run_changes_nothing_and_says_what_would_have_been(rules: dict[str, Any]) -> None:
    """In log and series; the client gets what the upstream sent."""
    async with guarded(FAILING, rules, dry_run=True) as here:
        assert (await here.ask()).body == (await here.direct()).body
        assert here.upstream.generations[0].body == ASK
        found = await here.judged(1)
    (line,) = here.log
    assert line["dry_run"] is True
    assert line["action"] == rules["policy"]
    assert found[f"stresstest_guard_actions_total{{{rules['policy']},true,lab,{CHAT}}}"] == 1


async def test_rules_hold_for_their_models_and_routes() -> None:
    """The last rule that fits a request is in force."""
    rules = {"rules": [{"model": "lab*", "policy": "abort"}, {"route": "/v1/completions", "policy": "count"}]}
    async with guarded(FAILING, rules) as here:
        assert "stresstest_guard" in (await here.ask()).events[-1]
        assert (await here.ask(body={**ASK, "model": "other"})).body == (await here.direct()).body


async def test_an_error_of_the_upstream_passes_an_acting_guard() -> None:
    """As it came, streamed or not."""
    error = page({"error": {"message": "no"}}, 400)
    async with guarded(error, {"policy": "abort"}) as here:
        for body in (ASK, UNSTREAMED):
            reply = await here.ask(body=body)
            assert (reply.status, reply.body) == (400, error.body)
    async with guarded(Events([*sse({"error": {"message": "died"}}), DONE]), {"policy": "abort"}) as here:
        assert (await here.ask(body=UNSTREAMED)).status == 500


async def test_responses_are_ended_in_their_own_words() -> None:
    """`response.incomplete`, streamed and whole."""
    deltas = [{"type": "response.output_text.delta", "delta": word} for word in words(HEALTHY + LOOP)]
    created = {
        "type": "response.created",
        "response": {"id": "r", "object": "response", "status": "in_progress"},
    }
    async with guarded(Events(sse(created, *deltas), pause=0.0005), {"policy": "abort"}) as here:
        streamed = await here.ask("/v1/responses")
        whole = await here.ask("/v1/responses", UNSTREAMED)
    last = json.loads(streamed.body.strip().rpartition(b"data: ")[2])
    assert last["type"] == "response.incomplete"
    assert last["response"]["id"] == "r"
    assert last["response"]["stresstest_guard"]["symptom"] == "loop"
    assert whole.json["status"] == "incomplete"
    assert (HEALTHY + LOOP).startswith(whole.json["output"][0]["content"][0]["text"])
