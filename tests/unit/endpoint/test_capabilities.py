"""What an endpoint can do is asked once, in a way that plain servers survive."""

from __future__ import annotations

import threading

import pytest
import tiktoken

from stresstest.endpoint import counting
from stresstest.endpoint.capabilities import profile_endpoint
from stresstest.endpoint.client import Endpoint
from stresstest.endpoint.counting import count_tokens, estimate_tokens
from stresstest.errors import EndpointError
from stresstest.model import Message
from tests.support.deaf_port import deaf_port
from tests.support.fake_vllm import (
    DONE,
    Answer,
    Asked,
    Events,
    Page,
    answer,
    chunk,
    entry,
    fake_vllm,
    page,
    refuse_fields,
    sse,
)
from tests.support.paths import DATA


def healthy(asked: Asked) -> Answer:
    """vLLM with raw logprobs: the temperature changes nothing in them."""
    return Events(answer(["Ciao", "!"]))


def plain(asked: Asked) -> Answer:
    """An OpenAI-compatible server that refuses every field it does not know."""
    refused = refuse_fields("return_token_ids", "stream_options")(asked)
    if refused is not None:
        return refused
    wanted = (asked.body or {}).get("top_logprobs", 0)
    if wanted > 5:
        return page({"error": {"message": "top_logprobs must be at most 5"}}, 400)
    entries = [entry("Ciao", top=wanted)] if wanted else None
    return Events([*sse(chunk("Ciao", entries=entries), chunk("", finish="stop")), DONE])


async def test_vllm_is_known_whole() -> None:
    """Version, context, cache size, metrics, tokenizer, ids and logprobs of a real vLLM are found."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        found = await profile_endpoint(endpoint, None)
        assert endpoint.model == "lab"
    assert found.base_url == server.url
    assert (found.model, found.version, found.max_model_len, found.root) == (
        "lab",
        "0.32.0",
        4096,
        "lab-root",
    )
    assert (found.metrics, found.tokenize, found.token_ids, found.top_logprobs) == (True, True, True, 20)
    assert found.kv_cache_tokens == 21824
    assert found.logprobs_mode == "raw_logprobs"
    assert not found.simulated
    assert found.missing == ()


async def test_processed_logprobs_are_told_apart() -> None:
    """Logprobs that move with the temperature are processed ones: entropies mean something else then."""

    def processed(asked: Asked) -> Answer:
        p = 0.5 if asked.body.get("temperature", 1.0) == 1.0 else 0.8
        return Events([*sse(chunk("a", ids=[1], entries=[entry("a", p=p)], finish="stop")), DONE])

    async with fake_vllm(processed) as server, Endpoint(server.url) as endpoint:
        assert (await profile_endpoint(endpoint, "lab")).logprobs_mode == "processed_logprobs"


async def test_a_plain_server_is_used_with_what_it_has() -> None:
    """Unknown fields are left out one by one; what is missing is said with its cost; the run can go on."""
    async with fake_vllm(plain) as server:
        for path in ("/version", "/tokenize", "/metrics"):
            del server.pages[path]
        server.pages["/v1/models"] = page({"data": [{"id": "other"}]})
        async with Endpoint(server.url) as endpoint:
            found = await profile_endpoint(endpoint, None)
            assert endpoint.features.top_logprobs == 5
            assert not endpoint.features.usage
    assert (found.metrics, found.tokenize, found.token_ids, found.top_logprobs) == (False, False, False, 5)
    missing = {gap.what for gap in found.missing}
    assert {"vLLM's /metrics", "/tokenize", "token ids", "the model's context length"} <= missing
    assert all(gap.cost for gap in found.missing)


async def test_logprobs_that_nobody_wants_are_neither_requested_nor_missing() -> None:
    """--no-logprobs spares the server their work: no request asks for them, and no gap is reported."""
    for answering in (healthy, plain):
        async with fake_vllm(answering) as server, Endpoint(server.url, logprobs=False) as endpoint:
            found = await profile_endpoint(endpoint, "lab")
            assert server.generations
            asked = [g.body for g in server.generations]
            assert not any("logprobs" in body or "top_logprobs" in body for body in asked)
        assert (found.top_logprobs, found.logprobs_mode) == (0, None)
        assert "logprobs" not in {gap.what for gap in found.missing}


async def test_running_counts_that_the_last_one_contradicts_are_not_believed() -> None:
    """Counted twice while it streams, and once at its end: T was twice as long as it should have been."""
    usage = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
    parts = sse(chunk("a", usage=(4, 2)), chunk("b", usage=(4, 4), finish="stop"), usage)
    async with fake_vllm(Events([*parts, DONE])) as server, Endpoint(server.url) as endpoint:
        found = await profile_endpoint(endpoint, "lab")
        assert (endpoint.features.usage, endpoint.features.running_usage) == (True, False)
    assert {"token ids", "logprobs"} <= {gap.what for gap in found.missing}


async def test_fields_that_are_ignored_are_not_believed() -> None:
    """A server that answers 200 and leaves the measuring fields out does not have them."""
    silent = Events([*sse(chunk("a"), chunk("b", finish="stop")), DONE])
    async with fake_vllm(silent) as server, Endpoint(server.url) as endpoint:
        found = await profile_endpoint(endpoint, "lab")
        assert not endpoint.features.running_usage
    assert (found.token_ids, found.top_logprobs, found.logprobs_mode) == (False, 0, None)
    assert "token counts while streaming" in {gap.what for gap in found.missing}


async def test_a_base_model_without_chat_template() -> None:
    """Where messages are refused the plain prompt is probed, and the gap is told."""

    def base(asked: Asked) -> Answer:
        if asked.path.endswith("/chat/completions"):
            return page({"error": {"message": "no chat template"}}, 400)
        choice = {"index": 0, "text": "a", "token_ids": [1], "finish_reason": "length"}
        return Events([*sse({"choices": [choice]}), DONE])

    async with fake_vllm(base) as server, Endpoint(server.url) as endpoint:
        found = await profile_endpoint(endpoint, "lab")
    assert found.token_ids
    assert "chat messages" in {gap.what for gap in found.missing}


async def test_the_model_must_be_served() -> None:
    """An unknown model ends here, with the names that are served."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        with pytest.raises(EndpointError, match="does not serve 'lob'; it serves: lab"):
            await profile_endpoint(endpoint, "lob")
        assert server.generations == []


