"""Everything that is no generation: models, tokens, health, version, metrics."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
from aiohttp import web

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.server import bodies
from stresstest.simulation.server.bodies import ChatBody
from stresstest.simulation.server.chunks import token_text
from stresstest.simulation.server.metrics import CONTENT_TYPE
from stresstest.simulation.server.refusal import decode_json_body, malformed
from stresstest.simulation.server.runner import SERVER_CONTEXT_KEY

VERSION = "0.32.0+stresstest-sim"
"""The vLLM whose wire this is, and that it is none."""


class TokenizeBody(msgspec.Struct, kw_only=True):
    model: str | None = None
    prompt: str | None = None
    messages: list[Any] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    return_token_strs: bool | None = False


class DetokenizeBody(msgspec.Struct, kw_only=True):
    tokens: list[int]
    model: str | None = None


def json_response(value: object) -> web.Response:
    """A JSON answer."""
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


async def models(request: web.Request) -> web.Response:
    """GET /v1/models."""
    site = request.app[SERVER_CONTEXT_KEY]
    permission = {
        "id": f"modelperm-{uuid.uuid4().hex[:16]}",
        "object": "model_permission",
        "created": site.created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": site.model,
        "object": "model",
        "created": site.created,
        "owned_by": "stresstest-sim",
        "root": site.model,
        "parent": None,
        "max_model_len": site.context,
        "permission": [permission],
    }
    return json_response({"object": "list", "data": [card]})


async def version(_request: web.Request) -> web.Response:
    """GET /version."""
    return json_response({"version": VERSION})


async def health(_request: web.Request) -> web.Response:
    """GET /health, /ping."""
    response = web.Response()
    response.headers.popall("Content-Type", None)
    return response


async def load(request: web.Request) -> web.Response:
    """GET /load."""
    stats = request.app[SERVER_CONTEXT_KEY].runner.stats
    return json_response({"server_load": stats.running + stats.waiting})


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics."""
    site = request.app[SERVER_CONTEXT_KEY]
    return web.Response(body=site.page.text(site.runner.stats), headers={"Content-Type": CONTENT_TYPE})


async def tokenize(request: web.Request) -> web.Response:
    """POST /tokenize: of a text, or of messages through the chat template."""
    site = request.app[SERVER_CONTEXT_KEY]
    found = decode_json_body(await request.read(), request.content_type)
    body = bodies.parse_body(found, TokenizeBody)
    site.require_model(body.model)
    if body.prompt is not None:
        ids = vocabulary.encode(body.prompt)
    elif body.messages is not None:
        ids = vocabulary.encode_chat(bodies.chat_messages(ChatBody(messages=body.messages)))
        if not body.add_generation_prompt:
            ids = ids[:-1]
    else:
        raise malformed("missing", "body.prompt", "Field required", found)
    strings = [token_text(i) for i in ids] if body.return_token_strs else None
    return json_response(
        {"count": len(ids), "max_model_len": site.context, "tokens": ids, "token_strs": strings}
    )


async def detokenize(request: web.Request) -> web.Response:
    """POST /detokenize. An id that is no token has no text."""
    body = bodies.parse_body(decode_json_body(await request.read(), request.content_type), DetokenizeBody)
    request.app[SERVER_CONTEXT_KEY].require_model(body.model)
    ids = [i for i in body.tokens if 0 <= i < vocabulary.VOCABULARY_SIZE]
    return json_response({"prompt": vocabulary.decode(ids)})
