"""Starting and stopping a simulated server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from stresstest.simulation.engine.engine import Engine, with_speed
from stresstest.simulation.engine.scenario.spec import Scenario
from stresstest.simulation.server import generate, pages
from stresstest.simulation.server.metrics import MetricsPage
from stresstest.simulation.server.refusal import RequestRejected
from stresstest.simulation.server.runner import SERVER_CONTEXT_KEY, EngineRunner, ServerContext

_LARGEST_BODY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers. base_url: ends in /v1. model: the name it lists. stepping ends only by a bug."""

    base_url: str
    model: str
    engine: Engine
    stepping: asyncio.Task[None]


@contextlib.asynccontextmanager
async def serve_scenario(
    scenario: Scenario,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    speed: float | None = None,
    served_model_name: str | None = None,
    seed: int = 0,
) -> AsyncIterator[RunningServer]:
    """Serve `scenario` for the length of a `with` block.

    port 0: a free one. speed: multiplies the scenario's own; 0: as fast as possible. seed: of requests that
    bring none. Raises OSError where the port is taken.
    """
    unpaced = speed == 0
    if speed:
        scenario = with_speed(scenario, scenario.engine.speed * speed)
    engine = Engine(scenario, seed=seed)
    model = served_model_name or scenario.name
    context = scenario.model.max_model_len
    page = MetricsPage(model, scenario.engine, context)
    runner = EngineRunner(engine, page.observed, unpaced=unpaced)
    app = _application(
        ServerContext(
            runner=runner,
            page=page,
            model=model,
            strict=served_model_name is not None,
            context=context,
            fingerprint=generate.fingerprint(scenario.name),
            created=int(time.time()),
        )
    )
    serving = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=0.1,
        auto_decompress=False,  # as vLLM's server reads bodies
    )
    await serving.setup()
    stepping: asyncio.Task[None] | None = None
    try:
        await web.TCPSite(serving, host, port, backlog=1024).start()
        stepping = asyncio.create_task(runner.run())
        stepping.add_done_callback(_log_engine_failure)
        bound = serving.addresses[0][1]
        shown = f"[{host}]" if ":" in host else host
        yield RunningServer(f"http://{shown}:{bound}/v1", model, engine, stepping)
    finally:
        if stepping is not None:
            stepping.cancel()
        await serving.cleanup()


def _application(site: ServerContext) -> web.Application:
    app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_rejection_middleware])
    app[SERVER_CONTEXT_KEY] = site
    app.router.add_post("/v1/chat/completions", generate.chat)
    app.router.add_post("/v1/completions", generate.text)
    app.router.add_post("/tokenize", pages.tokenize)
    app.router.add_post("/detokenize", pages.detokenize)
    app.router.add_get("/v1/models", pages.models)
    app.router.add_get("/version", pages.version)
    app.router.add_get("/load", pages.load)
    app.router.add_get("/metrics", pages.metrics)
    app.router.add_get("/health", pages.health)
    app.router.add_route("*", "/ping", pages.health)
    app.on_response_prepare.append(_add_server_header)
    return app


@web.middleware
async def _rejection_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ConnectionError:  # the client went away while the answer began
        return web.Response()
    except RequestRejected as refusal:
        return web.Response(status=refusal.status, body=refusal.body(), content_type="application/json")
    except web.HTTPException as error:  # no such path, no such method
        if error.status not in (404, 405):
            raise
        return web.Response(
            status=error.status,
            body=msgspec.json.encode({"detail": error.reason}),
            content_type="application/json",
        )


async def _add_server_header(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "stresstest-sim"


def _log_engine_failure(task: asyncio.Task[None]) -> None:
    """A bug in the engine must not look like a server that thinks for a long time."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "the simulated engine failed", "exception": error})
