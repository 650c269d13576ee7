"""/v1/chat/completions and /v1/completions."""

from __future__ import annotations

import time
import uuid
import zlib
from collections.abc import Sequence as Many

from aiohttp import web

from stresstest import __version__
from stresstest.simulation.engine import vocabulary
from stresstest.simulation.engine.request import SimRequest, SimRequestError
from stresstest.simulation.engine.scheduling.sequence import Sequence
from stresstest.simulation.server import bodies
from stresstest.simulation.server.bodies import ChatBody, CompletionBody, TextBody, check_ranges
from stresstest.simulation.server.chunks import (
    DONE_EVENT,
    ChoiceStream,
    ResponseFrame,
    full_body,
    usage_chunk,
)
from stresstest.simulation.server.refusal import RequestRejected, decode_json_body
from stresstest.simulation.server.runner import SERVER_CONTEXT_KEY, ServerContext
from stresstest.simulation.server.streams import ResponseWriter, StreamingResponseWriter

_EVENT_STREAM = "text/event-stream; charset=utf-8"


async def chat(request: web.Request) -> web.StreamResponse:
    """POST /v1/chat/completions."""
    site = request.app[SERVER_CONTEXT_KEY]
    body = bodies.parse_body(decode_json_body(await request.read(), request.content_type), ChatBody)
    check_ranges(body, site.context)
    site.require_model(body.model)
    said = bodies.chat_messages(body)
    made = bodies.engine_requests(body, tuple(vocabulary.encode_chat(said)), site.context, said)
    return await _answer(request, site, body, made, [""] * len(made), prompts=1)


async def text(request: web.Request) -> web.StreamResponse:
    """POST /v1/completions: a text, token ids, or several of either."""
    site = request.app[SERVER_CONTEXT_KEY]
    body = bodies.parse_body(decode_json_body(await request.read(), request.content_type), TextBody)
    check_ranges(body, site.context)
    site.require_model(body.model)
    made: list[SimRequest] = []
    echoes: list[str] = []
    asked = bodies.prompt_token_ids(body)
    for prompt in asked:
        for each in bodies.engine_requests(body, prompt, site.context, None):
            made.append(each)
            echoes.append(vocabulary.decode(prompt) if body.echo else "")
    return await _answer(request, site, body, made, echoes, prompts=len(asked))


async def _answer(
    request: web.Request,
    site: ServerContext,
    body: CompletionBody,
    made: Many[SimRequest],
    echoes: Many[str],
    *,
    prompts: int,
) -> web.StreamResponse:
    sequences: list[Sequence] = []
    try:
        for each in made:
            sequences.append(site.runner.submit(each))  # noqa: PERF401  (those before a refusal are to be left)
        site.page.observed.on_request(len(made), made[0].max_tokens)
        prompt_tokens = sum(s.prompt_tokens for s in sequences[:: len(made) // prompts])
        frame = _frame(site, body)
        if body.stream:
            return await _stream(request, site, frame, sequences, echoes, prompt_tokens)
        return await _collect(request, site, frame, sequences, echoes, prompt_tokens)
    except SimRequestError as refused:
        raise RequestRejected(refused.status, refused.message) from None
    finally:
        for sequence in sequences:
            site.runner.abandon(sequence)


def _frame(site: ServerContext, body: CompletionBody) -> ResponseFrame:
    options = body.stream_options
    usage = ""
    if options is not None and options.include_usage:
        usage = "running" if options.continuous_usage_stats else "end"
    is_text = isinstance(body, TextBody)
    logprobs: int | None = None
    if isinstance(body, TextBody):
        logprobs = body.logprobs
    elif isinstance(body, ChatBody) and body.logprobs:
        logprobs = body.top_logprobs or 0
    return ResponseFrame(
        id=("cmpl-" if is_text else "chatcmpl-") + (body.request_id or uuid.uuid4().hex[:16]),
        created=int(time.time()),
        model=body.model or site.model,
        fingerprint=site.fingerprint,
        text=is_text,
        logprobs=logprobs,
        token_ids=bool(body.return_token_ids),
        usage=usage,
        stops=body.stops,
        kept_stop=body.include_stop_str_in_output,
    )


async def _stream(
    request: web.Request,
    site: ServerContext,
    frame: ResponseFrame,
    sequences: Many[Sequence],
    echoes: Many[str],
    prompt_tokens: int,
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": _EVENT_STREAM})
    await response.prepare(request)
    await response.write(b"")  # the headers, before events go past aiohttp
    transport = request.transport
    if transport is None:
        return response
    choices = [
        ChoiceStream(frame, sequence, i, echo)
        for i, (sequence, echo) in enumerate(zip(sequences, echoes, strict=True))
    ]
    chunked = response.headers.get("Transfer-Encoding") == "chunked"
    streaming = StreamingResponseWriter(choices, transport, chunked=chunked)
    for sequence in sequences:
        site.runner.subscribe(sequence, streaming)
    await streaming.over.wait()
    if streaming.cut or transport.is_closing():
        transport.close()  # what was written goes out; the end of the body does not
        return response
    tail = DONE_EVENT
    if frame.usage:
        tail = usage_chunk(frame, prompt_tokens, sum(len(s.output) for s in sequences)) + DONE_EVENT
    await response.write_eof(tail)
    return response


async def _collect(
    request: web.Request,
    site: ServerContext,
    frame: ResponseFrame,
    sequences: Many[Sequence],
    echoes: Many[str],
    prompt_tokens: int,
) -> web.StreamResponse:
    waiting = ResponseWriter(sequences)
    for sequence in sequences:
        site.runner.subscribe(sequence, waiting)
    await waiting.over.wait()
    if waiting.cut and request.transport is not None:
        request.transport.close()
    return web.Response(
        body=full_body(frame, sequences, echoes, prompt_tokens), content_type="application/json"
    )


def fingerprint(scenario_name: str) -> str:
    """What the answers carry as system_fingerprint: the simulator, its version, and the scenario."""
    return f"stresstest-sim-{__version__}-{zlib.crc32(scenario_name.encode()):08x}"
