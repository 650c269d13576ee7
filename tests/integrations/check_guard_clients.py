"""LangChain's ChatOpenAI and LiteLLM speak to a simulated server, through the guard and without it.

build/integrations/guard_clients/bin/python -m pytest tests/integrations/check_guard_clients.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import litellm
import pytest
from langchain_openai import ChatOpenAI

from stresstest.simulation.engine.scenario.distribution import FixedDistribution
from stresstest.simulation.engine.scenario.spec import Hazard, ModelSpec, Scenario
from tests.support.guard_process import guard
from tests.support.simulated_servers import served

ASKED = "Scrivi una storia in 40 paragrafi numerati."
CAP, ONSET = 600, 120
LOOPS = Scenario(
    "loops",
    "every answer loops",
    model=ModelSpec(max_model_len=4096),
    hazards=(Hazard("loop", onset=FixedDistribution(ONSET)),),
)


@dataclass(frozen=True)
class Answer:
    """What a client makes of one answer. tokens: prompt and answer, as the client reports the usage."""

    text: str
    finish_reason: str | None
    tokens: tuple[int, int] | None
    chunks: int = 1


@dataclass(frozen=True)
class Servers:
    """Base URLs: of the server itself, of a guard that counts, and of one that aborts."""

    direct: str
    counting: str
    aborting: str


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("guard")
    with (
        served(LOOPS, speed=10, name="sim") as server,
        guard(server.base_url, folder=folder) as (counting, _),
        guard(server.base_url, "--policy", "abort", folder=folder) as (aborting, _),
    ):
        yield Servers(server.base_url, counting, aborting)


def langchain(url: str, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="sim", base_url=url, api_key="sk-none", max_tokens=CAP, seed=3, max_retries=0, **more
    )


def langchain_whole(url: str) -> Answer:
    message = langchain(url).invoke(ASKED)
    return Answer(message.text, message.response_metadata["finish_reason"], langchain_usage(message))


def langchain_stream(url: str) -> Answer:
    """As its users write it: chunks that are added up."""
    chunks = list(langchain(url, stream_usage=True).stream(ASKED))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return Answer(whole.text, whole.response_metadata["finish_reason"], langchain_usage(whole), len(chunks))


def langchain_usage(message: Any) -> tuple[int, int] | None:
    used = message.usage_metadata
    return None if used is None else (used["input_tokens"], used["output_tokens"])


def litellm_call(url: str, **more: Any) -> Any:
    return litellm.completion(
        model="hosted_vllm/sim",
        api_base=url,
        api_key="sk-none",
        messages=[{"role": "user", "content": ASKED}],
        max_tokens=CAP,
        seed=3,
        num_retries=0,
        **more,
    )


def litellm_whole(url: str) -> Answer:
    answer = litellm_call(url)
    [choice] = answer.choices
    used = answer.usage.prompt_tokens, answer.usage.completion_tokens
    return Answer(choice.message.content, choice.finish_reason, used)


def litellm_stream(url: str) -> Answer:
    chunks = list(litellm_call(url, stream=True, stream_options={"include_usage": True}))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    reason = next((c.finish_reason for c in reversed(choices) if c.finish_reason), None)
    used = getattr(chunks[-1], "usage", None)
    tokens = None if used is None else (used.prompt_tokens, used.completion_tokens)
    return Answer(text, reason, tokens, len(chunks))


CLIENTS = [langchain_whole, langchain_stream, litellm_whole, litellm_stream]
Client = Callable[[str], Answer]


@pytest.mark.parametrize("ask", CLIENTS)
def test_a_client_gets_what_it_gets_without_the_guard(servers: Servers, ask: Client) -> None:
    """Text, finish reason and usage; a stream in as many chunks."""
    direct = ask(servers.direct)
    assert ask(servers.counting) == direct
    assert direct.finish_reason == "length"
    assert direct.tokens is not None
    assert direct.tokens[1] == CAP


@pytest.mark.parametrize("ask", CLIENTS)
def test_an_aborted_answer_is_never_an_ordinary_stop(servers: Servers, ask: Client) -> None:
    """The client has its beginning, and the finish reason of an answer that was cut."""
    ended, whole = ask(servers.aborting), ask(servers.direct)
    assert ended.finish_reason == "length"
    assert whole.text.startswith(ended.text)
    assert len(ended.text) < len(whole.text)
