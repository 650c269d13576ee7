"""The stream path: whatever a server sends, text and token counts are right and trouble is a fact."""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import nullcontext
from dataclasses import dataclass, field

import pytest

from stresstest.endpoint import assembly
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.outcome import StreamOutcome, Timeouts
from stresstest.model import Decoding, FailureKind, GenerationRequest, Message, Token
from tests.support.fake_vllm import (
    DONE,
    Answer,
    Events,
    Hang,
    Page,
    answer,
    chunk,
    entry,
    fake_vllm,
    page,
    sse,
    usage_only,
)
from tests.support.steady_clock import steady_clock

QUICK = Timeouts(connect=60, first=0.3, stall=0.3, probe=60)
"""For what stands still; whatever goes on has the product's own patience, however busy the machine."""
REQUEST = GenerationRequest("lab", 64, Decoding(), messages=(Message("user", "Ciao"),), seed=3)


@dataclass
class Result:
    """One stream as a test sees it."""

    outcome: StreamOutcome
    tokens: list[Token] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    @property
    def kind(self) -> FailureKind | None:
        return self.outcome.failure.kind if self.outcome.failure else None


async def stream(
    reply: Answer, request: GenerationRequest = REQUEST, given: Timeouts | None = None
) -> Result:
    """Serve one answer and read it to the end."""
    tokens: list[Token] = []

    def sink(arrived: list[Token]) -> bool:
        tokens.extend(arrived)
        return False

    still = isinstance(reply, Hang) or (isinstance(reply, Events) and reply.end == "stall")
    timeouts = given or (QUICK if still else Timeouts())
    async with fake_vllm(reply) as server, Endpoint(server.url, timeouts=timeouts) as endpoint:
        endpoint.can_estimate = False
        with steady_clock() if still else nullcontext():
            return Result(await endpoint.generate(request, sink), tokens)


async def test_healthy_stream_gives_every_fact() -> None:
    """Text, ids, logprobs, entropy, usage and times of an ordinary vLLM stream all arrive."""
    got = await stream(Events(answer(["Uno", " due", " tre"])))
    assert got.text == "Uno due tre"
    assert got.outcome.finish_reason == "stop"
    assert got.outcome.failure is None
    assert not got.outcome.aborted
    assert (got.outcome.prompt_tokens, got.outcome.output_tokens) == (7, 3)
    assert got.outcome.token_source == "server"
    assert all(token.id is not None for token in got.tokens)
    assert all(token.logprob == pytest.approx(math.log(0.5)) for token in got.tokens)
    rest = 0.5 / 20
    expected = -0.5 * math.log(0.5) - 19 * rest * math.log(rest) - rest * math.log(rest)
    assert got.tokens[0].entropy == pytest.approx(expected)
    assert got.outcome.first_token is not None
    assert got.outcome.started <= got.outcome.first_token <= got.outcome.ended
    assert got.tokens[0].arrived == got.outcome.first_token


async def test_utf8_cut_by_tcp_anywhere() -> None:
    """Reads that end inside a character, a line end or a number change nothing."""
    whole = b"".join(answer(["perché", " 日本", " 🙂"])).replace(b"\n\n", b"\r\n\r\n")
    got = await stream(Events([whole[i : i + 7] for i in range(0, len(whole), 7)]))
    assert got.text == "perché 日本 🙂"
    assert got.outcome.output_tokens == 3


async def test_a_character_over_several_tokens() -> None:
    """A character whose bytes come in three tokens is counted as three and written once."""
    face = "🙂".encode()
    parts = sse(
        chunk("", ids=[1], entries=[entry("�", raw=face[:1])]),
        chunk("", ids=[2], entries=[entry("�", raw=face[1:3])]),
        chunk("🙂", ids=[3], entries=[entry("�", raw=face[3:])]),
        chunk(" ok", ids=[4], entries=[entry(" ok")], finish="stop"),
    )
    got = await stream(Events([*parts, DONE]))
    assert [token.text for token in got.tokens] == ["", "", "🙂", " ok"]
    assert got.outcome.output_tokens == 4


