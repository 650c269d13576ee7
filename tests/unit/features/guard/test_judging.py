"""What the guard counts and logs of answers that pass, in every form in which they come."""

from __future__ import annotations

import asyncio
import json
from itertools import accumulate, chain, cycle, pairwise, takewhile
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from stresstest.features.guard import exchange as guard_exchange
from stresstest.features.guard.answer import AnswerReader, ChoiceWatch
from stresstest.features.guard.asked import PromptSearch, judged_route
from stresstest.features.guard.metrics import MAX_MODELS, OTHER, GuardMetrics, named_series
from stresstest.features.guard.settings import GuardLimits
from stresstest.features.guard.watch import AnswerWatch
from stresstest.records import FieldMapping, parse_line
from tests.support.commands import called
from tests.support.fake_vllm import DONE, Events, Hang, Page, chunk, page, sse, usage_only
from tests.support.guarded import ASK, CHAT, HEALTHY, LOOP, chat_events, guarded, words
from tests.support.stories import story

FAILING = HEALTHY + LOOP
USAGE = {"prompt_tokens": 9, "completion_tokens": 500}
BEFORE = len(words(HEALTHY))
LONG = " ".join(story(12).split())
COPY = 12
"""Words of one copy of the loop."""


def text_events(text: str) -> list[bytes]:
    choices = [{"index": 0, "text": word, "finish_reason": None} for word in words(text)]
    choices[-1]["finish_reason"] = "length"
    return sse(*({"id": "c", "choices": [choice]} for choice in choices))


def response_events(text: str, kind: str = "output_text") -> list[bytes]:
    deltas = [{"type": f"response.{kind}.delta", "delta": word, "output_index": 0} for word in words(text)]
    done = {"id": "r", "status": "incomplete", "usage": {"input_tokens": 9, "output_tokens": len(deltas)}}
    return sse({"type": "response.created", "response": {"id": "r"}}, *deltas) + sse(
        {"type": "response.incomplete", "response": done}
    )


def delta_events(text: str, name: str) -> list[bytes]:
    """A chat answer whose words come under this name."""
    said = [{"arguments": word} if name == "function_call" else word for word in words(text)]
    return sse(*({"id": "c", "choices": [{"index": 0, "delta": {name: word}}]} for word in said))


def part_events(text: str) -> list[bytes]:
    """A chat answer whose content comes in parts, as Mistral's API streams it; three of them are thought."""
    thinking = [
        {"type": "thinking", "thinking": [{"type": "text", "text": word}]} for word in words(text)[:3]
    ]
    said = [{"type": "text", "text": word} for word in words(text)[3:]]
    chunks = ({"index": 0, "delta": {"content": [part]}} for part in [*thinking, *said])
    return sse(*({"id": "c", "choices": [choice]} for choice in chunks))


