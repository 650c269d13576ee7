"""Credentials within a server's text are hidden, and what is no credential stays."""

from __future__ import annotations

import pytest

from stresstest.config.credentials.shapes import is_credential
from stresstest.config.credentials.texts import hide_credentials
from stresstest.model.address import without_secrets
from tests.support.credentials import TOKENS

SECRET = "hunter22pw9"


@pytest.mark.parametrize("token", [each for each in TOKENS if "PRIVATE KEY" not in each])
def test_a_key_of_a_known_service_is_hidden_wherever_it_stands(token: str) -> None:
    """All of it, not its beginning alone."""
    for text in (
        f"refused {token}.",
        f"'{token}'",
        f"HF_TOKEN={token}",
        f"https://tools.example/{token}/sse",
    ):
        assert token[-8:] not in hide_credentials(text)


@pytest.mark.parametrize(
    "text",
    [
        f"ProxyError('Unable to connect to proxy http://alice:{SECRET}@proxy.corp:3128')",
        f"model='https://{SECRET}@host/model'",
        f"headers={{'Authorization': 'Bearer {SECRET}'}}",
        f"Authorization: Bearer {SECRET}",
        f"x-api-key: {SECRET}",
        f"vllm serve m --api-key {SECRET} --port 8000",
        f"vllm serve m --api-key={SECRET}",
        f"non-default args: {{'model_tag': 'm', 'api_key': ['{SECRET}'], 'max_model_len': 4096}}",
        f"password={SECRET}, dtype=auto",
        f'{{"client_secret": "{SECRET}"}}',
        f"Client error '401' for url 'https://acme.azure-api.net/chat?api-version=1&subscription-key={SECRET}'",
        f"Max retries exceeded with url: /v1/chat/completions?se=2026-12-01&sig={SECRET} (Caused by",
        f"POST https://fn.azurewebsites.net/api/chat?code={SECRET} failed",
        f"subscription-key={SECRET * 2}",
    ],
)
def test_what_a_name_or_an_address_makes_a_credential_is_hidden(text: str) -> None:
    """`doctor --log` printed the password of a proxy, and the key that vLLM lists among its arguments; a run
    the key in its gateway's own upstream address, which the error of a client library quotes."""
    found = hide_credentials(text)
    assert SECRET not in found
    assert "***" in found
    assert hide_credentials(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "GPU KV cache size: 12,345 tokens",
        "model='Qwen/Qwen2.5-7B', tokenizer='Qwen/Qwen2.5-7B', max_seq_len=4096, bos_token='<s>'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "api_key=None, quantization=awq_marlin",
        "http://gpu-7:8000/v1",
        "Is it /v1? then=now",
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    """The log is explained from it."""
    assert hide_credentials(text) == text


@pytest.mark.parametrize("unit", ["x-", "cookie:a;", "--a-", "http://a:", "//a:", "sk-", "/a?b"])
def test_a_long_text_takes_no_longer_than_its_length(unit: str) -> None:
    """A field whose name was "x-x-x-…" held `scan` up for minutes: from each "x-" on, all was read again."""
    text = unit * (100_000 // len(unit))
    for hidden in (hide_credentials(text), without_secrets(text)):
        assert hidden[:2] == unit[:2]
    assert is_credential(text) in (True, False)