async def test_multi_token_chunks_are_cut_where_the_tokens_meet() -> None:
    """--stream-interval puts several tokens into a chunk; half characters and special tokens included."""
    e = "è".encode()
    entries = [entry("Il"), entry("�", raw=e[:1]), entry("�", raw=e[1:]), entry(" re"), entry("<|end|>")]
    parts = sse(chunk("Ilè re", ids=[1, 2, 3, 4, 5], entries=entries, finish="stop"))
    got = await stream(Events([*parts, DONE]))
    assert got.text == "Ilè re"
    assert [token.id for token in got.tokens] == [1, 2, 3, 4, 5]
    assert got.tokens[0].text == "Il"
    assert got.outcome.output_tokens == 5


async def test_counts_come_from_running_usage_without_ids_and_logprobs() -> None:
    """A chunk is not a token: the usage says three, so three tokens carry its text."""
    parts = sse(chunk("uno due tre", usage=(4, 3)), chunk(" fine", usage=(4, 4), finish="length"))
    got = await stream(Events([*parts, DONE]))
    assert len(got.tokens) == 4
    assert got.text == "uno due tre fine"
    assert all(token.text for token in got.tokens)
    assert (got.outcome.output_tokens, got.outcome.token_source) == (4, "server")
    assert got.outcome.finish_reason == "length"


async def test_counts_come_from_logprobs_without_ids() -> None:
    """Without token ids the logprobs entries count."""
    parts = sse(
        chunk("ab", entries=[entry("a"), entry("b")]), chunk("c", entries=[entry("c")], finish="stop")
    )
    got = await stream(Events([*parts, DONE]))
    assert [token.text for token in got.tokens] == ["a", "b", "c"]
    assert all(token.id is None for token in got.tokens)
    assert got.outcome.token_source == "server"


async def test_tokenize_counts_where_the_stream_does_not() -> None:
    """Nothing countable in the stream: the server's /tokenize is asked, and the source says so."""
    got = await stream(Events([*sse(chunk("uno due"), chunk(" tre", finish="stop")), DONE]))
    assert (got.outcome.output_tokens, got.outcome.token_source) == (5, "tokenize")


async def test_chunks_are_named_as_the_last_resort() -> None:
    """A count of chunks is never passed off as a count of tokens."""
    async with fake_vllm(Events([*sse(chunk("uno"), chunk(" due", finish="stop")), DONE])) as server:
        del server.pages["/tokenize"]
        async with Endpoint(server.url) as endpoint:
            endpoint.can_estimate = False
            outcome = await endpoint.generate(REQUEST, lambda tokens: False)
    assert (outcome.output_tokens, outcome.token_source) == (2, "words")


async def test_a_final_total_that_contradicts_the_chunks_is_told() -> None:
    """A total that does not match the positions gives the total, and says that positions are chunks."""
    parts = sse(chunk("uno due tre"), chunk(" q", finish="stop"), usage_only(4, 9))
    got = await stream(Events([*parts, DONE]))
    assert (got.outcome.output_tokens, got.outcome.token_source) == (9, "server (positions in words)")


async def test_a_total_from_the_middle_is_no_total() -> None:
    """Usage that stops coming while text goes on counts only what it saw: the end stays unknown."""
    async with fake_vllm(
        Events([*sse(chunk("uno", usage=(4, 1)), chunk(" due"), chunk(" tre", finish="stop")), DONE])
    ) as server:
        del server.pages["/tokenize"]
        async with Endpoint(server.url) as endpoint:
            endpoint.can_estimate = False
            outcome = await endpoint.generate(REQUEST, lambda tokens: False)
    assert (outcome.output_tokens, outcome.token_source) == (3, "words")