def call(arguments: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": "write", "arguments": arguments}}


def custom(text: str) -> dict[str, Any]:
    """A call of a tool that takes a text, in OpenAI's form."""
    return {"id": "call_1", "type": "custom", "custom": {"name": "run", "input": text}}


def custom_call_events(text: str) -> list[bytes]:
    """A chat answer that says a word and then calls such a tool."""
    first, *rest = words(text)
    deltas = [{"content": "I look."}, {"tool_calls": [{"index": 0, **custom(first)}]}]
    deltas += [{"tool_calls": [{"index": 0, "custom": {"input": word}}]} for word in rest]
    return sse(*({"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas))


FORMS: dict[str, tuple[str, Events | Page]] = {
    "chat": (CHAT, Events([*chat_events(FAILING), *sse(usage_only(9, 500)), DONE])),
    "in few pieces": (CHAT, Events([b"".join([*chat_events(FAILING), DONE])])),
    "reasoning": (CHAT, Events([*chat_events(FAILING, reasoning=True), DONE])),
    "completions": ("/v1/completions", Events([*text_events(FAILING), DONE])),
    "responses": ("/v1/responses", Events(response_events(FAILING))),
    "responses, reasoning": ("/v1/responses", Events(response_events(FAILING, "reasoning_text"))),
    "a whole chat answer": (
        CHAT,
        page({"id": "c", "choices": [{"index": 0, "message": {"content": FAILING}}], "usage": USAGE}),
    ),
    "a whole completion": (
        "/v1/completions",
        page({"choices": [{"text": FAILING, "finish_reason": "stop"}]}),
    ),
    "a whole response": (
        "/v1/responses",
        page({"output": [{"content": [{"type": "output_text", "text": FAILING}]}], "status": "completed"}),
    ),
    "a whole chat answer that is a call": (
        CHAT,
        page({"choices": [{"index": 0, "message": {"content": None, "tool_calls": [call(FAILING)]}}]}),
    ),
    **{
        f"responses, {kind}": ("/v1/responses", Events(response_events(FAILING, kind)))
        for kind in (
            *("function_call_arguments", "mcp_call_arguments", "code_interpreter_call_code"),
            *("custom_tool_call_input", "reasoning_summary_text", "refusal"),
        )
    },
    "in parts": (CHAT, Events([*part_events(FAILING), DONE])),
    "an answer in parts": (
        CHAT,
        page({"choices": [{"index": 0, "message": {"content": [{"type": "text", "text": FAILING}]}}]}),
    ),
    "a whole response that is a call": (
        "/v1/responses",
        page({"output": [{"type": "function_call", "arguments": FAILING}], "status": "completed"}),
    ),
    "a call of a tool that takes text": (CHAT, Events([*custom_call_events(FAILING), DONE])),
    "a whole chat answer that is a call with text": (
        CHAT,
        page({"choices": [{"index": 0, "message": {"content": "I look.", "tool_calls": [custom(FAILING)]}}]}),
    ),
    "a call in the older form": (CHAT, Events([*delta_events(FAILING, "function_call"), DONE])),
    "a refusal": (CHAT, Events([*delta_events(FAILING, "refusal"), DONE])),
    "cut": (CHAT, Events(chat_events(FAILING)[:-5])),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
async def test_a_loop_is_counted_in_every_form(form: str) -> None:
    """Streamed or whole, on each of the three routes: symptom, onset and alarm are in series and log."""
    path, script = FORMS[form]
    async with guarded(script) as here:
        await here.ask(path)
        found = await here.judged(1)
    assert found[f"stresstest_guard_degenerate_total{{lab,{path},loop}}"] == 1
    assert found[f"stresstest_guard_requests_total{{lab,degenerate,{path}}}"] == 1
    (line,) = here.log
    assert line["symptom"] == "loop"
    scale = line["completion_tokens"] / len(words(FAILING))
    assert abs(line["onset"] / scale - (BEFORE + COPY + 1)) <= 12
    assert line["onset"] < line["alarm"] <= line["completion_tokens"]
    assert found[f"stresstest_guard_onset_tokens_sum{{lab,{path}}}"] == line["onset"]
    after = line["completion_tokens"] - line["onset"] + 1
    assert found[f"stresstest_guard_tokens_after_onset_total{{lab,{path}}}"] == after


async def test_each_choice_has_a_verdict_of_its_own() -> None:
    """n = 2: the interleaved chunks of a healthy choice are no part of the failing one."""
    first, second = chat_events(LONG, index=0), chat_events(FAILING, index=1)
    mixed = [event for pair in zip(first, second, strict=False) for event in pair]
    async with guarded(Events([*mixed, *first[len(second) :], *second[len(first) :], DONE])) as here:
        await here.ask(body={**ASK, "n": 2})
        found = await here.judged(1)
    (line,) = here.log
    assert line["id"] == "c#1"
    assert line["completion_tokens"] == len(words(FAILING))
    assert found[f"stresstest_guard_tokens_total{{lab,{CHAT}}}"] == len(words(FAILING)) + len(words(LONG))


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["!", " |", "}", "\n"])
@pytest.mark.parametrize("sizes", [(4,), (1, 3, 2), (50, 7)])
async def test_a_flood_is_seen_however_tokens_are_joined_to_events(sizes: tuple[int, ...], sign: str) -> None:
    """Speculative decoding sends one to k tokens a step, --stream-interval as many as it says: 3,000 "!" were
    healthy where every event counted as one token."""
    tokens = [LONG[n : n + 4] for n in range(0, 1200, 4)] + [sign] * 600
    starts = accumulate(chain([0], cycle(sizes)))
    joined = ["".join(tokens[a:b]) for a, b in pairwise(takewhile(lambda at: at < 950, starts))]
    events = sse(*(chunk(text) for text in joined), chunk(finish="length"), usage_only(9, 900))
    async with guarded(Events([*events, DONE])) as here:
        await here.ask()
        await here.judged(1)
    (line,) = here.log
    assert line["symptom"] in ("loop", "token flooding")
    assert line["onset"] <= 330


async def test_healthy_answers_are_counted_and_not_logged() -> None:
    """Unless every answer is to be logged, as a rate needs it."""
    for every in (False, True):
        async with guarded(Events([*chat_events(HEALTHY, finish="stop"), DONE]), every=every) as here:
            await here.ask()
            found = await here.judged(1)
        assert found[f"stresstest_guard_requests_total{{lab,healthy,{CHAT}}}"] == 1
        assert len(here.log) == every


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (Events([b"data: nonsense\n\n"]), "unread"),
        (page(["no answer"]), "unread"),
        (Page(b"x", headers={"content_encoding": "zstd"}), "unread"),
        (page({"error": {}}, 400), "upstream_error"),
    ],
    ids=str,
)
async def test_what_cannot_be_judged_is_counted_as_that(script: Any, outcome: str) -> None:
    """Never as healthy."""
    async with guarded(script) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,{outcome},{CHAT}}}"] == 1


