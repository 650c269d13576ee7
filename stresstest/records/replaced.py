"""Texts that stand in the place of an answer: a redactor's mark, a hash, what a store packed, an error."""

from __future__ import annotations

import base64
import json
import re

_LONGEST_MARK = 80
_DONE = (
    "redacted|filtered|masked|removed|hidden|scrubbed|censored|omitted|withheld|suppressed|sanitized|elided"
    "|anonymi[sz]ed|pseudonymi[sz]ed|encrypted|protected|not[ _-]?(?:logged|stored|recorded|kept)"
)
_OPENS, _CLOSES = r"[\[<({#_*~|-]+", r"[\]>)}#_*~|-]+"
_MARK = re.compile(
    rf"\s*(?:{_OPENS}[^\n]{{0,40}}?(?<![A-Za-z])(?:{_DONE})[^\n]{{0,40}}?{_CLOSES}|[*•█▇■]{{3,16}})\s*",
    re.IGNORECASE,
)
"""``[REDACTED]``, ``<content removed by policy>``, ``***``."""
_COUNTED = re.compile(r"\s*<streaming_complete: \d{1,9} tokens>\s*")
"""What vLLM's log has in place of a streamed answer that it did not keep."""
_HASH = re.compile(
    r"\s*(?:(?:sha|md5|blake)[\w-]*[:=$])?(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{128})\s*",
    re.IGNORECASE,
)
_PACKED = re.compile(r"\s*(?:H4sI|KLUv|eJ[wxyz]|QlpoO|gAAAAA|vault:v\d+:|AQICAH)[A-Za-z0-9+/_=-]{32,}\s*")
"""How gzip, zstd, zlib and bzip2 begin in base64, and Fernet, Vault and KMS."""