async def test_a_usage_that_no_text_can_hold_is_not_believed() -> None:
    """Three hundred million tokens in one character: neither memory nor positions follow the number."""
    parts = sse(chunk("uno", usage=(4, 1)), chunk("x", usage=(4, 3 * 10**8), finish="stop"))
    async with fake_vllm(Events([*parts, DONE])) as server:
        del server.pages["/tokenize"]
        async with Endpoint(server.url) as endpoint:
            endpoint.can_estimate = False
            texts: list[str] = []

            def sink(arrived: list[Token]) -> bool:
                texts.extend(token.text for token in arrived)
                return False

            outcome = await endpoint.generate(REQUEST, sink)
    assert texts == ["uno", "x"]
    assert (outcome.output_tokens, outcome.token_source) == (2, "words")


@pytest.mark.parametrize("hostile", [-1, 2**31, 2**63, 2**64, 2**70])
async def test_impossible_numbers_are_not_measurements(hostile: int) -> None:
    """Ids, usages and logprobs beyond any meaning are dropped; the text and its tokens are kept."""
    odd = entry(" due")
    odd["logprob"] = odd["top_logprobs"][0]["logprob"] = 1000.0
    parts = sse(
        chunk("uno", ids=[1], entries=[entry("uno")], usage=(7, 1)),
        chunk(" due", ids=[hostile], entries=[odd], usage=(hostile, hostile), finish="stop"),
    )
    got = await stream(Events([*parts, DONE]))
    assert got.outcome.failure is None
    assert (got.text, got.outcome.output_tokens, got.outcome.prompt_tokens) == ("uno due", 2, 7)
    assert (got.tokens[1].id, got.tokens[1].logprob) == (None, None)


@pytest.mark.parametrize(
    "payload", [b'{"object":"\xff\xfe"}', b'{"error":' + b"[" * 100_000, b'{"usage":' + b"9" * 5000 + b"}"]
)
async def test_what_cannot_be_read_is_a_malformed_stream(payload: bytes) -> None:
    """Broken UTF-8, endless nesting and endless numbers lose one generation and raise nothing."""
    got = await stream(Events([*sse(chunk("uno", ids=[1])), b"data: " + payload + b"\n\n", DONE]))
    assert (got.kind, got.text) == (FailureKind.MALFORMED, "uno")


async def test_an_error_over_a_chunk_is_a_malformed_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number our own arithmetic stumbles over costs that generation alone, never the campaign."""

    def stumble(logprobs: object) -> float:
        raise OverflowError("math range error")

    monkeypatch.setattr(assembly, "entropy_bound", stumble)
    got = await stream(Events(answer(["uno", " due"])))
    assert got.kind is FailureKind.MALFORMED


async def test_held_back_text_is_never_lost() -> None:
    """Text that arrives in a chunk of zero tokens joins the next token, or the end."""
    parts = sse(
        chunk("a", ids=[1]),
        chunk("b", ids=[]),
        chunk("c", ids=[2]),
        chunk("d", ids=[], finish="stop"),
    )
    got = await stream(Events([*parts, DONE]))
    assert [token.text for token in got.tokens] == ["a", "bc", "d"]


@pytest.mark.parametrize("name", ["reasoning_details", "thinking_blocks"])
@pytest.mark.parametrize("repeats", [False, True])
async def test_reasoning_in_parts_is_read(name: str, repeats: bool) -> None:
    """MiniMax's API brings reasoning so alone, each event with all that came before: loops were not seen."""
    words = ["So", " the", " moon", " so", " so", " so"]
    shown = ["".join(words[: n + 1]) if repeats else word for n, word in enumerate(words)]
    key = "thinking" if name == "thinking_blocks" else "text"
    chunks = [chunk("") for _ in shown]
    for each, text in zip(chunks, shown, strict=True):
        each["choices"][0]["delta"][name] = [{"type": "reasoning.text", key: text, "index": 0}]
    got = await stream(Events([*sse(*chunks, chunk("Yes.", finish="stop")), DONE]))
    assert "".join(token.text for token in got.tokens if token.reasoning) == "".join(words)
    assert "".join(token.text for token in got.tokens if not token.reasoning) == "Yes."


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_reasoning_is_kept_apart(name: str) -> None:
    """Thoughts are tokens too, marked so that no language check judges them."""
    thought = chunk(ids=[1], entries=[entry("hm")])
    thought["choices"][0]["delta"][name] = "hm"
    parts = sse(thought, chunk("Sì", ids=[2], entries=[entry("Sì")], finish="stop"))
    got = await stream(Events([*parts, DONE]))
    assert [(token.text, token.reasoning) for token in got.tokens] == [("hm", True), ("Sì", False)]


