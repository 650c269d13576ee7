"""The simulated server: its streams, its faults, slow and leaving clients, and the command that starts it."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import urllib.error
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.scenario.distribution import FixedDistribution
from stresstest.simulation.engine.scenario.spec import Hazard, ModelSpec, Scenario
from stresstest.simulation.engine.schema import SchemaError, json_text
from stresstest.simulation.server.chunks import TextStream
from stresstest.simulation.server.start import RunningServer, serve_scenario
from stresstest.telemetry.prometheus import parse_metrics
from tests.support.commands import called, clean_environment, command
from tests.support.forking import ForkedProcess, start
from tests.support.simulated_servers import post, served

ASK: dict[str, Any] = {
    "model": "any",
    "messages": [{"role": "user", "content": "Scrivi una storia in 40 paragrafi numerati."}],
    "max_tokens": 120,
    "seed": 3,
    "stream": True,
    "logprobs": True,
    "top_logprobs": 20,
    "return_token_ids": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}
HEALTHY = Scenario("test", "nothing fails", model=ModelSpec(max_model_len=16_384))
EVENT = "data: "
LOOPS = """
name = "loops"
summary = "Loops at about token 120"
[model]
max_model_len = 2_048
[[hazard]]
symptom = "loop"
plane = "decoding"
onset = { distribution = "lognormal", median = 120, sigma = 0.25 }
"""


def failing(symptom: str, at: float = 20, **more: Any) -> Scenario:
    """Every generation fails in this way at one token."""
    return Scenario("test", "x", hazards=(Hazard(symptom, onset=FixedDistribution(at), **more),))


@asynccontextmanager
async def client(
    scenario: Scenario, speed: float = 0
) -> AsyncIterator[tuple[aiohttp.ClientSession, RunningServer]]:
    async with (
        serve_scenario(scenario, speed=speed) as running,
        aiohttp.ClientSession(running.base_url + "/") as session,
    ):
        yield session, running


async def streamed(session: aiohttp.ClientSession, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of a whole stream."""
    async with session.post("chat/completions", json=body) as answer:
        lines = (await answer.text()).split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix(EVENT)) for line in lines[:-2]]


def content(chunks: Sequence[dict[str, Any]]) -> str:
    return "".join(c["choices"][0]["delta"]["content"] for c in chunks if c["choices"])


async def until(condition: Any) -> None:
    """Wait for the server to have done something; fails after a minute."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_stream_ids_counts_and_whole_answer_tell_one_story() -> None:
    """What is streamed, what the ids decode to, what usage counts and the unstreamed answer are the same."""
    async with client(HEALTHY) as (session, _):
        chunks = await streamed(session, ASK)
        async with session.post(
            "chat/completions", json={**ASK, "stream": False, "stream_options": None}
        ) as answer:
            whole = await answer.json()
        again = await streamed(session, ASK)
        other = await streamed(session, {**ASK, "seed": 4})
    tokens = [c for c in chunks[1:] if c["choices"]]
    ids = [i for c in tokens for i in c["choices"][0]["token_ids"]]
    assert content(chunks) == whole["choices"][0]["message"]["content"] == vocabulary.decode(ids)
    assert [c["usage"]["completion_tokens"] for c in tokens] == list(range(1, 121))
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == 120
    assert whole["choices"][0]["token_ids"] == ids
    assert content(again) == content(chunks) != content(other)


async def test_logprobs_show_the_emitted_token_first_among_twenty() -> None:
    """vLLM's order: the emitted token, then the others by rank; masses add up to at most one."""
    async with client(HEALTHY) as (session, _):
        chunks = await streamed(session, ASK)
    for chunk in chunks[1:-1]:
        (entry,) = chunk["choices"][0]["logprobs"]["content"]
        tops = entry["top_logprobs"]
        assert (tops[0]["token"], tops[0]["logprob"]) == (entry["token"], entry["logprob"])
        assert len(tops) == 20
        rest = [top["logprob"] for top in tops[1:]]
        assert rest == sorted(rest, reverse=True)
        assert sum(2.718281828 ** top["logprob"] for top in tops) < 1.0001


