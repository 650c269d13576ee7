"""Everything that is no generation: models, tokens, health, version, metrics."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
from aiohttp import web

from stresstest.simulation.engine import vocabulary
from stresstest.simulation.server import bodies
from stresstest.simulation.server.bodies import ChatBody
from stresstest.simulation.server.metrics import CONTENT_TYPE
from stresstest.simulation.server.refusal import decoded, invalid
from stresstest.simulation.server.site import SITE
from stresstest.simulation.server.tokens import shown

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


def answer(value: object) -> web.Response:
    """A JSON answer."""
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


async def models(request: web.Request) -> web.Response:
    """GET /v1/models."""
    site = request.app[SITE]
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
    return answer({"object": "list", "data": [card]})


async def version(_request: web.Request) -> web.Response:
    """GET /version."""
    return answer({"version": VERSION})


async def health(_request: web.Request) -> web.Response:
    """GET /health, /ping."""
    response = web.Response()
    response.headers.popall("Content-Type", None)
    return response


async def load(request: web.Request) -> web.Response:
    """GET /load."""
    levels = request.app[SITE].runner.levels()
    return answer({"server_load": levels.running + levels.waiting})


async def metrics(request: web.Request) -> web.Response:
    """GET /metrics."""
    site = request.app[SITE]
    return web.Response(body=site.page.text(site.runner.levels()), headers={"Content-Type": CONTENT_TYPE})


async def tokenize(request: web.Request) -> web.Response:
    """POST /tokenize: of a text, or of messages through the chat template."""
    site = request.app[SITE]
    found = decoded(await request.read(), request.content_type)
    body = bodies.read(found, TokenizeBody)
    site.known(body.model)
    if body.prompt is not None:
        ids = vocabulary.encode(body.prompt)
    elif body.messages is not None:
        ids = vocabulary.chat(bodies.messages(ChatBody(messages=body.messages)))
        if not body.add_generation_prompt:
            ids = ids[:-1]
    else:
        raise invalid("missing", "body.prompt", "Field required", found)
    strings = [shown(i) for i in ids] if body.return_token_strs else None
    return answer({"count": len(ids), "max_model_len": site.context, "tokens": ids, "token_strs": strings})


async def detokenize(request: web.Request) -> web.Response:
    """POST /detokenize. An id that is no token has no text."""
    body = bodies.read(decoded(await request.read(), request.content_type), DetokenizeBody)
    request.app[SITE].known(body.model)
    ids = [i for i in body.tokens if 0 <= i < vocabulary.SIZE]
    return answer({"prompt": vocabulary.decode(ids)})