async def test_a_chunk_half_thought_half_answer() -> None:
    """No token is half thought, half answer, even if the chunk is."""
    entries = [entry("hm"), entry("x</think>Sì"), entry(".")]
    parts = sse(chunk("Sì.", ids=[1, 2, 3], entries=entries, reasoning="hmx", finish="stop"))
    got = await stream(Events([*parts, DONE]))
    assert "".join(t.text for t in got.tokens if t.reasoning) == "hmx"
    assert "".join(t.text for t in got.tokens if not t.reasoning) == "Sì."


async def test_completions_with_token_ids_as_prompt() -> None:
    """/completions: text and the parallel logprob lists; the prompt's ids go out as they are."""
    shape = {"tokens": ["A", "b"], "token_logprobs": [-0.1, None], "top_logprobs": [{"A": -0.1}, None]}
    choice = {"index": 0, "text": "Ab", "logprobs": shape, "finish_reason": "length", "token_ids": [8, 9]}
    request = GenerationRequest("lab", 2, Decoding(temperature=0.0, top_k=5), prompt=(1, 2, 3))
    async with fake_vllm(Events([*sse({"choices": [choice]}), DONE])) as server:
        tokens: list[Token] = []

        def sink(arrived: list[Token]) -> bool:
            tokens.extend(arrived)
            return False

        async with Endpoint(server.url) as endpoint:
            await endpoint.generate(request, sink)
        asked = server.generations[0]
    assert [(t.text, t.id, t.logprob) for t in tokens] == [("A", 8, -0.1), ("b", 9, None)]
    assert asked.path == "/v1/completions"
    assert asked.body["prompt"] == [1, 2, 3]
    assert asked.body["logprobs"] == 20
    assert asked.body["temperature"] == 0.0
    assert asked.body["top_k"] == 5
    assert "messages" not in asked.body


async def test_the_chat_body_holds_what_was_asked_and_nothing_else() -> None:
    """What the user does not give is not sent: the server's own sampling defaults stay in force."""
    async with fake_vllm(Events(answer(["x"]))) as server, Endpoint(server.url) as endpoint:
        await endpoint.generate(REQUEST, lambda tokens: False)
        body = server.generations[0].body
    assert body == {
        "model": "lab",
        "messages": [{"role": "user", "content": "Ciao"}],
        "max_tokens": 64,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "logprobs": True,
        "top_logprobs": 20,
        "return_token_ids": True,
        "seed": 3,
    }


async def test_missing_done_after_a_finish_reason_is_no_failure() -> None:
    """The finish reason ends a generation; [DONE] is a courtesy."""
    got = await stream(Events(answer(["a", "b"], done=False)))
    assert got.outcome.failure is None
    assert got.outcome.finish_reason == "stop"


async def test_last_event_without_its_empty_line() -> None:
    """A server that forgets the last line end has still said why it finished."""
    got = await stream(Events([b"".join(answer(["a"], done=False)[:2]).rstrip(b"\n")]))
    assert got.outcome.finish_reason == "stop"


@pytest.mark.parametrize("end", ["cut", "close"])
async def test_a_stream_cut_in_the_middle_keeps_what_arrived(end: str) -> None:
    """Lost connection or early end alike: the tokens are kept, the failure says after how many."""
    got = await stream(Events(answer(["a", "b", "c"], finish=None, done=False)[:3], end=end))
    assert got.text == "ab"
    assert got.kind is FailureKind.CUT
    assert got.outcome.failure is not None
    assert got.outcome.failure.at_token == 2
    assert got.outcome.finish_reason is None


async def test_a_stall_after_tokens() -> None:
    """A stream that stands still is closed and named a stall, with its tokens kept."""
    got = await stream(Events(answer(["a", "b"], finish=None)[:3], end="stall"))
    assert (got.text, got.kind) == ("ab", FailureKind.STALL)