async def test_a_character_of_several_tokens_comes_when_it_is_complete() -> None:
    """As vLLM: empty deltas while bytes are missing, then the character; never a replacement character."""
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "aé鶴𝄞b"}}}
    async with client(HEALTHY) as (session, _):
        chunks = await streamed(session, {**ASK, "response_format": schema})
    deltas = [c["choices"][0]["delta"]["content"] for c in chunks[1:] if c["choices"]]
    assert json.loads("".join(deltas)) == "aé鶴𝄞b"
    assert [d for d in deltas if len(d.encode()) >= 3] == ["鶴", "𝄞"]
    assert deltas[deltas.index("𝄞") - 3 : deltas.index("𝄞")] == ["", "", ""]


async def test_a_stop_string_is_neither_streamed_nor_half_streamed() -> None:
    """A client that shows deltas as they come must never show the beginning of a stop string."""
    async with client(HEALTHY) as (session, _):
        text = content(await streamed(session, ASK))
        stop = text[60:75]
        chunks = await streamed(session, {**ASK, "stop": [stop, "never"]})
        kept = await streamed(session, {**ASK, "stop": stop, "include_stop_str_in_output": True})
    assert content(chunks) == text[: text.index(stop)]
    assert content(kept) == text[: text.index(stop) + len(stop)]
    (last,) = chunks[-2]["choices"]
    assert (last["finish_reason"], last["stop_reason"]) == ("stop", stop)


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=60), hold=st.integers(1, 8))
def test_holding_back_loses_no_text(text: str, hold: int) -> None:
    """Whatever the tokens and however long the stop string, what was sent plus what is held is the text."""
    text = text.encode("utf-8", "ignore").decode()
    flow = TextStream(["x" * hold], kept=False)
    sent = [flow.add_token(i)[0] for i in vocabulary.encode(text)]
    assert text.startswith("".join(sent))
    assert len(text) - len("".join(sent)) <= hold - 1


async def test_a_cut_connection_keeps_what_arrived_and_has_no_end() -> None:
    """The disconnect hazard is what a client sees of a crashed server: tokens, then nothing, no [DONE]."""
    async with client(failing("disconnect")) as (session, running):
        received = b""
        with pytest.raises(aiohttp.ClientPayloadError):
            async with session.post("chat/completions", json=ASK) as answer:
                async for data in answer.content.iter_any():
                    received += data
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.post("chat/completions", json={**ASK, "stream": False, "stream_options": None})
        await until(lambda: running.engine.idle)
    assert received.count(b'"delta":') == 1 + 20
    assert b"[DONE]" not in received


async def test_a_stalled_stream_goes_silent_while_others_go_on() -> None:
    """The stall hazard stops one connection's bytes, not the engine; hanging up ends it."""
    stalled = Hazard("stall", onset=FixedDistribution(20), requires=(), seconds=60.0)
    async with client(Scenario("test", "x", hazards=(stalled,))) as (session, running):
        async with session.post("chat/completions", json=ASK) as answer:
            seen = 0
            while seen < 21:
                seen += (await answer.content.readuntil(b"\n\n")).count(b'"delta":')
            async with session.post("chat/completions", json={**ASK, "max_tokens": 5}) as short:
                assert b"[DONE]" in await short.read()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(answer.content.readany(), 0.2)
        await until(lambda: running.engine.idle)


async def test_a_stall_that_ends_loses_nothing() -> None:
    """After the silence the rest of the answer comes, in order."""
    async with client(failing("stall", seconds=0.05)) as (session, _):
        after = await streamed(session, ASK)
    async with client(HEALTHY) as (session, _):
        assert content(await streamed(session, ASK)) == content(after)


