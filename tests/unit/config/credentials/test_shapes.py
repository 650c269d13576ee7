"""Texts that are credentials by their shape."""

from __future__ import annotations

import pytest

from stresstest.config.credentials.shapes import is_credential

R = "q7Xw2Lm9Rt4Kp8Zs6Vb3Nc5H"  # 24 signs of no meaning
X = "0123456789abcdef" * 3

TOKENS = (
    *(f"sk-proj-{R}", f"sk-ant-api03-{R}", f"sk-or-v1-{X}", f"hf_{R}", f"nvapi-{R}", f"gsk_{R}", f"r8_{R}"),
    *(f"xai-{R}", f"pplx-{R}", f"tvly-dev-{R}", f"fc-{X[:32]}", f"jina_{R}", f"pcsk_{R}", f"fw_{R}"),
    *(f"lsv2_pt_{X[:32]}", f"e2b_{X[:40]}", f"dapi{X[:32]}", f"BSA{R}abc", f"ghp_{R}", f"github_pat_{R}"),
    *(f"glpat-{R}", f"npm_{R}{R}", f"pypi-AgEIcHlwaS5vcmc{R}", f"ATATT3xFfGF0{R}", f"ntn_{R}{R}"),
    *(f"lin_api_{R}", f"figd_{R}", f"patAbCdEf01234567.{X}", f"PMAK-{R}-{R}"),
    *("AKIAIOSFODNN7ABCDEFG", f"AIzaSy{R}{R}", f"ya29.{R}", f"GOCSPX-{R}", f"dop_v1_{X}", f"hvs.{R}"),
    *(f"dp.pt.{R}", f"tskey-auth-{R}", f"sbp_{R}", f"sb_secret_{R}", f"napi_{R}", f"AGE-SECRET-KEY-1{R}"),
    *(f"xoxb-1234567890-{R}", f"xapp-1-{R}", f"SG.{R}.{R}", f"1234567890:AAF{R}{R}", f"sk_live_{R}"),
    *(f"whsec_{R}", f"shpat_{X[:32]}", f"key-{X[:32]}", f"glsa_{R}", f"NRAK-{R}", f"sntrys_{R}", f"phx_{R}"),
    *(f"eyJhbGciOiJI.eyJzdWIiOiIx.{R}", "-----BEGIN RSA PRIVATE KEY-----\nMIIE"),
)


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