async def test_comments_do_not_hide_a_stall() -> None:
    """A proxy's keep-alive comments are no progress."""
    parts = answer(["a"], finish=None)[:2] + [b": ping\n\n"] * 60
    got = await stream(Events(parts, pause=0.02, end="stall"))
    assert (got.text, got.kind) == ("a", FailureKind.STALL)


@pytest.mark.parametrize("reply", [Hang(), Events([], end="stall")], ids=["no headers", "no event"])
async def test_nothing_before_the_first_token_is_a_timeout(reply: Answer) -> None:
    """A hang before the first token is a timeout, whether or not the headers came."""
    got = await stream(reply)
    assert got.kind is FailureKind.TIMEOUT
    assert got.outcome.first_token is None


@pytest.mark.parametrize(
    "value",
    [
        {"error": {"message": "engine \x1b[31mdied", "code": 500}},
        {"object": "error", "message": "engine died"},
    ],
)
async def test_an_error_object_inside_the_stream(value: object) -> None:
    """vLLM reports trouble after the headers as an event; the tokens before it stay."""
    got = await stream(Events([*answer(["a"], finish=None)[:2], *sse(value), DONE]))
    assert (got.text, got.kind) == ("a", FailureKind.STREAM_ERROR)
    assert got.outcome.failure is not None
    assert "engine" in got.outcome.failure.message
    assert "\x1b" not in got.outcome.failure.message


@pytest.mark.parametrize("payload", [b"data: {oops\n\n", b"data: 12\n\n", b'data: {"choices": 3}\n\n'])
async def test_malformed_json_keeps_what_arrived(payload: bytes) -> None:
    """Garbage in an event is a fact about the service, not a traceback."""
    got = await stream(Events([*answer(["a"], finish=None)[:2], payload]))
    assert (got.text, got.kind) == ("a", FailureKind.MALFORMED)


async def test_a_web_page_with_200() -> None:
    """A login page or a wrong address is named as what it is."""
    got = await stream(Page(b"<!doctype html><html><b>Welcome</b></html>", content_type="text/html"))
    assert got.kind is FailureKind.MALFORMED
    assert got.outcome.failure is not None
    assert "web page" in got.outcome.failure.message


async def test_a_json_error_with_200() -> None:
    """An error sent with status 200 is still an error, in the server's words."""
    got = await stream(page({"error": {"message": "no capacity"}}))
    assert got.kind is FailureKind.STREAM_ERROR
    assert got.outcome.failure is not None
    assert "no capacity" in got.outcome.failure.message


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_given_up_by_the_server(reason: str) -> None:
    """Finish reasons abort and error are service failures, not endings."""
    got = await stream(Events(answer(["a", "b"], finish=reason)))
    assert got.kind is FailureKind.ABORTED_BY_SERVER
    assert got.outcome.finish_reason == reason


async def test_repetition_is_a_finish_reason_like_any_other() -> None:
    """vLLM's own repetition stop is no service failure."""
    got = await stream(Events(answer(["a"], finish="repetition")))
    assert (got.outcome.finish_reason, got.outcome.failure) == ("repetition", None)


async def test_abort_closes_the_connection() -> None:
    """An abort must reach the server, or it goes on generating for nobody."""
    endless = answer(["a"] * 2000, finish=None)
    async with fake_vllm(Events(endless, pause=0.002)) as server, Endpoint(server.url) as endpoint:
        tokens: list[Token] = []

        def sink(arrived: list[Token]) -> bool:
            tokens.extend(arrived)
            return len(tokens) >= 5

        outcome = await endpoint.generate(REQUEST, sink)
        await server.until(lambda: server.hung_up == 1 and server.open == 0)
    assert outcome.aborted
    assert outcome.failure is None
    assert outcome.finish_reason is None
    assert outcome.output_tokens == 5