async def test_a_simulated_500_has_vllms_error_body() -> None:
    """A server error is an HTTP status and an error object, before any stream begins."""
    async with (
        client(failing("http_500")) as (session, _),
        session.post("chat/completions", json=ASK) as answer,
    ):
        assert answer.status == 500
        error = (await answer.json())["error"]
    assert (error["type"], error["code"], error["param"]) == ("InternalServerError", 500, None)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (json.dumps({**ASK, "n": 10**12}), {}),
        (json.dumps(ASK)[:-1] + f', "top_k": {"9" * 5000}}}', {}),
        ("\x1f\x8b\x08 no gzip", {"Content-Encoding": "gzip"}),
    ],
    ids=["a trillion choices", "a number of 5,000 digits", "not gzip"],
)
async def test_a_hostile_body_is_refused_and_the_next_one_answered(
    body: str, headers: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Each of a few bytes: one took all memory and outlived two Ctrl-C, the others printed a traceback."""
    headers = {"Content-Type": "application/json", **headers}
    async with client(HEALTHY) as (session, _):
        async with session.post("chat/completions", data=body.encode(), headers=headers) as answer:
            assert answer.status == 400
            assert (await answer.json())["error"]["code"] == 400
        async with session.post(
            "chat/completions", json={**ASK, "stream": False, "stream_options": None}
        ) as answer:
            assert answer.status == 200
    assert "Traceback" not in capfd.readouterr().err


async def test_a_client_that_leaves_takes_its_sequence_along() -> None:
    """An aborted request frees its place in the batch and counts as aborted, as in vLLM."""
    long = {**ASK, "max_tokens": 16_000, "ignore_eos": True}
    async with client(HEALTHY) as (session, running):
        async with session.post("chat/completions", json=long) as answer:
            await answer.content.readuntil(b"\n\n")
        await until(lambda: running.engine.idle)
        assert running.engine.stats.finished == {"abort": 1}
        async with session.get(running.base_url.removesuffix("/v1") + "/metrics") as page:
            sample = parse_metrics(await page.text())
    assert sample is not None
    assert (sample.running, sample.finished["abort"]) == (0, 1)


@pytest.mark.slow
async def test_a_client_that_does_not_read_holds_up_nobody() -> None:
    """Backpressure stays on its own connection: another answer comes to its end meanwhile."""
    async with client(HEALTHY) as (session, running):
        long = {**ASK, "max_tokens": 16_000, "ignore_eos": True}
        async with session.post("chat/completions", json=long) as answer:
            await answer.content.readuntil(b"\n\n")
            chunks = await streamed(session, ASK)
            assert chunks[-1]["usage"]["completion_tokens"] == 120
            rest = await answer.content.read()
        await until(lambda: running.engine.idle)
    assert rest.count(b'"delta":') >= 16_000
    assert rest.endswith(b"data: [DONE]\n\n")


async def test_metrics_count_what_was_answered() -> None:
    """/metrics and the answers agree, read by the product's own parser."""
    async with client(HEALTHY) as (session, running):
        whole = [await streamed(session, {**ASK, "seed": n}) for n in range(3)]
        async with session.get(running.base_url.removesuffix("/v1") + "/metrics") as page:
            sample = parse_metrics(await page.text())
    assert sample is not None
    assert sample.generation_tokens == 360
    assert sample.prompt_tokens == sum(chunks[-1]["usage"]["prompt_tokens"] for chunks in whole)
    assert sample.finished["length"] == 3
    assert sample.histograms["time_to_first_token_seconds"][1] == 3
    assert sample.histograms["inter_token_latency_seconds"][1] == 3 * 119
    assert sample.histograms["e2e_request_latency_seconds"][0] > 0


async def test_paced_answers_take_the_engines_time() -> None:
    """At a finite speed an answer takes no less than its steps: latencies mean something."""
    async with client(HEALTHY, speed=20) as (session, running):
        began = time.monotonic()
        await streamed(session, {**ASK, "max_tokens": 40})
        took = time.monotonic() - began
        assert took >= 40 * running.engine.scenario.engine.step_ms.base / 1000 / 20


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 8, "maxLength": 9},
        "age": {"type": "integer", "minimum": 18, "exclusiveMaximum": 21},
        "kind": {"enum": ["a", "b"]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3},
        "child": {"$ref": "#"},
        "size": {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "null"}]},
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": False,
}


def fits(value: Any) -> bool:
    """Whether a value matches SCHEMA."""
    size = value.get("size")
    return (
        set(SCHEMA["required"]) <= set(value) <= set(SCHEMA["properties"])
        and 8 <= len(value["name"]) <= 9
        and value["age"] in (18, 19, 20)
        and value["kind"] in ("a", "b")
        and 2 <= len(value["tags"]) <= 3
        and all(isinstance(tag, str) for tag in value["tags"])
        and (size is None or 0 <= size <= 1)
        and ("child" not in value or fits(value["child"]))
    )


