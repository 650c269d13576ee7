"""Converts errors of the connection and the server into failures with a message for the user.

Library exceptions become a ServiceFailure (data: the stream was lost) or an EndpointError (the campaign
cannot continue). Neither ever contains a credential.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from stresstest import clock
from stresstest.config.suggestions import closest_names
from stresstest.endpoint.address import EndpointAddress
from stresstest.errors import EndpointError
from stresstest.http_limits import MAX_ERROR_BYTES
from stresstest.model import FailureKind, ServiceFailure

if TYPE_CHECKING:
    from stresstest.endpoint.wire import StreamChunk

FATAL_FAILURES: frozenset[FailureKind] = frozenset(
    {FailureKind.UNAUTHORIZED, FailureKind.NOT_FOUND, FailureKind.BAD_REQUEST}
)
"""Kinds for which a retry is pointless."""

_HINTS: Mapping[FailureKind, str] = {
    FailureKind.REFUSED: "Start the server, or point --base-url at it.",
    FailureKind.UNAUTHORIZED: "Set --api-key or OPENAI_API_KEY.",
    FailureKind.NOT_FOUND: "Check --model and --base-url (it usually ends in /v1).",
    FailureKind.MALFORMED: "Check --base-url (it usually ends in /v1).",
}
_LEFT_OUT: Mapping[str, str] = {"seed": "--no-seed", "logprobs": "--no-logprobs"}
"""Fields that an option leaves out of the requests: not every API takes them."""
_HTML_TAG = re.compile(r"<[^<>]{0,512}>")
"""Bounded, so that a body of many `<` takes linear time."""
_SOURCE_LINE = re.compile(r" ?\(_ssl\.c:\d+\)")
_STATUS_KINDS: Mapping[int, FailureKind] = {
    401: FailureKind.UNAUTHORIZED,
    403: FailureKind.UNAUTHORIZED,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    425: FailureKind.HTTP_ERROR,
    429: FailureKind.RATE_LIMITED,
}


def endpoint_error(failure: ServiceFailure) -> EndpointError:
    """The failure as an exception that ends the command."""
    return EndpointError(failure.message, hint=_HINTS.get(failure.kind) or _option_against(failure))


def _option_against(failure: ServiceFailure) -> str | None:
    """The option that leaves out a field of which a refusal speaks."""
    if failure.kind is not FailureKind.BAD_REQUEST:
        return None
    found = (f for f in _LEFT_OUT if re.search(rf"(?<![a-z]){f}(?![a-z])", failure.message))
    return next((f"If this API takes no {field}, measure with {_LEFT_OUT[field]}." for field in found), None)


def kind_of_status(status: int) -> FailureKind:
    """The kind of an HTTP error status. 429 and 5xx may be temporary; most other 4xx are permanent."""
    if status in _STATUS_KINDS:
        return _STATUS_KINDS[status]
    return FailureKind.BAD_REQUEST if 400 <= status < 500 else FailureKind.HTTP_ERROR


def failure_from_status(
    status: int, body: bytes, address: EndpointAddress, *, headers: Mapping[str, str] | None = None
) -> ServiceFailure:
    """The failure for an HTTP error response."""
    kind = kind_of_status(status)
    said = _server_message(body, address)
    told = f": {said}" if said else "."
    where = address.base_url
    if kind is FailureKind.UNAUTHORIZED:
        message = f"The server at {where} rejected the API key ({status}). Set --api-key or OPENAI_API_KEY."
    elif kind is FailureKind.NOT_FOUND:
        message = f"The server at {where} does not know this address or model (404){told}"
    elif kind is FailureKind.RATE_LIMITED:
        message = f"The server at {where} is limiting requests (429){told}"
    elif kind is FailureKind.BAD_REQUEST:
        message = f"The server at {where} refused the request ({status}){told}"
    else:
        message = f"The server at {where} answered with an error ({status}){told}"
    return ServiceFailure(kind, message, status=status, retry_after=_retry_after(headers or {}))


def unknown_model_sentence(address: EndpointAddress, model: str, served: Sequence[str]) -> str:
    """A message that lists the served models and suggests a similar name."""
    shown = ", ".join(address.redact(name) for name in served[:10]) or "nothing"
    close = closest_names(model, served, cutoff=0.5)
    meant = f" Did you mean '{address.redact(close[0])}'?" if close and len(served) > 1 else ""
    wanted = address.redact(model)
    return f"The server at {address.base_url} does not serve '{wanted}'; it serves: {shown}.{meant}"


def failure_from_exception(
    error: BaseException, address: EndpointAddress, *, at_token: int, begun: bool
) -> ServiceFailure:
    """The failure for an exception of the SDK or its transport.

    at_token: output tokens received. begun: whether the response's headers had arrived.
    """
    import httpx2
    import openai

    where = address.base_url
    if isinstance(error, openai.APIStatusError):
        return failure_from_status(
            error.status_code, error.response.content, address, headers=error.response.headers
        )
    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) and error.__cause__ else error
    kind, message = FailureKind.CUT, f"The server at {where} closed the connection before it answered."
    if isinstance(cause, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        kind, message = FailureKind.TIMEOUT, f"No connection to {where} could be made in time."
    elif isinstance(cause, httpx2.TimeoutException):
        kind, message = FailureKind.TIMEOUT, f"The server at {where} did not answer in time."
    elif isinstance(cause, httpx2.ProxyError):
        kind = FailureKind.REFUSED
        message = f"The proxy that the environment names for {where} cannot be used (http_proxy, no_proxy)."
    elif isinstance(cause, httpx2.ConnectError | httpx2.UnsupportedProtocol):
        message = _connect_sentence(cause, address)
        if not _is_own_fault(cause):
            kind = FailureKind.REFUSED
    elif isinstance(cause, httpx2.TooManyRedirects):
        kind = FailureKind.MALFORMED
        message = f"The server at {where} answered with a {address.redact(str(cause))}: it is not followed."
    elif isinstance(cause, httpx2.DecodingError):
        kind = FailureKind.MALFORMED
        message = f"The server at {where} sent a body that cannot be decompressed or is too large."
    elif isinstance(cause, httpx2.RemoteProtocolError) and not begun and not _is_disconnect(cause):
        kind, message = FailureKind.MALFORMED, f"What answers at {where} does not speak HTTP."
    elif begun:
        message = f"The connection to {where} was cut after {at_token} output tokens."
    return ServiceFailure(kind, message, at_token=at_token)


def timeout_failure(address: EndpointAddress, seconds: float, *, begun: bool) -> ServiceFailure:
    """The failure for an exceeded time limit before the first output token."""
    what = "accepted the request but sent no token" if begun else "did not answer"
    message = f"The server at {address.base_url} {what} within {seconds:g} s."
    return ServiceFailure(FailureKind.TIMEOUT, message)


def stall_failure(
    address: EndpointAddress, seconds: float, longest: float, *, at_token: int
) -> ServiceFailure:
    """The failure for a stream that was closed because it stood still for so many seconds.

    longest: seconds of the longest silence that the server has ended by itself.
    """
    return ServiceFailure(
        FailureKind.STALL,
        f"The stream from {address.base_url} stood still for {seconds:.4g} s after {at_token} output tokens; "
        f"the longest pause of this server before was {longest:.1f} s. If it is only slow, give it longer: "
        "--stall-timeout SECONDS.",
        at_token=at_token,
    )


def cap_ignored_failure(address: EndpointAddress, max_tokens: int, *, at_token: int) -> ServiceFailure:
    """The failure for a stream that was closed because it continued beyond its `max_tokens`."""
    return ServiceFailure(
        FailureKind.CAP_IGNORED,
        f"The server at {address.base_url} ignores max_tokens: it had sent {at_token} output tokens where "
        f"{max_tokens} were the limit, and the stream was closed.",
        at_token=at_token,
    )


def endless_stream_failure(address: EndpointAddress, what: str, *, at_token: int) -> ServiceFailure:
    """The failure for a stream that was closed because its server did not end it. what: "bytes" or "time"."""
    why = "sent far more than max_tokens tokens can hold" if what == "bytes" else "did not end it in time"
    return ServiceFailure(
        FailureKind.CAP_IGNORED,
        f"A stream from {address.base_url} was closed after {at_token} output tokens: the server {why}.",
        at_token=at_token,
    )


def failure_from_stream_error(
    chunk: StreamChunk, address: EndpointAddress, *, at_token: int
) -> ServiceFailure:
    """The failure for an error object inside a stream, sent after status 200."""
    found = chunk.error
    if found is None:
        found = {"message": chunk.message, "code": chunk.code}
    said, status = str(found), None
    if isinstance(found, dict):
        said = str(found.get("message") or found.get("type") or "no reason given")
        code = found.get("code")
        status = code if isinstance(code, int) and 400 <= code <= 599 else None
    # A status inside the stream means that the request was rejected only before the first token.
    kind = FailureKind.STREAM_ERROR
    if status is not None and not at_token and kind_of_status(status) in FATAL_FAILURES:
        kind = kind_of_status(status)
    message = f"The server at {address.base_url} reported an error inside the stream: {address.redact(said)}"
    return ServiceFailure(kind, message, status=status, at_token=at_token)


def not_a_stream_failure(address: EndpointAddress, beginning: bytes, *, at_token: int) -> ServiceFailure:
    """The failure for a response that is no event stream. beginning: its first bytes."""
    text = beginning.decode("utf-8", "replace")
    page = "<html" in text.lower() or "<!doctype" in text.lower()
    what = "a web page" if page else "something that is not an event stream"
    ending = ". Is the base URL right?" if page or not text.strip() else f": {address.redact(text)}"
    message = f"The server at {address.base_url} answered with {what}{ending}"
    return ServiceFailure(FailureKind.MALFORMED, message, at_token=at_token)


def _is_own_fault(error: Exception) -> bool:
    """Whether a connection was not made for what this machine lacks: no advice on the server helps."""
    return any(word in str(error).lower() for word in ("too many open files", "ssl_cert_"))


def _is_disconnect(error: Exception) -> bool:
    return any(word in str(error) for word in ("closed", "disconnected"))


def _connect_sentence(error: Exception, address: EndpointAddress) -> str:
    text = str(error).lower()
    where = address.base_url
    if any(word in text for word in ("name or service", "nodename", "getaddrinfo", "name resolution")):
        return f"The host of {where} is not known (name lookup failed)."
    if "too many open files" in text:
        return f"No connection to {where}: this process may not open as many files (ulimit -n)."
    if "certificate" in text or "ssl" in text or "tls" in text:
        return f"No secure connection to {where}: {address.redact(_SOURCE_LINE.sub('', str(error)))}"
    if any(word in text for word in ("reset", "eof", "broken pipe")):
        tls = " Does it speak https?" if where.startswith("https:") else ""
        return f"The server at {where} closed the connection while it was being made.{tls}"
    if "unreachable" in text or "no route" in text:
        return f"The host of {where} cannot be reached from here."
    return f"The server at {where} refused the connection. Is vLLM running there?"


def _server_message(body: bytes, address: EndpointAddress) -> str:
    """The server's error message: from a JSON error, else the body without HTML tags."""
    text = body[:MAX_ERROR_BYTES].decode("utf-8", "replace")
    try:
        found: Any = msgspec.json.decode(body) if len(body) <= MAX_ERROR_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if found is None:
        return address.redact(_HTML_TAG.sub(" ", text))
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    return address.redact(found if isinstance(found, str) else text)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait according to a Retry-After header (a number or a date), else None."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - clock.now()
        except (ValueError, TypeError, ArithmeticError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None