async def test_one_of_several_models_must_be_chosen() -> None:
    """Nothing is guessed between two base models; adapters of a single base are no choice to make."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        server.pages["/v1/models"] = page({"data": [{"id": "a"}, {"id": "b"}]})
        with pytest.raises(EndpointError, match="several models: a, b"):
            await profile_endpoint(endpoint, None)
        server.pages["/v1/models"] = page({"data": [{"id": "a"}, {"id": "ad", "parent": "a"}]})
        assert (await profile_endpoint(endpoint, None)).model == "a"


async def test_the_simulator_is_recognised_and_answers_to_any_name() -> None:
    """Simulated numbers must never pass for a model's; nor those of what is served for another name's."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        server.pages["/version"] = page({"version": "0.32.0+stresstest-sim"})
        found = await profile_endpoint(endpoint, "anything")
        served = await profile_endpoint(endpoint, "lab")
    assert (found.simulated, found.model, found.max_model_len) == (True, "anything", 4096)
    [gap] = found.missing
    assert gap.what == "a model named 'anything'"
    assert (
        gap.cost == "the server lists 'lab' and answers to any name, so the answers are probably of that one"
    )
    assert (served.model, served.missing) == ("lab", ())


async def test_a_server_without_a_list_cannot_be_checked() -> None:
    """It may answer to any name: a mistyped one would be measured, so that this is told at the start."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        for listing in (page({"data": []}), page({"error": "no such page"}, 404)):
            server.pages["/v1/models"] = listing
            found = await profile_endpoint(endpoint, "wrong")
            assert found.model == "wrong"
            assert "a list of the models" in {gap.what for gap in found.missing}


async def test_a_bare_list_of_models_is_read() -> None:
    """As Together's API gives it."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        server.pages["/v1/models"] = page([{"id": "lab", "context_length": 4096}])
        assert (await profile_endpoint(endpoint, None)).model == "lab"