FAILED = b'data: {"error": {"message": "EngineCore encountered an issue.", "code": 500}}\n\n'


async def test_an_answer_that_the_server_gives_up_is_not_healthy() -> None:
    """What vLLM sends in the middle of a stream when its engine dies. It was counted as a healthy answer, and
    its line had no mark, so that `scan` counted it as one too."""
    events = [*chat_events(HEALTHY, finish=None), FAILED, DONE]
    async with guarded(Events(events), every=True, text=True) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,upstream_error,{CHAT}}}"] == 1
    assert found["stresstest_guard_upstream_failures_total{error_event}"] == 1
    (line,) = here.log
    assert line["finish_reason"] == "error"


async def test_an_answer_whose_client_leaves_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """For `scan` it is lost, not a healthy answer of this length."""

    async def gone(*_: Any) -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    events = Events([*chat_events(HEALTHY, finish="stop"), DONE], pause=0.001)
    async with guarded(events, {"policy": "abort"}, every=True, text=True) as here:
        write, written = web.StreamResponse.write, 0

        async def gone_later(self: web.StreamResponse, data: bytes) -> None:
            nonlocal written
            written += 1
            await (write(self, data) if written < 20 else gone())

        monkeypatch.setattr(web.StreamResponse, "write", gone_later)
        with pytest.raises(aiohttp.ClientError):
            await here.ask()
        monkeypatch.undo()
        await here.judged(1)
    (line,) = here.log
    assert line["finish_reason"] == "abort"


@pytest.mark.parametrize("every", [True, False])
async def test_an_answer_that_nobody_waited_for_has_a_line(every: bool) -> None:
    """Of 400 requests with a client's timeout of 3 s, exactly the 158 loops were given up before the server
    had begun to answer. The log had no line of them: "0.00 %, Passed"."""
    async with guarded(Hang(), every=every, text=True) as here:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await here.ask(body={name: value for name, value in ASK.items() if name != "stream"})
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,client_gone,{CHAT}}}"] == 1
    assert [(line["finish_reason"], line["response"]) for line in here.log] == [("abort", "")] * every


async def test_an_answer_that_took_too_long_has_a_line() -> None:
    """By the guard's own time limit; one of a server that could not be reached has none: it was not asked."""
    async with guarded(Hang(), every=True, text=True, limits=GuardLimits(seconds=0.3, drain=1)) as here:
        await here.ask()
        await here.judged(1)
    (line,) = here.log
    assert (line["finish_reason"], line["response"]) == ("error", "")