_SEALED = re.compile(
    r"\s*(?:ENC\[AES\w*,data:|-----BEGIN PGP MESSAGE-----|\{\"p\":\s?\"[A-Za-z0-9+/=]{16,}\",\s?\"h\":\s?\{)"
)
"""How SOPS, pgcrypto and Rails' encrypted columns begin."""
_ELSEWHERE = re.compile(
    r"\s*(?:(?:s3|gs|abfss?|wasbs?|hdfs|dbfs|oss|cos)://\S{1,1000}|(?:[a-z_]\w*\.){2,}[A-Z][\w$]*@[0-9a-f]{4,16})\s*"
)
"""The address of the file that holds it, in an object store; the name that Java prints of an object."""
_LEAST_ENCODED, _HALF = 96, "\ufffd"
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_JWE = re.compile(r"eyJ[\w-]+\.[\w-]*\.[\w-]+\.[\w-]+\.[\w-]+")
_LEAST_DIFFERENT = 40
"""Of the 64 signs, at least, in what looks encrypted: a model that fails writes a few again and again."""
_LONGEST_ERROR = 300
_ERROR = re.compile(
    r"\s*(?:Traceback \(most recent call last\)|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Timeout)\s*[:(]"
    r"|(?:[A-Za-z_]\w*\.)+(?:Error|Exception|Timeout)\s*[:(]"
    r"|(?:Failed|Unable) to (?:obtain|get|fetch|receive)\b"
    r"|(?:HTTP(?:/[\d.]+)?\s*)?(?:Error|ERROR|error)(?:\s+code)?[:\s]\s*[45]\d\d\b|HTTP(?:/[\d.]+)?\s+[45]\d\d\b"
    r"|[45]\d\d (?:Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)"
    r"|(?:The )?(?:[Rr]equest|[Cc]onnection|[Uu]pstream)(?: has| was)? "
    r"(?:timed out|aborted|reset|cancell?ed)\b"
    r"|An error occurred \(\w+\) when calling )"
)
"""How an exception or a status begins that was logged as the answer."""
_CLIENTS = (
    "aiohttp|anthropic|azure|botocore|cohere|fireworks|google|groq|grpc|httpcore|httpx|huggingface_hub|litellm"
    "|mistralai|ollama|openai|requests|together|urllib3|vertexai"
)
_LEAD = (
    r"(?:[^\n]{0,80}?\b(?:[Ee]rrors?|ERRORS?|[Ee]xception|EXCEPTION|[Ff]ail(?:ed|ure)|FAIL(?:ED|URE)|[Uu]nable"
    r"|[Cc]ould not|[Cc]annot)\b[^\n]{0,60}?(?:[:\]\u2014,-]|\(error_code: \d+,)\s+)?"
)
"""What an application writes before it: "Error in generating model output:" (smolagents)."""
_IN_TRANSIT = (
    r"bad response status code [45]\d\d\b|error, status code: [45]\d\d,|stream error: stream ID \d"
    r"|[\w ]{0,40}(?:[Ee]rror|[Ff]ailed|[Tt]imeout|[Uu]navailable|[Oo]verloaded)[\w ]{0,20} \(request id: "
    r"|<_\w*(?:Rendezvous|RpcError) of RPC that|Failure during \w+\. \((?:GET|POST) http"
    r"|\d\d? (?:CANCELLED|UNKNOWN|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|ABORTED|INTERNAL|UNAVAILABLE): "
    r"|Read timeout on endpoint URL: \"|req_id: \w{8,} \w+Error|\[\w+\] Connection Error, "
    r"|Response payload is not completed: |\('Connection aborted\.',|upstream connect error or disconnect"
    r"|Server error: CANCELLED|\*\*(?:GENERATION STOPPED|LLMServer Generate Error)|\$ERROR\$\s*\Z"
    r"|The (?:request|operation) was cancell?ed (?:due to the configured|after \d)"
    r"|llama runner process has terminated: |Ollama call failed with status code [45]\d\d"
    r"|(?:Server|Client) error: (?:Server|Client) error \("
    r"|(?:[Rr]equest failed with status code [45]\d\d|HTTP error! status: [45]\d\d|error code: 5\d\d"
    r"|(?:Request|Operation|Generation) timed out after [\d.]+ ?(?:m?s|seconds)|timeout of \d+ ?ms exceeded"
    r"|\[Errno \d+\] [A-Z][^\n]{0,80}|Timeout on reading data from socket|Response ended prematurely"
    r"|peer closed connection without sending complete message body|no healthy upstream|stream timeout"
    r"|Server disconnected(?: without sending a response)?|socket hang up|fetch failed"
    r"|(?:This|The) operation (?:was aborted(?: due to timeout)?|timed out)|Internal Server Error"
    r"|Gateway Time-?out|Bad [Gg]ateway)(?: \([^)\n]{0,80}\))?\.?\s*\Z"
)
"""What HTTP and gRPC clients, and gateways (one-api, Envoy, Cloudflare, Dify, Ollama) say of a request that
broke off. The last ones are all there is: an answer about an error goes on."""
_CLIENT_ERROR = re.compile(
    rf"\s*{_LEAD}(?:{_IN_TRANSIT}|(?:{_CLIENTS})\.(?:\w+\.)*_?[A-Z]\w*(?:: |(?:Error|Exception|Timeout)\()"
    r"|Traceback \(most recent call last\):\s+File \"|Error code: [45]\d\d - [{\[]"
    r"|[45]\d\d (?:Server|Client) Error: |[45]\d\d \{\""
    r"|(?:Server|Client) error '[45]\d\d |\[[45]\d\d\] [A-Z]"
    r"|[45]\d\d, message='|[45]\d\d [A-Z]+_[A-Z]+\b|504 Deadline Exceeded|API error occurred: Status [45]\d\d"
    r"|HTTPS?ConnectionPool\(|headers: \{.{0,2000}?\bstatus_code: [45]\d\d|I/O error on [A-Z]+ request for "
    r"|Connection error\.\s*\Z|Request timed out\.\s*\Z|upstream request timeout|context deadline exceeded"
    r"|(?:read|write|dial) (?:tcp|unix) \S|(?:Get|Post|Put) \"https?://"
    r"|(?:[A-Z][\w' -]{2,60}: )?line \d+ column \d+ \(char \d+\)"
    r"|CUDA out of memory\. Tried to allocate|CUDA error: |Error during inference: "
    r"|\*\*NETWORK ERROR DUE TO HIGH TRAFFIC\. PLEASE REGENERATE"
    r"|Error: timeout of \d+ ?ms exceeded|Ran into this error: )"
)
"""How Python prints an exception that a client has raised, with its traceback or without; how the clients of
OpenAI, Hugging Face, Cohere, Mistral, NVIDIA and Google say it, and requests, httpx, aiohttp, axios, Go,
Spring, Envoy, Python's JSON and PyTorch, with the address and an id behind it; BFCL, FastChat and goose."""
_LONGEST_BODY = 20_000
_ERROR_PAGE = re.compile(
    r"\s*<(?:!doctype html|html)\b.{0,2000}?<title>[^<]{0,120}?(?:\b5\d\d\b|error: the request)",
    re.IGNORECASE | re.DOTALL,
)
"""A page of a gateway: nginx, Cloudflare, CloudFront. A page for 404 may be what was asked for."""
_BODY_KEYS = frozenset(
    {
        "code",
        "detail",
        "details",
        "error",
        "error_type",
        "errortype",
        "innererror",
        "message",
        "msg",
        "object",
    }
    | {"param", "path", "status", "status_code", "statuscode", "timestamp", "type"}
    | {"activityid", "id", "request_id", "requestid", "trace_id", "traceid"}
)
"""In lower case."""
_FAILED = re.compile(
    r"\w*(?:Error|Exception|Time-?[Oo]ut)\b|[A-Z_]*(?:ERROR|EXCEEDED|UNAVAILABLE|TIMEOUT|INTERNAL)\b"
    r"|.{0,80}?\b(?:tim(?:ed|ing) out|(?:internal|server) error|failed during|upstream|overloaded)\b",
)


