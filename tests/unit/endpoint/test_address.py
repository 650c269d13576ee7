"""The server's address as users type it, or paste it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stresstest.config.secrets import remembered
from stresstest.endpoint.address import EndpointAddress
from stresstest.endpoint.client import Endpoint
from stresstest.errors import UsageError
from stresstest.features.guard.settings import checked_upstream
from stresstest.model import ArrivedTokens, Decoding, GenerationRequest, Message, Token
from tests.support.fake_vllm import Events, chunk, fake_vllm, sse


def test_an_address_without_an_end_is_a_sentence() -> None:
    """The client's own error on it was called a bug of ours."""
    with pytest.raises(UsageError, match="The base URL has 70,0"):
        EndpointAddress.parse(f"http://{'a' * 70_000}/v1", None)


@pytest.mark.parametrize("path", ["/v1/{}", "/{}/v1", "/v1/{}/", "/v1/%73k{}"])
def test_a_key_in_the_path_is_refused_and_not_quoted(path: str) -> None:
    """Helicone takes its key there, and the address is stored, shown in reports and written to CI's files."""
    key = "sk-helicone-abcdef1-abcdef1-abcdef1"
    address = f"https://oai.helicone.ai{path.format(key.removeprefix('sk') if '%' in path else key)}"
    for parse in (lambda url: EndpointAddress.parse(url, None), checked_upstream):
        with pytest.raises(UsageError, match="holds a key in its path") as refused:
            parse(address)
        assert "abcdef1" not in f"{refused.value} {refused.value.hint}"
    assert any("abcdef1" in secret for secret in remembered())


@pytest.mark.parametrize(
    "path",
    [
        "/openai/deployments/gpt-4o-mini-2024-07-18",
        "/v1/0123456789abcdef0123456789abcdef/gateway/openai",
        "/v2/x4kd82ndkw0p2/openai/v1",
        "/sk-test/v1",
    ],
)
def test_names_and_numbers_in_a_path_are_no_keys(path: str) -> None:
    """Deployments of Azure, accounts of Cloudflare and endpoints of RunPod stand in addresses, too."""
    assert EndpointAddress.parse(f"https://gateway.example{path}", None).base_url.endswith(path)


@pytest.mark.parametrize("host", ["gpu–7:8000", "gpu\u20117", "“gpu”", "büro..lan", "bob:geheim12@gpu–7"])
def test_a_host_that_no_client_can_encode_is_a_sentence(host: str) -> None:
    """Text editors replace hyphens by dashes: the client's own error was called a bug of ours."""
    with pytest.raises(UsageError, match="is not a host name") as caught:
        EndpointAddress.parse(f"http://{host}/v1", None)
    assert "geheim12" not in str(caught.value)


@pytest.mark.parametrize("host", ["büro.lan", "gpu_7", "[::1]", "xn--bro-hoa.lan"])
def test_hosts_of_all_kinds_are_taken(host: str) -> None:
    """Names with letters of other scripts are names."""
    assert EndpointAddress.parse(f"http://{host}:8000/v1", None).base_url == f"http://{host}:8000/v1"


@given(
    before=st.text(max_size=20), after=st.text(max_size=20), cuts=st.lists(st.integers(0, 80), max_size=12),
    times=st.integers(0, 3),
)  # fmt: skip
def test_a_secret_that_the_answer_echoes_is_not_kept(
    before: str, after: str, cuts: list[int], times: int
) -> None:
    """However the server cuts it into tokens; everything else stays."""
    secret = "sk-9f8e7d6c5b4a"
    address = EndpointAddress.parse("http://gpu-7:8000/v1", secret)
    text = before + after.join([secret] * times)
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    made = ArrivedTokens()
    made.extend([Token(text[a:b], 7) for a, b in pairwise(edges)])
    tokens = address.hide_in_tokens(made.columns())
    assert "".join(token.text for token in tokens) == text.replace(secret, "***")
    assert len(tokens) == len(edges) - 1


async def test_a_key_that_a_server_echoes_is_in_nothing_that_is_kept() -> None:
    """As the name of the model, the id of the answer, its end or its text, it was stored and exported."""
    key = "sk-9f8e7d6c5b4a"
    event = chunk(f"Your key is {key}.", finish=key) | {"model": key, "id": key, "system_fingerprint": key}
    async with fake_vllm(Events(sse(event))) as server, Endpoint(server.url, api_key=key) as endpoint:
        endpoint.can_tokenize = endpoint.can_estimate = False
        found = await endpoint.generate(
            GenerationRequest("m", 8, Decoding(), messages=(Message("user", "Hi"),)), lambda _: False
        )
    assert found.finish_reason == "***"
    assert key not in repr(found)