GIVEN_UP = b"<html><head><title>504 Gateway Time-out</title></head></html>"


@pytest.mark.parametrize(
    ("script", "lost", "unseen"),
    [
        (Page(GIVEN_UP, 504, "text/html"), 1, 0),
        (page({"error": {"message": "EngineCore"}}, 500), 1, 0),
        (Page(b"x" * 2000, headers={"content_encoding": "gzip"}), 0, 1),
        (page(["no answer"]), 0, 1),
        (page({"error": {"message": "max_tokens is too large"}}, 400), 0, 0),
        (page({"error": {"message": "slow down"}}, 429), 0, 0),
    ],
    ids=["504", "500", "compressed", "no answer", "400", "429"],
)
async def test_scan_is_told_of_what_nobody_saw(script: Any, lost: int, unseen: int, tmp_path: Path) -> None:
    """nginx gives up what takes 60 s, and proxies compress what is long: of the loops no line told, and "0.00
    %, Passed" was the rate of the others. A request that is refused has no answer."""
    well = Events([*chat_events(HEALTHY, finish="stop"), DONE])
    async with guarded(well, every=True, text=True) as here:
        await here.ask()
        await here.judged(1)
        here.upstream.script = lambda _: script
        await here.ask()
        await here.judged(2)
    (tmp_path / "guard.jsonl").write_bytes(here.out.getvalue())
    done = called("scan", "guard.jsonl", "--json", "--workers", "1", "--lang", "en", tmp_path=tmp_path)
    (group,) = json.loads(done.stdout)["groups"]
    assert (group["requests"], group["lost"], group["unseen"]) == (1 + lost + unseen, lost, unseen)


async def test_an_answer_with_a_gateways_own_status_is_judged() -> None:
    """Portkey answers 246 where a guardrail has failed: what its gibberish check found had no line."""
    failing = page({"id": "c", "choices": [{"index": 0, "message": {"content": FAILING}}]}, 246)
    async with guarded(failing) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,degenerate,{CHAT}}}"] == 1


async def test_a_line_steers_neither_a_terminal_nor_a_ci_server() -> None:
    """Ids and texts are a server's, names of models a client's; stdout may be a terminal, or a CI's log."""
    steering = "a\x9b2J b\u202e ##vso[task.setvariable variable=X]y"
    said = page({"id": steering, "choices": [{"index": 0, "message": {"content": f"{steering} {FAILING}"}}]})
    async with guarded(said, text=True) as here:
        await here.ask(body={**ASK, "model": steering})
        await here.judged(1)
    written = here.out.getvalue().decode()
    assert not any(sign in written for sign in ("\x9b", "\u202e", "##vso["))
    (line,) = here.log
    assert line["id"] == line["model"] == steering
    assert line["response"].startswith(steering)


HALVES = [
    b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": "\\ud83d"}}]}\n\n',
    b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": "\\ude00"}}]}\n\n',
]
"""An emoji that a gateway in JavaScript has cut in two."""
NO_NUMBER = (
    b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": " a"}, "logprobs": {"content": '
    b'[{"token": " a", "logprob": NaN, "top_logprobs": [{"token": "NaN", "logprob": -Infinity}]}]}}]}\n\n'
)


@pytest.mark.parametrize("event", [HALVES, [NO_NUMBER]], ids=["halves of an emoji", "NaN"])
async def test_an_event_that_is_no_strict_json_ends_no_judging(event: list[bytes]) -> None:
    """A loop behind it passed, and was logged as a healthy answer."""
    events = chat_events(FAILING)
    events[BEFORE:BEFORE] = event
    async with guarded(Events([*events, DONE], pause=0.001), {"policy": "abort"}) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,degenerate,{CHAT}}}"] == 1
    assert here.log[0]["action"] == "abort"


async def test_an_answer_read_in_part_is_not_logged_as_a_whole_one(tmp_path: Path) -> None:
    """Nobody knows what followed, and a rate of what was read is no rate."""
    events = [*chat_events(HEALTHY, finish=None), b"data: nonsense\n\n", *chat_events(LOOP), DONE]
    async with guarded(Events(events), every=True, text=True) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,unread,{CHAT}}}"] == 1
    (record,) = parse_line(here.out.getvalue(), "f", 1, FieldMapping())
    assert record.text
    assert not record.has_text