async def test_a_server_that_is_no_api() -> None:
    """A web page for the model list is a wrong address, said in words."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        server.pages["/v1/models"] = Page(b"<html>hi</html>", content_type="text/html")
        with pytest.raises(EndpointError, match="web page") as caught:
            await profile_endpoint(endpoint, "lab")
    assert caught.value.hint is not None


async def test_nobody_there() -> None:
    """A refused connection is told at the first question."""
    with deaf_port() as port:
        async with Endpoint(f"http://127.0.0.1:{port}/v1") as endpoint:
            with pytest.raises(EndpointError, match="refused the connection"):
                await profile_endpoint(endpoint, "lab")


async def test_a_server_that_cannot_generate() -> None:
    """Listing models is not serving them: a failing probe ends before anything is measured."""
    dead = page({"error": {"message": "engine dead"}}, 500)
    async with fake_vllm(dead) as server, Endpoint(server.url) as endpoint:
        with pytest.raises(EndpointError, match="engine dead"):
            await profile_endpoint(endpoint, "lab")


async def test_prompt_tokens_are_counted_by_the_server() -> None:
    """/tokenize counts with the chat template; without it the answer is 'not measured', not 0."""
    messages = (Message("user", "Ciao"),)
    async with fake_vllm(healthy) as server, Endpoint(server.url, model="lab") as endpoint:
        assert await count_tokens(endpoint, messages) == 5
        assert server.asked[-1].body["messages"] == [{"role": "user", "content": "Ciao"}]
        del server.pages["/tokenize"]
        assert await count_tokens(endpoint, messages) is None


async def test_the_cache_size_of_older_servers() -> None:
    """Blocks times block size, where the size in tokens is not exported."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        text = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="100",sliding_window="None"} 1.0\n'
        server.pages["/metrics"] = Page(text, content_type="text/plain")
        assert (await profile_endpoint(endpoint, "lab")).kv_cache_tokens == 1600


async def test_vllm_on_the_cpu_is_told_from_one_on_a_gpu() -> None:
    """By the labels of a page that a real vLLM on the CPU has shown; a seed may end such a server."""
    for name, expected in (("metrics_vllm_0_32_recorded.txt", True), ("metrics_vllm_0_32.txt", False)):
        async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
            server.pages["/metrics"] = Page((DATA / name).read_bytes(), content_type="text/plain")
            assert (await profile_endpoint(endpoint, "lab")).on_cpu is expected
            assert bool(endpoint.likely_death) is expected


async def test_tables_that_never_arrive_keep_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy took the connection of tiktoken's download and said nothing: `run` measured everything and
    never printed it, since the event loop waits for the threads of its pool, as the interpreter does."""
    waiting: list[threading.Thread] = []
    released = threading.Event()

    def download(text: str) -> int:
        waiting.append(threading.current_thread())
        released.wait(60)
        return 1

    monkeypatch.setattr(counting, "_tiktoken", download)
    monkeypatch.setattr(counting, "_DOWNLOAD", 0.01)
    number, note = await estimate_tokens("Ciao")
    released.set()
    assert (number, [thread.daemon for thread in waiting]) == (None, [True])
    assert note is not None
    assert "TimeoutError" in note


async def test_tiktoken_without_its_tables_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, tiktoken cannot load: a note that says why and what to do, never a traceback."""
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    number, note = await estimate_tokens("Ciao")
    assert number is None
    assert note is not None
    assert "TIKTOKEN_CACHE_DIR" in note


