"""What went wrong on the wire, as a fact and in a sentence that a user understands.

Everything a library raises ends here: as a ServiceFailure (a stream that was lost; data) or an
EndpointError (the campaign cannot go on). Neither ever holds a credential.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from stresstest import clock
from stresstest.endpoint.address import Address
from stresstest.errors import EndpointError
from stresstest.model import FailureKind, ServiceFailure

if TYPE_CHECKING:
    from stresstest.endpoint.wire import Chunk

FATAL: frozenset[FailureKind] = frozenset(
    {FailureKind.UNAUTHORIZED, FailureKind.NOT_FOUND, FailureKind.BAD_REQUEST}
)
"""Kinds that asking again cannot mend."""

_HINTS: Mapping[FailureKind, str] = {
    FailureKind.REFUSED: "Start the server, or point --base-url at it.",
    FailureKind.UNAUTHORIZED: "Set --api-key or OPENAI_API_KEY.",
    FailureKind.NOT_FOUND: "Check --model and --base-url (it usually ends in /v1).",
    FailureKind.MALFORMED: "Check --base-url (it usually ends in /v1).",
}
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
    """The same failure as the error that ends a command."""
    return EndpointError(failure.message, hint=_HINTS.get(failure.kind))


def kind_of_status(status: int) -> FailureKind:
    """429 and 5xx may pass; the other 4xx say that the request itself will never do."""
    if status in _STATUS_KINDS:
        return _STATUS_KINDS[status]
    return FailureKind.BAD_REQUEST if 400 <= status < 500 else FailureKind.HTTP_ERROR


def from_status(
    status: int,
    body: bytes,
    address: Address,
    *,
    headers: Mapping[str, str] | None = None,
    model: str | None = None,
    served: Sequence[str] = (),
) -> ServiceFailure:
    """An HTTP answer that is an error. `served`: the models the server lists, for a 404."""
    kind = kind_of_status(status)
    said = _said(body, address)
    told = f": {said}" if said else "."
    where = address.base_url
    if kind is FailureKind.UNAUTHORIZED:
        message = f"The server at {where} rejected the API key ({status}). Set --api-key or OPENAI_API_KEY."
    elif kind is FailureKind.NOT_FOUND and model is not None and served and model not in served:
        message = unknown_model(address, model, served)
    elif kind is FailureKind.NOT_FOUND:
        message = f"The server at {where} does not know this address or model (404){told}"
    elif kind is FailureKind.RATE_LIMITED:
        message = f"The server at {where} is limiting requests (429){told}"
    elif kind is FailureKind.BAD_REQUEST:
        message = f"The server at {where} refused the request ({status}){told}"
    else:
        message = f"The server at {where} answered with an error ({status}){told}"
    return ServiceFailure(kind, message, status=status, retry_after=_retry_after(headers or {}))


def unknown_model(address: Address, model: str, served: Sequence[str]) -> str:
    """A sentence that names what is served, the closest name first if one is close."""
    shown = ", ".join(address.clean(name) for name in served[:10]) or "nothing"
    close = difflib.get_close_matches(model, served, n=1, cutoff=0.5)
    meant = f" Did you mean '{address.clean(close[0])}'?" if close and len(served) > 1 else ""
    wanted = address.clean(model)
    return f"The server at {address.base_url} does not serve '{wanted}'; it serves: {shown}.{meant}"


def from_exception(error: BaseException, address: Address, *, at_token: int, begun: bool) -> ServiceFailure:
    """What the SDK, its transport or a time limit raised.

    begun: the response's headers had arrived, so the connection itself had been made.
    """
    import httpx2
    import openai

    where = address.base_url
    if isinstance(error, openai.APIStatusError):
        return from_status(error.status_code, error.response.content, address, headers=error.response.headers)
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
        kind, message = FailureKind.REFUSED, _connect_sentence(cause, address)
    elif isinstance(cause, httpx2.DecodingError):
        kind = FailureKind.MALFORMED
        message = f"The server at {where} sent a body that cannot be decompressed."
    elif isinstance(cause, httpx2.RemoteProtocolError) and not begun and not _hung_up(cause):
        kind, message = FailureKind.MALFORMED, f"What answers at {where} does not speak HTTP."
    elif begun:
        message = f"The connection to {where} was cut after {at_token} output tokens."
    return ServiceFailure(kind, message, at_token=at_token)


def late(address: Address, seconds: float, *, at_token: int, begun: bool) -> ServiceFailure:
    """A time limit of ours ran out: before the first output it is a timeout, after it a stall."""
    where, limit = address.base_url, f"{seconds:g} s"
    if at_token:
        return ServiceFailure(
            FailureKind.STALL,
            f"The stream from {where} stood still for {limit} after {at_token} output tokens.",
            at_token=at_token,
        )
    what = "accepted the request but sent no token" if begun else "did not answer"
    return ServiceFailure(FailureKind.TIMEOUT, f"The server at {where} {what} within {limit}.")


def from_stream_error(chunk: Chunk, address: Address, *, at_token: int) -> ServiceFailure:
    """The error object that a server puts into a stream after it has already sent 200."""
    found = chunk.error
    if found is None:
        found = {"message": chunk.message, "code": chunk.code}
    said, status = str(found), None
    if isinstance(found, dict):
        said = str(found.get("message") or found.get("type") or "no reason given")
        code = found.get("code")
        status = code if isinstance(code, int) and 400 <= code <= 599 else None
    # Only before the first token does a status inside the stream say that the request was refused.
    kind = FailureKind.STREAM_ERROR
    if status is not None and not at_token and kind_of_status(status) in FATAL:
        kind = kind_of_status(status)
    message = f"The server at {address.base_url} reported an error inside the stream: {address.clean(said)}"
    return ServiceFailure(kind, message, status=status, at_token=at_token)


def not_a_stream(address: Address, beginning: bytes, *, at_token: int) -> ServiceFailure:
    """The answer is not the event stream that was asked for."""
    text = beginning.decode("utf-8", "replace")
    page = "<html" in text.lower() or "<!doctype" in text.lower()
    what = "a web page" if page else "something that is no event stream"
    shown = "" if page or not text.strip() else f": {address.clean(text)}"
    return ServiceFailure(
        FailureKind.MALFORMED,
        f"The server at {address.base_url} answered with {what}{shown}"
        if shown
        else f"The server at {address.base_url} answered with {what}. Is the base URL right?",
        at_token=at_token,
    )


def _hung_up(error: Exception) -> bool:
    return any(word in str(error) for word in ("closed", "disconnected"))


def _connect_sentence(error: Exception, address: Address) -> str:
    text = str(error).lower()
    where = address.base_url
    if any(word in text for word in ("name or service", "nodename", "getaddrinfo", "name resolution")):
        return f"The host of {where} is not known (name lookup failed)."
    if "certificate" in text or "ssl" in text or "tls" in text:
        return f"No secure connection to {where}: {address.clean(_SOURCE_LINE.sub('', str(error)))}"
    if any(word in text for word in ("reset", "eof", "broken pipe")):
        tls = " Does it speak https?" if where.startswith("https:") else ""
        return f"The server at {where} closed the connection while it was being made.{tls}"
    if "unreachable" in text or "no route" in text:
        return f"The host of {where} cannot be reached from here."
    return f"The server at {where} refused the connection. Is vLLM running there?"


def _said(body: bytes, address: Address) -> str:
    """The server's own words: the message of a JSON error, else the text without its tags."""
    text = body[:65536].decode("utf-8", "replace")
    try:
        found: Any = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return address.clean(re.sub(r"<[^>]*>", " ", text))
    for key in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    return address.clean(found if isinstance(found, str) else text)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header, which holds a number or a date."""
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
