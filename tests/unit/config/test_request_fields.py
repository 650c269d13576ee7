"""``--extra-body``: fields that every request brings."""

from __future__ import annotations

import json

import pytest

from stresstest.config.credentials.fields import without_credentials
from stresstest.config.request_fields import parse_extra_body, plain_system_prompt
from stresstest.config.secrets import remembered
from stresstest.errors import UsageError


def test_equal_content_is_equal_text() -> None:
    """`check` compares the text: the order of keys must not make two decodings of one."""
    one, other = '{"stop": ["a"], "user": "é"}', {"user": "é", "stop": ["a"]}
    assert parse_extra_body(one) == parse_extra_body(other) == '{"stop":["a"],"user":"é"}'


SECRET_NAMES = (
    *("aws_secret_access_key", "aws_session_token", "azure_ad_token", "vertex_credentials", "auth_token"),
    *(
        "hf_token",
        "openai_key",
        "OPENAI_API_KEY",
        "pwd",
        "aws_bearer_token_bedrock",
        "clientSecret",
        "apiKey",
    ),
)
"""As LiteLLM and others take them in a request's body."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('{"max_tokens": 5}', "--horizon"),
        ('{"temperature": 0.5}', "--temperature"),
        ('{"stream": true}', "a measurement decides on it itself"),
        ('{"cache_salt": "Zq7LmTENANTsaltQ0pYk9v3x"}', "a measurement decides on it itself"),
        ('{"a": NaN}', "cannot be sent"),
        ('{"a": "\\ud800"}', "cannot be sent"),
        ('{"a": "' + "x" * 200_000 + '"}', "at most 200,000"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(text: str, words: str) -> None:
    """Fields that a measurement owns would falsify it; others have an option that reports know."""
    with pytest.raises(UsageError, match=words):
        parse_extra_body(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key": "geheim12"},
        {"headers": [{"Authorization": "geheim12"}]},
        {"x": "Bearer geheim12"},
        {"x": "sk-geheim12geheim12"},
        {"x": "Basic geheim12"},
        {"x": "hf_geheim12geheim12geheim12"},
        {"cookie": "sid=geheim12"},
        {"callback": "https://bob:geheim12@host/path"},
        {"callback": "https://host/path?part=1&X-Amz-Signature=geheim12"},
        {"mcp": {"authorization": {"scheme": "Basic", "value": "geheim12"}}},
        {"headers": [{"name": "Authorization", "value": "geheim12"}]},
        {"headers": [{"key": "X-Api-Key", "value": "geheim12"}]},
        {"x": '{"api_key": "geheim12"}'},
        {"env": {"GITHUB_PAT": "geheim12geheim12"}},
        {"args": ["-y", "server", "--api-key", "geheim12"]},
        {"headers": [["X-Api-Key", "geheim12"]]},
        {"headers": {"X-Session-Id": "geheim12geheim12"}},
        {"extra_headers": {"Authentication": "geheim"}},
        {"tools": [{"type": "url", "url": "https://mcp.zapier.com/api/mcp/s/geheim12geheim12/mcp"}]},
        {"tools": [{"transport": {"serverUrl": "https://mcp.zapier.com/s/geheim12geheim12/mcp"}}]},
        {"mcpServers": {"zapier": {"url": "https://mcp.zapier.com/api/mcp/s/geheim12geheim12/mcp"}}},
        {"tools": [{"server_url": "https://mcp.zapier.com/api/mcp/s/geheim12geheim12+abc==/mcp"}]},
        {"tools": [{"server_url": "https://mcp.exa.ai/mcp?exaApiKey=geheim12-0000-4000-8000"}]},
        {"tools": [{"server_url": "https://mcp.example/mcp?profile=geheim12geheim12"}]},
        *({name: "geheim12geheim12"} for name in SECRET_NAMES),
    ],
)
def test_a_credential_is_refused_and_not_quoted(fields: dict[str, object]) -> None:
    """What is sent is stored and reported; the sentence and a later crash file must not hold it either."""
    with pytest.raises(UsageError) as caught:
        parse_extra_body(fields)
    assert "geheim" not in f"{caught.value} {caught.value.hint}"
    assert any("geheim" in secret for secret in remembered())


def test_what_a_list_requires_or_an_image_shows_is_no_credential() -> None:
    """Lists name tokens and keys as well, and addresses of pictures have identifiers in their paths."""
    fields = {
        "required": ["token", "city", "Authorization-free"],
        "image_url": {"url": "https://images.example/0123456789abcdef/a.png"},
        "headers": {"anthropic-version": "2023-06-01-preview", "X-Request-Id": "0af7651916cd43dd8448"},
        "tools": [{"type": "url", "url": "https://tools.example/"}],
    }
    assert json.loads(parse_extra_body(fields)) == fields
    assert without_credentials(fields) == fields


def test_a_schema_may_name_a_password() -> None:
    """Keys of a schema are no credentials."""
    password = {"type": "string", "description": "What the user types.", "examples": ["abc"]}
    properties = {"password": password, "token": {"$ref": "#/token"}, "cookies": {"type": ["array", "null"]}}
    kinds = {"type": "string", "enum": ["access_token", "refresh_token"], "default": "access_token"}
    properties |= {"token_type": kinds, "coin_token": {"type": "string", "default": "BTC"}}
    properties |= {"password_policy": {"type": "string", "default": "at least twelve characters"}}
    properties |= {"token_source": {"type": "string", "default": "environment"}}
    parse_extra_body({"tools": [{"name": "get_token", "properties": properties, "required": ["token"]}]})


@pytest.mark.parametrize(
    "schema",
    [
        {"default": "geheim12geheim12", "type": "string"},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "geheim12geheim12"},
        {"allOf": [{"type": "string", "default": "geheim12geheim12"}]},
        {"type": "string", "examples": ["geheim12geheim12"]},
        {"type": "string", "example": "geheim12geheim12"},
        {"type": "object", "properties": {"value": {"default": "geheim12geheim12"}}},
        {"const": "geheim12geheim12"},
        {"type": "string", "enum": ["geheim12geheim12"]},
    ],
)
def test_a_key_that_a_schema_has_as_a_value_is_a_credential(schema: dict[str, object]) -> None:
    """pydantic and LangChain make `"default": "…"` of `def weather(city, api_key="…")`."""
    tool = {"parameters": {"properties": {"city": {"type": "string"}, "api_key": schema}}}
    with pytest.raises(UsageError, match="api_key"):
        parse_extra_body({"tools": [tool]})
    hidden = without_credentials({"tools": [tool]})
    assert "geheim" not in json.dumps(hidden)
    assert "***" in json.dumps(hidden)
    assert without_credentials(hidden) == hidden


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("private_key", "-----BEGIN PRIVATE KEY-----\nMIIEgeheim\n-----END PRIVATE KEY-----\n"),
        ("token", "-----BEGIN PRIVATE KEY-----\nMIIEgeheim\n-----END PRIVATE KEY-----\n"),
        ("passphrase", "correct horse geheim staple"),
        ("db_password", "SuperGeheimPassword geheim"),
        ("clientSecret", "geheimgeheim"),
    ],
)
@pytest.mark.parametrize("key", ["default", "examples"])
def test_a_secret_in_a_schema_needs_no_figure(name: str, value: str, key: str) -> None:
    """A pydantic model with such defaults became a tool by the OpenAI SDK's own helper, and was exported."""
    tool = {"properties": {name: {"type": "string", key: [value] if key == "examples" else value}}}
    with pytest.raises(UsageError, match=name):
        parse_extra_body({"tools": [tool]})
    assert "geheim" not in json.dumps(without_credentials({"tools": [tool]})).casefold()


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("https://crm.example/s/geheim12/mcp", "https://crm.example/***"),
        ("https://geheim12@crm.example:8443/sse", "https://crm.example:8443/***"),
        ("https://crm.example?u=geheim12", "https://crm.example/***"),
        ("https://crm.example/", "https://crm.example/"),
    ],
)
def test_of_a_tools_server_only_the_host_is_kept(address: str, kept: str) -> None:
    """Zapier's and Firecrawl's addresses are keys themselves."""
    [tool] = without_credentials({"tools": [{"type": "mcp", "server_url": address}]})["tools"]
    assert tool["server_url"] == kept