@given(seed=st.integers(0, 10_000))
def test_json_by_schema_matches_it(seed: int) -> None:
    """`response_format` json_schema must give JSON that a client's validation accepts, for every seed."""
    assert fits(json.loads(json_text(SCHEMA, seed)))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "a+"},
        {"$ref": "https://example.org/x"},
        {"$ref": "#"},
        {"minimum": 2, "maximum": 1},
        {"minLength": 10**12},
        {"type": "object", "minProperties": 10**12},
        {"type": "array", "minItems": 10**6, "items": {"type": "array", "minItems": 10**6}},
        {
            "type": "array",
            "minItems": 60,
            "items": {"type": "array", "minItems": 60, "items": {"minLength": 99}},
        },
        {"minLength": "long"},
        {"type": "object", "properties": [1]},
    ],
)
def test_a_schema_that_is_not_simulated_is_refused(schema: dict[str, Any]) -> None:
    """Better no answer than one that does not match, or none within a minute."""
    with pytest.raises(SchemaError):
        json_text(schema, 1)


def test_what_is_not_simulated_is_refused_by_name() -> None:
    """An answer that ignored `tools` would look like one of a model that did not want any."""
    with served(HEALTHY) as running, pytest.raises(urllib.error.HTTPError) as refused:
        post(
            running.base_url,
            "/chat/completions",
            {**ASK, "stream": False, "stream_options": None, "tools": [{}]},
        )
    assert refused.value.code == 400
    assert json.loads(refused.value.read())["error"]["param"] == "tools"


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[tuple[str, ForkedProcess]]:
    """`stresstest sim` on a free port, as a user starts it: (base URL, process)."""
    (tmp_path / "loops.toml").write_text(LOOPS, encoding="utf-8")
    words = ("sim", "--scenario", "./loops.toml", "--port", "0", "--speed", "max")
    process = start(*words, env=clean_environment(tmp_path), cwd=tmp_path)
    assert process.stderr is not None
    line = process.stderr.readline()
    try:
        yield next(word for word in line.split() if word.startswith("http")), process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.simulated
def test_run_finds_the_simulated_threshold_and_says_that_it_is_simulated(
    simulator: tuple[str, ForkedProcess], tmp_path: Path
) -> None:
    """The whole product against a known truth: onsets are lognormal around 120 tokens with sigma 0.25, of
    which a tenth comes before 87. Then Ctrl-C ends the simulator with exit code 0."""
    base_url, process = simulator
    options = ["--base-url", base_url, "--model", "sim", "--lang", "it", "--rigor", "quick", "--json"]
    options += ["--horizon", "400"]
    done = called("--display", "none", "run", *options, tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["simulated"] is True
    assert found["threshold"]["certified"]
    assert 53 <= found["threshold"]["tokens"] <= 107
    assert found["symptoms"]["loop"] >= 25
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0


@pytest.mark.slow
def test_a_taken_port_is_one_sentence_and_exit_code_2(
    simulator: tuple[str, ForkedProcess], tmp_path: Path
) -> None:
    """The commonest mistake with a server must not end in a traceback."""
    port = simulator[0].rsplit(":", 1)[1].split("/")[0]
    done = called("sim", "--scenario", "healthy", "--port", port, tmp_path=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Port {port} on 127.0.0.1 is in use" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--scenario is missing"),
        (("--scenario", "nonesuch"), "healthy"),
        (("--scenario", "healthy", "--speed", "fast"), "'fast'"),
        (("--scenario", "healthy", "--json"), "--list"),
    ],
)
def test_bad_options_are_one_sentence(args: tuple[str, ...], said: str) -> None:
    """Each mistake names what is wrong and ends with exit code 2."""
    code, _, err = command("sim", *args)
    assert code == 2
    assert said in err


def test_the_list_names_every_scenario_once(capsys: pytest.CaptureFixture[str]) -> None:
    """`--list --json` is what a script chooses from."""
    from stresstest.features.sim.command import _list
    from stresstest.simulation.engine.scenario.file import shipped_scenarios

    _list(as_json=True)
    listed = [row["name"] for row in json.loads(capsys.readouterr().out)["scenarios"]]
    assert listed == [scenario.name for scenario in shipped_scenarios()]
