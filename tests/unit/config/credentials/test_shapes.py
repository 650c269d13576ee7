"""Texts that are credentials by their shape."""

from __future__ import annotations

import pytest

from stresstest.config.credentials.shapes import is_credential
from tests.support.credentials import TOKENS


@pytest.mark.parametrize("token", TOKENS)
def test_a_key_of_a_known_service_is_known_wherever_it_stands(token: str) -> None:
    """A tool's description, a template or an address may hold it."""
    assert is_credential(token)
    assert is_credential(f"Call it with {token}.")
    assert is_credential(f"https://tools.example/{token}/sse")


@pytest.mark.parametrize(
    "text",
    [
        "Bearer abcdefgh",
        "Token 9f8e7d6c5b4a3f2e1d0c",
        "Authorization: opaque",
        "Ask with the header Authorization: Bearer 9f8e7d6c5b4a.",
        'curl -H "X-Api-Key: 9f8e7d6c5b4a" https://api.example',
        "curl -u admin:hunter22 https://api.example",
        "npx server --api-key=9f8e7d6c5b4a",
        "npx server --api-key '9f8e7d6c5b4a'",
        "See https://bob:hunter22@wiki.example/page first.",
        "PGPASSWORD=Tr0ub4dor-and-3",
        "NOTION_TOKEN=9f8e7d6c5b4a9f8e7d6c",
        "sv=2024-11-04&ss=b&sig=p%2BqQ1aVb9f8e7d6c5b4a3f2e1d0c%3D",
        "https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/1",
        "GET https://api.example/search?q=x&api_key=9f8e7d6c5b4a",
        "https://acme.webhook.office.com/webhookb2/9f8e7d6c5b4a",
        "https://hooks.slack.com/workflows/T01/A02/9f8e7d6c5b4a",
        "Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=all;SharedAccessKey=abc=",
    ],
)
def test_a_header_an_argument_or_an_address_that_lets_one_in_is_a_credential(text: str) -> None:
    """As instructions for tools hold them."""
    assert is_credential(text)


@pytest.mark.parametrize(
    "text",
    [
        "Send the header Authorization: Bearer <token> with each call.",
        "Authorization is needed: ask for a token in 24 hours.",
        "Use --api-key YOUR_API_KEY or --token <TOKEN>; --max-tokens 500 is the default.",
        "Use --api-key your-key-1 or --key value",
        "PGPASSWORD=$PGPASSWORD",
        "API_KEY=YOUR_KEY",
        "mode=production",
        "max_tokens=500000",
        "abfs://container@account.dfs.core.windows.net/x",
        "postgresql://user:password@localhost/db",
        "https://api.example/search?key=API_KEY",
        "https://api.example/search?key={key}&q=x",
        "https://images.example/a1b2c3d4e5f6a7b8c9d0/photo.png",
        "sk-learn-style-estimators and hf_download_model_from_the_hub",
        "fw_update_device_firmware_version, npm_install_all_the_packages, jina_embed_the_documents",
        "call_q7Xw2Lm9Rt4Kp8Zs6Vb3Nc5H resp_0123456789abcdef0123456789abcdef chatcmpl-0123456789abcdef",
        "A key is a key; a token: one of a vocabulary. The ratio 3:4 at 10:45.",
        "root ::= key '=' value ; key ::= [a-z]+",
        "{% if token == bos_token %}{{ token }}{% endif %}",
        "",
    ],
)
def test_instructions_placeholders_and_identifiers_are_none(text: str) -> None:
    """What is refused cannot be measured: descriptions of tools name headers and arguments."""
    assert not is_credential(text)


@pytest.mark.parametrize(
    "unit",
    ["a://", "-----BEGIN ", "x-x-", "eyJ", "sk-", "--key ", " x-token: ", "-u a", "a=b;", "SG.a."],
)
def test_a_long_text_has_an_end(unit: str) -> None:
    """A template or a document of a request may be long: no pattern backtracks over all of it."""
    assert not is_credential(unit * (200_000 // len(unit)))