def test_tokens_of_a_vocabulary_and_keys_of_a_cache_are_sent() -> None:
    """Fields of vLLM and OpenAI that hold a token or a key in their name, and no secret."""
    plain = {
        "chat_template_kwargs": {"bos_token": "<|begin_of_text|>", "think_end_token": "</think_about_it>"},
        "prompt_cache_key": "the-same-prefix-for-everyone",
        "sort_key": "created",
        "stop_token_ids": [1, 2],
        "skip_special_tokens": True,
    }
    assert json.loads(parse_extra_body(plain)) == plain


@pytest.mark.parametrize(
    "secret",
    [
        "AccountEndpoint=https://contoso.documents.azure.com:443/;AccountKey=Zm9vYmFyYmF6cXV4Zm9vYmFy==;",
        "Server=db;User ID=app;Password=Winter24;",
        "cache:6380,password=Winter24,ssl=True",
        "host=db user=app password=Winter24",
        "lsv2_pt_0123456789abcdef0123456789",
        "https://discord.com/api/webhooks/123456789/AbCdEf012345",
    ],
)
def test_a_connection_string_with_a_secret_is_refused_and_hidden(secret: str) -> None:
    """The key of a database that an API reads from was stored, reported and exported."""
    fields = {"data_sources": [{"parameters": {"connection": secret}}]}
    with pytest.raises(UsageError, match="looks like a credential") as error:
        parse_extra_body(fields)
    assert "Winter24" not in str(error.value)
    assert secret in remembered()
    assert secret not in json.dumps(without_credentials(fields))


def test_an_address_with_a_key_in_its_path_is_refused() -> None:
    """Zapier's and Firecrawl's servers of tools have their keys there; an ordinary path is sent."""
    tools = [{"type": "mcp", "server_url": "https://mcp.zapier.com/api/mcp/s/AbCd0123EfGh4567/mcp"}]
    with pytest.raises(UsageError, match=r"looks like a credential \(tools\.0\.server_url\)"):
        parse_extra_body({"tools": tools})
    for path in ("/v1/mcp", "", "/sse", "/api/model-context-protocol/mcp"):
        assert parse_extra_body({"tools": [{"type": "mcp", "server_url": f"https://tools.example{path}"}]})


@pytest.mark.parametrize(
    "text", ["a = b; c = d", "Write password= in the first line.", "SELECT name FROM t WHERE a = 1 AND b = 2"]
)
def test_other_texts_with_equals_signs_are_sent(text: str) -> None:
    """Grammars, queries and instructions are no connection strings."""
    assert parse_extra_body({"guided_grammar": text})


def test_a_system_prompt_holds_no_credential() -> None:
    """It is sent, stored and reported as the further fields are."""
    with pytest.raises(UsageError, match="--system-prompt holds what looks like a credential") as caught:
        plain_system_prompt("Call the tool with sk-proj-q7Xw2Lm9Rt4Kp8Zs6Vb3Nc5H.")
    assert "q7Xw" not in f"{caught.value} {caught.value.hint}"
    assert plain_system_prompt("Answer in Italian.") == "Answer in Italian."