async def test_cancelling_closes_the_connection_and_passes_through() -> None:
    """Ctrl-C frees the server's slot as well."""
    async with fake_vllm(Events(answer(["a"] * 3, finish=None)[:4], end="stall")) as server:
        async with Endpoint(server.url) as endpoint:
            task = asyncio.create_task(endpoint.generate(REQUEST, lambda tokens: False))
            await server.until(lambda: server.open == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.until(lambda: server.hung_up == 1)
        assert server.open == 0


@pytest.mark.parametrize("sent", [True, False])
async def test_a_seed_is_sent_unless_the_user_forbids_it(sent: bool) -> None:
    """--no-seed holds for every request of an endpoint, whoever makes it."""
    async with fake_vllm(Events(answer(["a"]))) as server, Endpoint(server.url, send_seed=sent) as endpoint:
        await endpoint.generate(REQUEST, lambda tokens: False)
        assert server.generations[-1].body.get("seed") == (3 if sent else None)


async def test_what_the_sink_raises_is_not_swallowed() -> None:
    """A bug in a detector must not look like a service failure."""

    def broken(tokens: list[Token]) -> bool:
        raise ZeroDivisionError

    async with fake_vllm(Events(answer(["a"]))) as server, Endpoint(server.url) as endpoint:
        with pytest.raises(ZeroDivisionError):
            await endpoint.generate(REQUEST, broken)


async def test_events_over_several_data_lines_and_comments() -> None:
    """The event-stream grammar's rarer forms: comments, event names, an event over two data lines."""
    one = json.dumps(chunk("a", ids=[1], finish="stop"))
    first, second = one.split(", ", 1)
    got = await stream(Events([f": hi\nevent: x\ndata:{first},\ndata: {second}\n\n".encode(), DONE]))
    assert (got.text, got.outcome.finish_reason) == ("a", "stop")


_LITELLM = {"x-litellm-model-id": "b1", "x-litellm-model-group": "big"}


@pytest.mark.parametrize(
    ("headers", "model", "server"),
    [
        ({}, "lab", None),
        ({**_LITELLM, "x-litellm-attempted-fallbacks": "0"}, "lab", "provider b1"),
        ({**_LITELLM, "x-litellm-attempted-fallbacks": "1"}, "big (fallback)", "provider b1"),
        ({"x-litellm-attempted-fallbacks": "2"}, "another (fallback)", None),
        (
            {"x-portkey-provider": "openai", "x-portkey-last-used-option-index": "config.targets[1]"},
            "lab",
            "provider openai config.targets[1]",
        ),
        ({"cf-aig-step": "1"}, "lab", "provider 1"),
        ({"x-inference-provider": "novita"}, "lab", "provider novita"),
    ],
)
async def test_who_has_answered_behind_a_gateway(
    headers: dict[str, str], model: str, server: str | None
) -> None:
    """LiteLLM's events name the model that was asked, also where a fallback has answered: a limit was
    certified for a model that had not written a word."""
    named = {**chunk("Ciao.", finish="stop"), "model": "lab"}
    found = await stream(Events([*sse(named), DONE], headers=headers))
    assert (found.outcome.answered_by, found.outcome.fingerprint) == (model, server)


@pytest.mark.parametrize(("told", "retries"), [("0", 0), ("2", 2), ("many", 0), ("9" * 5000, 0), ("500", 99)])
async def test_a_gateways_own_retries_are_counted(told: str, retries: int) -> None:
    """LiteLLM asks again by itself, and shows the answer that came at last."""
    headers = {**_LITELLM, "x-litellm-attempted-retries": told}
    found = await stream(Events([*sse(chunk("Ciao.", finish="stop")), DONE], headers=headers))
    assert found.outcome.gateway_retries == retries


async def test_an_answer_that_has_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sent finish reason and usage and left the connection open: five minutes an answer."""
    monkeypatch.setattr("stresstest.endpoint.stream._END_S", 0.2)
    events = sse(chunk("Ciao.", finish="stop"), usage_only(9, 2))
    async with asyncio.timeout(30):
        found = await stream(Events(events, end="stall"), given=Timeouts())
    assert (found.outcome.finish_reason, found.outcome.failure, found.text) == ("stop", None, "Ciao.")