LEAST_HTTP_ERROR, _NO_HTTP_STATUS = 400, 600


def is_error(text: str) -> bool:
    """Whether a short text is an error of the request, and no answer of a model."""
    if len(text) <= _LONGEST_ERROR and _ERROR.match(text):
        return True
    if len(text) > _LONGEST_BODY:
        return False
    return any(known.match(text) for known in (_CLIENT_ERROR, _ERROR_PAGE)) or _is_error_body(text)


def _is_error_body(text: str) -> bool:
    """Whether it is what servers send in place of a completion: {"error": {"message": "…", "code": 504}}."""
    if text.lstrip()[:1] != "{":
        return False
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(body, dict) or not {str(key).lower() for key in body} <= _BODY_KEYS:
        return False
    inner = body.get("error")
    if isinstance(inner, dict):
        return {"message", "code"} <= inner.keys() or any(map(_tells_of_failure, inner.values()))
    return any(map(_tells_of_failure, body.values()))


def _tells_of_failure(value: object) -> bool:
    if isinstance(value, str):
        return _FAILED.match(value) is not None
    return isinstance(value, int) and LEAST_HTTP_ERROR <= value < _NO_HTTP_STATUS


def is_replaced(text: str) -> bool:
    """Whether nothing of the answer is there, but what somebody put in its place."""
    if len(text) <= _LONGEST_MARK and _MARK.fullmatch(text):
        return True
    if text.startswith("<") and _COUNTED.fullmatch(text):
        return True
    packed = _PACKED.match(text) if len(text) > 2 * _LONGEST_MARK else _PACKED.fullmatch(text)
    if packed or _HASH.fullmatch(text) or _ELSEWHERE.fullmatch(text):
        return True
    return _SEALED.match(text) is not None or _is_encoded(text)


def _is_encoded(text: str) -> bool:
    """Whether a text is another one in base64, as SageMaker captures bodies unless it is told their types, or
    bytes that are none: encrypted, in one line or several."""
    text = text.strip()
    if len(text) < _LEAST_ENCODED:
        return False
    if " " in text[:_LEAST_ENCODED]:
        return False
    if text.startswith("eyJ") and _JWE.fullmatch(text):
        return True
    joined = "".join(text.splitlines())
    if _BASE64.fullmatch(joined) is None:
        return False
    begins = base64.b64decode(joined[:_LEAST_ENCODED]).decode("utf-8", "replace").rstrip(_HALF)
    if _HALF not in begins and " ".join(begins.split()).isprintable():
        return True
    some = joined[: 4 * _LEAST_ENCODED]
    return len(set(some)) >= min(_LEAST_DIFFERENT, len(some) // 3) and _is_mixed(some)


def _is_mixed(text: str) -> bool:
    return any(map(str.isupper, text)) and any(map(str.islower, text)) and any(map(str.isdigit, text))