@pytest.mark.parametrize("where", ["judge_long", "finish"])
async def test_an_answer_that_the_guard_fails_on_is_counted(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was counted nowhere, and the guard said that it was well: a model may not load."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("No space left on device")

    holder = AnswerReader if where == "judge_long" else ChoiceWatch
    monkeypatch.setattr(holder, where, fail)
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.append(str(context["exception"]))
    )
    async with guarded(Events([*chat_events(HEALTHY, finish="stop"), DONE])) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,unread,{CHAT}}}"] == 1
    assert told == ["OSError"]


PROMPT = {"model": "lab", "prompt": "Tell a story.", "max_tokens": 900, "stream": True}


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/chat/completions", CHAT),
        ("/engines/m/chat/completions/", CHAT),
        ("/openai/deployments/org/m/chat/completions", CHAT),
        ("/engines/m/completions", "/v1/completions"),
        ("/llm/openai/deployments/m/completions/", "/v1/completions"),
        ("/v1/responses", "/v1/responses"),
        ("/completions", None),
        ("/engines/completions", None),
        ("/api/completions", None),
        ("/responses", None),
    ],
)
def test_other_servers_paths_are_judged(path: str, route: str | None) -> None:
    """LiteLLM, llama.cpp and Azure have them, and whoever used one was not guarded. The bare `/completions`
    of llama.cpp has other answers."""
    assert judged_route("POST", path) == route


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "answer", "route"),
    [
        (f"{CHAT}/", ASK, chat_events(FAILING), CHAT),
        ("/v1//chat/./completions", ASK, chat_events(FAILING), CHAT),
        ("/invocations", ASK, chat_events(FAILING), CHAT),
        ("/invocations/", PROMPT, text_events(FAILING), "/v1/completions"),
    ],
    ids=["a trailing slash", "slashes to merge", "an invocation of a chat", "an invocation of a completion"],
)
async def test_other_paths_of_the_same_routes_are_judged(
    path: str, body: dict[str, Any], answer: list[bytes], route: str
) -> None:
    """As vLLM serves them: policies hold there too."""
    script = Events([*answer, DONE], pause=0.001)
    async with guarded(script, {"policy": "abort"}) as here:
        here.upstream.everything = script
        reply = await here.ask(path, body)
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,degenerate,{route}}}"] == 1
    assert reply.events[-1]["choices"][0]["stop_reason"] == "stresstest_guard:loop"


def unread(found: dict[str, float]) -> dict[str, float]:
    """Requests that passed unread, by route."""
    name = "stresstest_guard_requests_total{,unread,"
    return {key.removeprefix(name).rstrip("}"): n for key, n in found.items() if key.startswith(name)}


@pytest.mark.parametrize(
    ("path", "body", "route"),
    [
        ("/v1/messages", ASK, "/v1/messages"),
        ("/v1/messages/", ASK, "/v1/messages"),
        ("/v2/chat", {"system": "x" * 70_000, **ASK}, "other"),
        ("/generate", {"inputs": "Tell a story."}, "other"),
        ("/inference/v1/generate", {"token_ids": [1, 2], "sampling_params": {}}, "other"),
    ],
    ids=["Anthropic", "Anthropic with a slash", "an unknown chat", "TGI", "token ids"],
)
async def test_answers_on_other_paths_are_counted_as_unread(
    path: str, body: dict[str, Any], route: str
) -> None:
    """They pass as they are, and the series say that nobody looked at them."""
    async with guarded(page({"text": FAILING}), {"policy": "abort"}, every=True) as here:
        here.upstream.everything = page({"text": FAILING})
        assert (await here.ask(path, body)).json == {"text": FAILING}
        assert unread(await here.judged(1)) == {route: 1}
    assert not here.log


