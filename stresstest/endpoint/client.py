"""Client of one endpoint: streamed generations, counted in tokens; service failures are returned as data.

The openai SDK handles authentication, the base URL and status errors; aiohttp the connections. The stream
is read raw, because the SDK's chunk objects would saturate a core and distort every latency. Nothing is
retried here.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec

from stresstest import clock
from stresstest.config.credentials.bound_key import require_confirmed
from stresstest.endpoint import counting, failures
from stresstest.endpoint.address import PLACEHOLDER_KEY, EndpointAddress
from stresstest.endpoint.assembly import TokenAssembler
from stresstest.endpoint.cpu_vllm import SEEDS_MAY_HAVE_KILLED
from stresstest.endpoint.outcome import (
    HttpReply,
    StallLimit,
    StreamOutcome,
    Timeouts,
    TokenSink,
    TrialGeneration,
)
from stresstest.endpoint.stream import ResponseStream, StreamLimits
from stresstest.endpoint.unsent_bodies import UnsentBodies
from stresstest.endpoint.wire import RequestFeatures, build_body
from stresstest.http_limits import refuse_foreign_redirect
from stresstest.model import FailureKind, GenerationRequest, ServiceFailure, Token

if TYPE_CHECKING:
    import openai

_DEFAULT_TIMEOUTS = Timeouts()


LONGEST_MODEL_NAME = 512
"""Characters. Every record of a run, and every sentence about it, repeats the name."""


_MOST_MODELS = 400_000


def lists_too_many(body: bytes) -> bool:
    """Whether a list of models is refused before it is decoded: an entry of 11 bytes takes 170 as objects."""
    return body.count(b"{") > _MOST_MODELS


class _NamedModel(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(max_length=LONGEST_MODEL_NAME)]


class _NamedModels(msgspec.Struct):
    data: list[_NamedModel]


class Endpoint:
    """An OpenAI-compatible server. Use as an async context manager.

    base_url: as given by the user; credentials in it are used but never shown. api_key: sent as a bearer
    token; None sends a placeholder; a BoundKey only to a confirmed address. model: the default for
    requests that name none. stall_timeout: the user's own limit of a stream's silence in seconds, in place of
    one that follows the server. send_seed: False leaves out the seeds of requests. logprobs: False requests
    none. features, can_tokenize, can_estimate, on_cpu: set by `profile_endpoint`. Raises UsageError for an
    invalid URL or key, and for an address that the key may not be sent to.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeouts: Timeouts = _DEFAULT_TIMEOUTS,
        stall_timeout: float | None = None,
        send_seed: bool = True,
        logprobs: bool = True,
    ) -> None:
        key = api_key.strip() if api_key and api_key.strip() else None
        self.address = EndpointAddress.parse(base_url, key)
        require_confirmed(api_key, base_url)
        self.model = model
        self.features = RequestFeatures() if logprobs else RequestFeatures(top_logprobs=0)
        self.can_tokenize: bool | None = None
        self.can_estimate: bool | None = None
        self.on_cpu = False
        self.timeouts = timeouts if stall_timeout is None else timeouts.with_stall(stall_timeout)
        self.send_seed = send_seed
        self.logprobs = logprobs
        self._stall = StallLimit(self.timeouts)
        self._unsent = UnsentBodies()
        self._client: openai.AsyncOpenAI | None = None
        self._make = _ClientMaker(self.address, key, timeouts)

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, model={self.model!r})"

    @property
    def base_url(self) -> str:
        """The base URL without credentials."""
        return self.address.base_url

    @property
    def counts_only_at_end(self) -> bool:
        """Whether only the final usage counts tokens, so that an aborted stream has no token count."""
        found = self.features
        while_streaming = found.token_ids or found.top_logprobs or found.running_usage
        return found.usage and not while_streaming and self.can_tokenize is False

    @property
    def likely_death(self) -> str:
        """What has probably ended this server if it died: a sentence after a blank, or nothing."""
        return f" {SEEDS_MAY_HAVE_KILLED}" if self.on_cpu and self.send_seed else ""

    async def __aenter__(self) -> Self:
        self._client = self._make()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def generate(self, request: GenerationRequest, sink: TokenSink) -> StreamOutcome:
        """Stream one generation into `sink`, chunk by chunk, until it ends or the sink returns True.

        A service failure is returned in `StreamOutcome.failure`; the sink has received what had arrived.
        Cancellation and exceptions of the sink close the connection and propagate.
        """
        outcome, _ = await self._run(request, sink, self.features)
        return outcome

    async def trial_generation(
        self, request: GenerationRequest, features: RequestFeatures
    ) -> TrialGeneration:
        """Generate once with these optional request fields, to see which ones the server supports."""
        tokens: list[Token] = []

        def keep(arrived: list[Token]) -> bool:
            tokens.extend(arrived)
            return False

        outcome, made = await self._run(request, keep, features)
        return TrialGeneration(outcome, made, tuple(tokens))

    async def _run(
        self, request: GenerationRequest, sink: TokenSink, features: RequestFeatures
    ) -> tuple[StreamOutcome, TokenAssembler]:
        async with self._unsent.hold(request):
            return await self._run_at_once(request, sink, features)

    async def _run_at_once(
        self, request: GenerationRequest, sink: TokenSink, features: RequestFeatures
    ) -> tuple[StreamOutcome, TokenAssembler]:
        import aiohttp
        import httpx2
        import openai

        started = clock.now()
        guard = asyncio.timeout(self.timeouts.first)
        limits = StreamLimits.of(request.max_tokens)
        stream = ResponseStream(self.address, sink, guard, self._stall, limits)
        try:
            async with guard, self._send(request, features) as response:
                await stream.read(response.http_response)
        except (openai.OpenAIError, httpx2.HTTPError, aiohttp.ClientError) as error:
            stream.failure = failures.failure_from_exception(
                error, self.address, at_token=stream.produced, begun=stream.begun
            )
        except TimeoutError:
            if not guard.expired():
                raise
            if stream.produced:
                stream.failure = failures.stall_failure(
                    self.address, stream.allowed, self._stall.longest, at_token=stream.produced
                )
            else:
                stream.failure = failures.timeout_failure(
                    self.address, self.timeouts.first, begun=stream.begun
                )
        stream.close()
        return await self._outcome(request, stream, started), stream.assembler

    async def query(
        self, path: str, json: object = None, *, at_root: bool = False
    ) -> HttpReply | ServiceFailure:
        """GET `path`, or POST `json` to it, below the base URL or the server's root.

        Returns the reply, whatever its HTTP status, or the failure if there was none.
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
            return failures.failure_from_exception(error, self.address, at_token=0, begun=False)
        except TimeoutError:
            return failures.timeout_failure(self.address, self.timeouts.probe, begun=False)
        return HttpReply(response.status_code, response.content, response.headers.get("content-type", ""))

    async def served_models(self) -> list[str]:
        """The model names listed by the server; empty if the list is unavailable."""
        reply = await self.query("/models")
        if isinstance(reply, ServiceFailure) or reply.status != 200 or lists_too_many(reply.body):
            return []
        try:
            return [card.id for card in msgspec.json.decode(reply.body, type=_NamedModels).data]
        except (ValueError, RecursionError):
            return []

    def _opened(self) -> openai.AsyncOpenAI:
        if self._client is None:
            raise RuntimeError("Endpoint is used outside its `async with`")
        return self._client

    def _send(self, request: GenerationRequest, features: RequestFeatures) -> Any:
        """The SDK's context manager of a streamed response; entering it sends the request."""
        client = self._opened()
        if not self.send_seed:
            request = replace(request, seed=None)
        body = build_body(request, request.model or self.model or "", features)
        model = body.pop("model")
        if request.messages is not None:
            return client.chat.completions.with_streaming_response.create(
                model=model, messages=body.pop("messages"), stream=True, extra_body=body
            )
        return client.completions.with_streaming_response.create(
            model=model, prompt=body.pop("prompt"), stream=True, extra_body=body
        )

    async def _outcome(
        self, request: GenerationRequest, stream: ResponseStream, started: float
    ) -> StreamOutcome:
        ended = clock.now()
        made = stream.assembler
        failure = stream.determine_failure()
        if failure is not None and failure.kind is FailureKind.NOT_FOUND:
            failure = await self._name_served(request, failure)
        count, source = await counting.resolve_token_count(
            self, made, limit=request.max_tokens, alive=failure is None
        )
        return StreamOutcome(
            finish_reason=self._shown(made.finish_reason),
            failure=failure,
            aborted=stream.aborted,
            prompt_tokens=made.prompt_tokens,
            output_tokens=count,
            token_source=source,
            started=started,
            first_token=stream.first_token,
            ended=ended,
            stop_reason=self._shown(made.stop_reason)
            if isinstance(made.stop_reason, str)
            else made.stop_reason,
            answered_by=self._shown(stream.gateway.model or made.model),
            reasoning_tokens=made.reasoning_tokens,
            answer_id=self._shown(made.answer_id),
            created=made.created,
            fingerprint=self._shown(
                ", ".join(filter(None, (stream.gateway.server, made.fingerprint))) or None
            ),
            event_ends=made.event_ends,
            gateway_retries=stream.gateway.retries,
        )

    def _shown(self, name: str | None) -> str | None:
        """A word of the server that is stored and shown, on one line: a server may echo the key of its
        request."""
        return name and " ".join(self.address.hide_parts(name)[:LONGEST_MODEL_NAME].split())

    async def _name_served(self, request: GenerationRequest, failure: ServiceFailure) -> ServiceFailure:
        model, served = request.model or self.model or "", await self.served_models()
        if not served or model in served:
            return failure
        return replace(failure, message=failures.unknown_model_sentence(self.address, model, served))


class _ClientMaker:
    """Creates the SDK's client. The only holder of the API key, with a repr that does not show it."""

    def __init__(self, address: EndpointAddress, key: str | None, timeouts: Timeouts) -> None:
        self._address = address
        self._key = key
        self._timeouts = timeouts

    def __repr__(self) -> str:
        return "<client maker>"

    def __call__(self) -> openai.AsyncOpenAI:
        import httpx2
        import openai

        from stresstest.endpoint.transport import DirectTransport

        # No read timeout: the library cannot distinguish queueing from a stall, so `_run` sets the limits.
        timeout = httpx2.Timeout(None, connect=self._timeouts.connect)
        authorization = self._address.authorization or f"Bearer {self._key or PLACEHOLDER_KEY}"
        return openai.AsyncOpenAI(
            base_url=self._address.base_url,
            api_key=self._key or PLACEHOLDER_KEY,
            max_retries=0,
            timeout=timeout,
            default_headers={"Authorization": authorization},  # before OPENAI_CUSTOM_HEADERS
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=timeout,
                transport=DirectTransport(),
                event_hooks={"response": [refuse_foreign_redirect]},
            ),
        )
