"""One endpoint, and one way to generate on it: streamed, counted in tokens, never raising for trouble.

Auth, base URL and status errors are the openai SDK's, connections aiohttp's; the stream is read raw, because
the SDK's chunk objects would saturate a core and falsify every latency. There are no hidden retries.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from stresstest import clock
from stresstest.endpoint import counting, failures
from stresstest.endpoint.address import PLACEHOLDER_KEY, Address
from stresstest.endpoint.assembly import Assembler
from stresstest.endpoint.body import Features, build
from stresstest.endpoint.outcome import Reply, Sink, StreamOutcome, Timeouts, Trial
from stresstest.endpoint.stream import Stream
from stresstest.model import FailureKind, GenerationRequest, ServiceFailure, Token

if TYPE_CHECKING:
    import openai

__all__ = ["Endpoint", "Reply", "Sink", "StreamOutcome", "Timeouts"]

_DEFAULT_TIMEOUTS = Timeouts()


class Endpoint:
    """An OpenAI-compatible server. Use as an async context manager.

    base_url: as the user gave it; credentials in it are used and never shown. api_key: sent as a bearer
    token; None sends none of the user's. model: used when a request names none. `features`,
    `can_tokenize` and `can_estimate` are what `profile` found. Raises UsageError for an impossible URL
    or key.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
    ) -> None:
        key = api_key.strip() if api_key and api_key.strip() else None
        self.address = Address.parse(base_url, key)
        self.model = model
        self.features = Features()
        self.can_tokenize: bool | None = None
        self.can_estimate: bool | None = None
        self.timeouts = timeouts
        self._client: openai.AsyncOpenAI | None = None
        self._make = _ClientMaker(self.address, key, timeouts)

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, model={self.model!r})"

    @property
    def base_url(self) -> str:
        """Without credentials."""
        return self.address.base_url

    @property
    def counts_at_the_end(self) -> bool:
        """Tokens are counted by the final usage alone: a stream that we close ourselves stays uncounted."""
        found = self.features
        while_streaming = found.token_ids or found.top_logprobs or found.running_usage
        return found.usage and not while_streaming and self.can_tokenize is False

    async def __aenter__(self) -> Self:
        self._client = self._make()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def generate(self, request: GenerationRequest, sink: Sink) -> StreamOutcome:
        """Stream one generation into `sink`, chunk by chunk; it returns True to have the stream closed.

        Service trouble ends up in `StreamOutcome.failure`; what had arrived has been given to the sink.
        Cancellation closes the connection and passes through, as does whatever the sink raises.
        """
        outcome, _ = await self._run(request, sink, self.features)
        return outcome

    async def trial(self, request: GenerationRequest, features: Features) -> Trial:
        """Generate once with these measuring fields, to see what the server makes of them."""
        tokens: list[Token] = []

        def keep(arrived: list[Token]) -> bool:
            tokens.extend(arrived)
            return False

        outcome, made = await self._run(request, keep, features)
        return Trial(outcome, made, tuple(tokens))

    async def _run(
        self, request: GenerationRequest, sink: Sink, features: Features
    ) -> tuple[StreamOutcome, Assembler]:
        import aiohttp
        import httpx2
        import openai

        started = clock.now()
        guard = asyncio.timeout(self.timeouts.first)
        stream = Stream(self.address, sink, guard, self.timeouts.stall)
        try:
            async with guard, self._send(request, features) as response:
                await stream.read(response.http_response)
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError) as error:
            stream.failure = failures.from_exception(
                error, self.address, at_token=stream.produced, begun=stream.begun
            )
        except TimeoutError:
            if not guard.expired():
                raise
            limit = self.timeouts.stall if stream.produced else self.timeouts.first
            stream.failure = failures.late(self.address, limit, at_token=stream.produced, begun=stream.begun)
        stream.close()
        return await self._outcome(request, stream, started), stream.made

    async def ask(self, path: str, json: object = None, *, at_root: bool = False) -> Reply | ServiceFailure:
        """GET `path`, or POST `json` to it, under the base URL or the server's root.

        A Reply of any HTTP status, or the failure to get one.
        """
        import httpx2
        import openai

        client = self._opened()
        url = f"{self.address.root if at_root else self.base_url}{path}"
        try:
            async with asyncio.timeout(self.timeouts.probe):
                if json is None:
                    response = await client.get(url, cast_to=httpx2.Response)
                else:
                    response = await client.post(url, cast_to=httpx2.Response, body=json)
        except openai.APIStatusError as error:
            response = error.response
        except (openai.OpenAIError, httpx2.HTTPError) as error:
            return failures.from_exception(error, self.address, at_token=0, begun=False)
        except TimeoutError:
            return failures.late(self.address, self.timeouts.probe, at_token=0, begun=False)
        return Reply(response.status_code, response.content, response.headers.get("content-type", ""))

    async def served(self) -> list[str]:
        """Names the server lists; empty when it lists none or cannot be asked."""
        reply = await self.ask("/models")
        if isinstance(reply, ServiceFailure) or reply.status != 200:
            return []
        try:
            return [str(card["id"]) for card in msgspec.json.decode(reply.body)["data"]]
        except (ValueError, RecursionError, KeyError, TypeError):
            return []

    def _opened(self) -> openai.AsyncOpenAI:
        if self._client is None:
            raise RuntimeError("Endpoint is used outside its `async with`")
        return self._client

    def _send(self, request: GenerationRequest, features: Features) -> Any:
        """The SDK's context manager of one streamed response; nothing is sent before it is entered."""
        client = self._opened()
        body = build(request, request.model or self.model or "", features)
        model = body.pop("model")
        if request.messages is not None:
            return client.chat.completions.with_streaming_response.create(
                model=model, messages=body.pop("messages"), stream=True, extra_body=body
            )
        return client.completions.with_streaming_response.create(
            model=model, prompt=body.pop("prompt"), stream=True, extra_body=body
        )

    async def _outcome(self, request: GenerationRequest, stream: Stream, started: float) -> StreamOutcome:
        ended = clock.now()
        made = stream.made
        failure = stream.judge()
        if failure is not None and failure.kind is FailureKind.NOT_FOUND:
            failure = await self._name_served(request, failure)
        count, source = await counting.settle(self, made, limit=request.max_tokens, alive=failure is None)
        return StreamOutcome(
            finish_reason=made.finish_reason,
            failure=failure,
            aborted=stream.aborted,
            prompt_tokens=made.prompt_tokens,
            output_tokens=count,
            token_source=source,
            started=started,
            first_token=stream.first_token,
            ended=ended,
            stop_reason=made.stop_reason,
        )

    async def _name_served(self, request: GenerationRequest, failure: ServiceFailure) -> ServiceFailure:
        model, served = request.model or self.model or "", await self.served()
        if not served or model in served:
            return failure
        return replace(failure, message=failures.unknown_model(self.address, model, served))


class _ClientMaker:
    """Makes the SDK's client; the only holder of the key, and it has nothing to show."""

    def __init__(self, address: Address, key: str | None, timeouts: Timeouts) -> None:
        self._address = address
        self._key = key
        self._timeouts = timeouts

    def __repr__(self) -> str:
        return "<client maker>"

    def __call__(self) -> openai.AsyncOpenAI:
        import httpx2
        import openai

        from stresstest.endpoint.transport import DirectTransport

        # The waits inside a stream are ours to limit: the library cannot tell a queue from a stall.
        timeout = httpx2.Timeout(None, connect=self._timeouts.connect)
        basic = self._address.authorization
        return openai.AsyncOpenAI(
            base_url=self._address.base_url,
            api_key=self._key or PLACEHOLDER_KEY,
            max_retries=0,
            timeout=timeout,
            default_headers={"Authorization": basic} if basic else None,
            http_client=openai.DefaultAsyncHttpxClient(timeout=timeout, transport=DirectTransport()),
        )