def test_a_models_name_steers_no_terminal() -> None:
    """Anybody may choose one, and `curl` shows the page of series."""
    metrics = GuardMetrics()
    metrics.requests.labels(metrics.model("a\x1b[2J\u202eb"), CHAT, "healthy").inc()
    page = metrics.page().decode()
    assert page.isascii()
    assert "\x1b" not in page
    assert metrics.model("org/Qwen-3 é") == "org/Qwen-3 é"
    assert metrics.model("sk-proj-abcdef1abcdef1abcdef1") == OTHER


async def test_requests_for_other_things_than_answers_are_not_counted() -> None:
    """A prompt that is tokenised or embedded, a count of tokens, an upload of lines: `unread` is an alert."""
    async with guarded(page({}), every=True) as here:
        here.upstream.everything = page({"data": []})
        others: dict[str, dict[str, Any]] = {
            "/tokenize": ASK,
            "/v1/messages/count_tokens": ASK,
            "/v1/embeddings": {"input": "a text", "messages": []},
            "/invocations": {"input": "a text"},
            "/v1/load_lora_adapter": {"lora_name": "prompt"},
        }
        for path, body in others.items():
            await here.ask(path, body)
        async with here.session.post(here.url + "/v1/files", data=b'--b\n{"messages": []}\n--b--') as reply:
            await reply.read()
        await here.ask()
        found = await here.judged(1)
    assert sum(n for name, n in found.items() if "requests_total" in name) == 1


async def test_an_error_on_an_unread_path_is_no_unread_answer() -> None:
    """A server without the route says 404."""
    async with guarded(page({})) as here:
        assert (await here.ask("/v1/messages")).status == 404
        found = await here.judged(1)
    assert found["stresstest_guard_requests_total{,upstream_error,/v1/messages}"] == 1


def test_a_prompt_is_found_in_a_body_that_comes_in_pieces() -> None:
    """The field may be cut anywhere, and a text that quotes it is none."""

    def found(body: bytes, size: int) -> bool:
        search = PromptSearch()
        for at in range(0, len(body), size):
            search.add(body[at : at + size])
        return search.found

    body = b'\xef\xbb\xbf {"model": "m", "x": "' + b"y" * 100 + b'", "messages": [{"role": "user"}]}'
    assert all(found(body, size) for size in (1, 7, 64, 1000))
    assert not found(json.dumps({"log": '{"messages": []}'}).encode(), 7)
    assert not found(b'[{"messages": []}]', 3)


async def test_neither_keys_nor_texts_are_in_log_or_series() -> None:
    """What a client sends to authenticate passes through; texts are logged only where they are asked for."""
    async with guarded(Events([*chat_events(FAILING), DONE])) as here:
        await here.ask(Authorization="Bearer sk-secret", Cookie="key=sk-secret")
        found = await here.judged(1)
        assert here.upstream.generations[0].headers["authorization"] == "Bearer sk-secret"
    written = here.out.getvalue().decode() + repr(found)
    assert "sk-secret" not in written
    assert "miller" not in written
    assert "story" not in written


@pytest.mark.parametrize("reasoning", [False, True])
async def test_scan_reads_the_log(tmp_path: Path, reasoning: bool) -> None:
    """With texts, the log is one more file of recorded answers; scan finds what the guard found, also in the
    reasoning."""
    async with guarded(Events([*chat_events(FAILING, reasoning=reasoning), DONE]), text=True) as here:
        await here.ask()
        await here.judged(1)
    (tmp_path / "guard.jsonl").write_bytes(here.out.getvalue())
    done = called("scan", "guard.jsonl", "--json", "--workers", "1", tmp_path=tmp_path)
    (group,) = json.loads(done.stdout)["groups"]
    assert (group["requests"], group["degenerate"]) == (1, 1)
    assert here.log[0]["messages"] == [{"role": "user", "content": "Tell a story."}]