@pytest.mark.parametrize("digits", [30, 5000])
async def test_absurd_numbers_of_a_server_are_left_out(digits: int) -> None:
    """A cache of 5,000 digits or a context of 2^70 tokens is no fact, and no traceback either."""
    line = b'vllm:cache_config_info{block_size="' + b"9" * digits + b'",num_gpu_blocks="8"} 1.0\n'
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        server.pages["/metrics"] = Page(line, content_type="text/plain")
        server.pages["/v1/models"] = page({"data": [{"id": "lab", "max_model_len": 2**70}]})
        server.pages["/tokenize"] = page({"count": 2**70})
        found = await profile_endpoint(endpoint, None)
        assert await count_tokens(endpoint, [Message("user", "Ciao")]) is None
    assert found.metrics
    assert (found.kv_cache_tokens, found.max_model_len) == (None, None)


@pytest.mark.parametrize(("models", "taken"), [(399_999, True), (400_001, False)])
async def test_models_without_number_are_refused(models: int, taken: bool) -> None:
    """A list of 24 MiB held 1.8 million, and took half a gigabyte as objects."""
    listed = b'[{"id":"lab"}' + b',{"id":"x"}' * (models - 1) + b"]"
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        server.pages["/v1/models"] = Page(listed)
        if taken:
            assert (await profile_endpoint(endpoint, "lab")).model == "lab"
        else:
            with pytest.raises(EndpointError, match="lists too many models"):
                await profile_endpoint(endpoint, "lab")
        server.pages["/v1/models"] = Page(b'{"data":' + listed + b"}")
        assert len(await endpoint.served_models()) == (models if taken else 0)


async def test_a_model_named_by_the_key_is_refused() -> None:
    """The name goes back with every request, so it cannot be hidden, and it stood in every report. A short
    key may be part of a name by chance."""
    key = "sk-9f8e7d6c5b4a"
    async with fake_vllm(healthy) as server, Endpoint(server.url, api_key=key) as endpoint:
        with pytest.raises(EndpointError, match="holds the server's API key") as caught:
            await profile_endpoint(endpoint, f"m-{key}")
        assert key not in str(caught.value)
        server.pages["/v1/models"] = page({"data": [{"id": "a"}, {"id": key}]})
        with pytest.raises(EndpointError, match="holds the server's API key"):
            await profile_endpoint(endpoint, "a")
    async with fake_vllm(healthy) as server, Endpoint(server.url, api_key="lab") as endpoint:
        assert (await profile_endpoint(endpoint, None)).model == "lab"


async def test_what_a_server_tells_of_itself_holds_no_key() -> None:
    """Not even the beginning of one, where what it tells is cut to a length."""
    key = "sk-9f8e7d6c5b4a"
    told = "r" * 505 + key
    seen = {"system_fingerprint": told}
    async with (
        fake_vllm(Events(sse(chunk("Ciao", finish="stop") | seen))) as server,
        Endpoint(server.url, api_key=key) as endpoint,
    ):
        server.pages["/v1/models"] = page({"data": [{"id": "m", "root": told}]})
        found = await profile_endpoint(endpoint, None)
    assert (found.root, found.fingerprint) == ("r" * 505 + "***", "r" * 505 + "***")


async def test_a_name_of_megabytes_is_refused_where_it_enters() -> None:
    """Once stored, it made `runs list` take 18 s; what else a server says of itself is cut."""
    async with fake_vllm(healthy) as server, Endpoint(server.url) as endpoint:
        with pytest.raises(EndpointError, match="has 2,000,000 characters; 512 are the most"):
            await profile_endpoint(endpoint, "m" * 2_000_000)
        server.pages["/version"] = page({"version": "9" * 100_000})
        server.pages["/v1/models"] = page({"data": [{"id": "m" * 512, "root": "r" * 100_000}]})
        found = await profile_endpoint(endpoint, None)
        assert (len(found.model), len(found.root or ""), len(found.version or "") <= 512) == (512, 512, True)
        server.pages["/v1/models"] = page({"data": [{"id": "a"}, {"id": "m" * 513}]})
        with pytest.raises(EndpointError, match="has 513 characters"):
            await profile_endpoint(endpoint, "a")