async def test_the_log_keeps_who_said_what() -> None:
    """Turns put together would become one user's message in an export. A picture is kept as its hash; what is
    too long is kept as text, and marked."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2000}}
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "And this?"}, picture]},
    ]
    async with guarded(Events([*chat_events(FAILING), DONE]), text=True) as here:
        await here.ask(body={**ASK, "messages": turns, "tools": [{"type": "function"}]})
        await here.ask(body={**ASK, "messages": [{"role": "user", "content": "x " * 40_000}]})
        await here.judged(2)
    seen, long = here.log  # written by a thread, which the end waits for
    kept = seen["messages"][1]["content"][1]["image_url"]["url"]
    assert kept.startswith("data:sha256,")
    assert len(kept) < 100
    assert seen["tool_calls"]  # offered, and the answer does not say that it called none
    (record,) = parse_line(json.dumps(seen).encode(), "f", 1, FieldMapping())
    assert (record.calls, record.whole_prompt) == (True, False)
    (flat,) = parse_line(json.dumps(long).encode(), "f", 1, FieldMapping())
    assert (flat.calls, flat.whole_prompt, flat.messages) == (False, False, ())


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://u:SECRET@h/y?sig=SECRET"}},
        {"type": "image_url", "image_url": "https://h/y?X-Amz-Signature=SECRET"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,SECRET"}},
        {"type": "input_audio", "input_audio": {"data": "SECRET", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,SECRET"}},
        {"type": "image", "source": {"type": "base64", "data": "SECRET"}},
    ],
)
async def test_the_log_keeps_no_address_of_a_picture(part: dict[str, Any]) -> None:
    """Addresses may be signed, and data short: neither is text of the prompt."""
    turns = [{"role": "user", "content": [{"type": "text", "text": "And this?"}, part]}]
    async with guarded(Events([*chat_events(FAILING), DONE]), text=True) as here:
        await here.ask(body={**ASK, "messages": turns})
        await here.judged(1)
    (line,) = here.log
    assert "And this?" in json.dumps(line)
    assert "SECRET" not in json.dumps(line)


@pytest.mark.parametrize("text", ["", "Done."])
@pytest.mark.parametrize(("counted", "outcome"), [(1500, "unread"), (20, "healthy")])
async def test_an_answer_without_text_is_not_called_healthy(
    tmp_path: Path, counted: int, outcome: str, text: str
) -> None:
    """The server counts tokens that it does not send: the log has its count, and `scan` can read the line."""
    events = sse(chunk(text, role="assistant"), chunk(finish="length"), usage_only(9, counted))
    async with guarded(Events([*events, DONE]), every=True, text=True) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,{outcome},{CHAT}}}"] == 1
    judged = 0 if not text else 1 if outcome == "unread" else counted
    assert found.get(f"stresstest_guard_tokens_total{{lab,{CHAT}}}", 0) == judged
    (line,) = here.log
    assert (line["response"], line["completion_tokens"]) == (text, counted)
    (tmp_path / "guard.jsonl").write_bytes(here.out.getvalue())
    done = called("scan", "guard.jsonl", "--json", "--workers", "1", tmp_path=tmp_path)
    assert json.loads(done.stdout)["damaged"] == 0


def test_made_up_model_names_make_no_series_without_end() -> None:
    """Labels come from requests, and anybody may invent names."""
    metrics = GuardMetrics()
    labels = {metrics.model(f"m{i}") for i in range(10 * MAX_MODELS)}
    assert len(labels) == MAX_MODELS + 1


def test_the_upstreams_series_are_repeated_by_name() -> None:
    """With their types, and nothing whose name only begins alike."""
    page = (
        b'# HELP vllm:a x\n# TYPE vllm:a gauge\nvllm:a{m="x"} 1\nvllm:ab 2\n'
        b'# TYPE vllm:h histogram\nvllm:h_bucket{le="1"} 1\nvllm:h_sum 3\n'
    )
    assert named_series(page, ["vllm:a", "vllm:h"]) == page.replace(b"vllm:ab 2\n", b"")
    assert named_series(b"x vllm:a 1\nvllm.a 1\nvllm:a 2", ["vllm:a"]) == b"vllm:a 2"


async def test_an_answer_of_which_nothing_is_known_is_not_called_healthy() -> None:
    """Its pieces come under a name of the server's own, and nobody counts them."""
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": {"musing": word}}]} for word in words(FAILING)]
    async with guarded(Events([*sse(*chunks), *sse(chunk(finish="stop")), DONE])) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,unread,{CHAT}}}"] == 1


def _with_ids(pieces: list[str], finish: str = "length") -> list[bytes]:
    """A streamed answer of one token an event, with its id, as vLLM sends it where ids are asked for."""
    events = [chunk(piece, finish=finish if i == len(pieces) else None) for i, piece in enumerate(pieces, 1)]
    for number, event in enumerate(events):
        event["choices"][0]["token_ids"] = [number]
    return sse(*events)


@pytest.mark.parametrize(
    "script",
    [
        Events([*_with_ids(words(LONG)[:200] + [""] * 200), *sse(usage_only(9, 400)), DONE]),
        Events([*_with_ids(words(LONG)[:200] + [""] * 200), DONE]),
        page(
            {
                "choices": [{"index": 0, "message": {"content": " ".join(words(LONG)[:200])}}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 1000},
            }
        ),
    ],
    ids=["counted", "with ids alone", "whole"],
)
async def test_an_answer_that_ends_in_padding_is_not_called_healthy(tmp_path: Path, script: Any) -> None:
    """Tokens without text after half of the answer: nobody knows what they were, and `scan` does not take the
    line for a whole answer either."""
    async with guarded(script, every=True, text=True) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,unread,{CHAT}}}"] == 1
    (tmp_path / "guard.jsonl").write_bytes(here.out.getvalue())
    done = called("scan", "guard.jsonl", "--json", "--workers", "1", tmp_path=tmp_path)
    assert json.loads(done.stdout)["groups"][0]["unseen"] == 1


@pytest.mark.parametrize("whole", [True, False])
async def test_calls_of_tools_have_tokens_beside_their_arguments(whole: bool) -> None:
    """Names and signs of ten calls are tokens that no text shows: the answer is healthy all the same."""
    calls = [
        {"index": k, "function": {"name": "search_the_web", "arguments": f'{{"q": "{k}"}}'}}
        for k in range(10)
    ]
    usage = {"prompt_tokens": 9, "completion_tokens": 300}
    said = {"index": 0, "finish_reason": "tool_calls"}
    body = page({"choices": [{**said, "message": {"content": None, "tool_calls": calls}}], "usage": usage})
    events = sse({"choices": [{**said, "delta": {"tool_calls": calls}}]}, usage_only(9, 300))
    async with guarded(body if whole else Events([*events, DONE])) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,healthy,{CHAT}}}"] == 1


@pytest.mark.parametrize(("finish", "outcome"), [("stop", "unread"), ("length", "healthy")])
async def test_nothing_but_reasoning_is_no_healthy_answer(finish: str, outcome: str) -> None:
    """A parser that takes the whole answer for reasoning: nobody watches its language."""
    async with guarded(Events([*chat_events(LONG, reasoning=True, finish=finish), DONE])) as here:
        await here.ask()
        found = await here.judged(1)
    assert found[f"stresstest_guard_requests_total{{lab,{outcome},{CHAT}}}"] == 1


async def test_a_backlog_is_shown_and_further_requests_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that had passed waited for half a minute to be judged, and whoever killed the guard lost
    them."""
    monkeypatch.setattr(guard_exchange, "MAX_WAITING", 2)
    whole, stands = AnswerWatch.step, True

    def step(self: AnswerWatch) -> bool:
        return True if stands else whole(self)

    monkeypatch.setattr(AnswerWatch, "step", step)
    async with guarded(Events([*chat_events(HEALTHY), DONE]), every=True) as here:
        for _ in range(2):
            await here.ask()
        found = await here.series()
        while found["stresstest_guard_answers_waiting"] < 2:
            found = await here.series()
        third = asyncio.create_task(here.ask())
        while (await here.series())["stresstest_guard_in_flight"] < 1:
            await asyncio.sleep(0)
        for _ in range(20):
            await here.series()
        assert not third.done()
        assert len(here.upstream.generations) == 2
        stands = False
        assert (await third).status == 200
        found = await here.judged(3)
    assert found["stresstest_guard_answers_waiting"] == 0
    assert len(here.log) == 3
