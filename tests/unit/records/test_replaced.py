"""What stands in the place of an answer is no answer."""

from __future__ import annotations

import base64
import gzip
import hashlib
import random
import textwrap
import zlib

import pytest

from stresstest.records.replaced import is_error, is_replaced
from tests.support.stories import story

TEXT = story(8)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "[REDACTED]",
            "<streaming_complete: 1234 tokens>",
            "[Filtered]",
            "<masked>",
            "***",
            "********",
            "__REDACTED__",
            "<redacted: PII>",
            "{removed}",
        ),
        *(
            "[content removed by policy]",
            "(hidden)",
            "[text not stored]",
            "<PII_MASKED>",
            "[[encrypted]]",
            "█████",
        ),
        *(hashlib.sha256(TEXT.encode()).hexdigest(), f"sha256:{hashlib.sha256(b'x').hexdigest()}"),
        hashlib.md5(b"x").hexdigest(),
        base64.b64encode(gzip.compress(TEXT.encode())).decode(),
        base64.b64encode(zlib.compress(TEXT.encode())).decode(),
    ],
)
def test_a_mark_a_hash_or_packed_text_is_no_answer(text: str) -> None:
    """400 answers of "[Filtered]" were healthy, a gate passed, and T was certified, where 31 % loop."""
    assert is_replaced(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "Yes.",
            "42",
            "removed",
            "The file was removed.",
            "[1, 2, 3]",
            "(no)",
            "<br>",
            "# Title",
            "a***b",
            "-",
        ),
        *("[see the removed section](https://a.example/removed) for the rest of what was said about it",),
        *(
            "H4sI is how gzip begins in base64.",
            "deadbeef",
            "x",
            "**Bold** answer: it was filtered out.",
            TEXT,
        ),
    ],
)
def test_an_answer_is_an_answer(text: str) -> None:
    """However short it is."""
    assert not is_replaced(text)


@pytest.mark.parametrize(
    "text",
    [
        "openai.APITimeoutError: Request timed out.",
        "ReadTimeout(ReadTimeoutError('read timeout=60'))",
        "Error code: 504 - {'error': {'message': 'upstream'}}",
        "HTTP 503",
        "502 Bad Gateway",
        "Request timed out.",
        "Traceback (most recent call last):",
        "litellm.Timeout: APITimeoutError - Request timed out. - timeout value=600.0, time taken=600.1 s",
        "litellm.Timeout: APITimeoutError - Request timed out. Request timed out.\n\nDeployment Info: "
        + "request_timeout: None, " * 15,
        "Error code: 500 - {'error': {'message': 'The server had an error while processing your request. "
        + "You can retry your request. " * 15,
        'Traceback (most recent call last):\n  File "/app/chat.py", line 3, in ask\n'
        + "    more()\n" * 60
        + "openai."
        "APITimeoutError: Request timed out.",
        "Failed to obtain answer via API.",
        "504 Server Error: Gateway Time-out for url: http://10.0.0.7/v1/chat (Request ID: Root=1-7c0f;ab)",
        "Server error '504 Gateway Time-out' for url 'http://10.0.0.7/v1' (Request ID: 7c0f)\nFor more: …",
        "headers: {'date': 'today', 'x-debug-trace-id': '7c0f'}, status_code: 504, body: upstream",
        "[504] Gateway Timeout\nRequestID: 7c0f",
        "HTTPConnectionPool(host='10.0.0.7', port=8000): Read timed out. (read timeout=60)",
        "504, message='Gateway Timeout', url='http://10.0.0.7/v1'",
        "504 DEADLINE_EXCEEDED. {'error': {}}",
        "API error occurred: Status 504",
        "Connection error.",
        "upstream request timeout",
        "An error occurred (ModelError) when calling the InvokeEndpoint operation: Received server error (0)",
        '{"object":"error","message":"Engine core died.","type":"InternalServerError","code":500}',
        '{"error": {"code": 504, "message": "Deadline expired.", "status": "DEADLINE_EXCEEDED"}}',
        '{"code": "RequestTimeOut", "message": "Please try again later.", "request_id": "7c0f"}',
        '{"message": "The upstream server is timing out", "request_id": "7c0f"}',
        '{"error": "Request failed during generation: Server error: 7c0f", "error_type": "generation"}',
        "<!DOCTYPE html>\n<head>\n<title>llm.example.com | 524: A timeout occurred</title>\n</head>",
        "<html>\r\n<head><title>504 Gateway Time-out</title></head>\r\n<body>nginx</body></html>",
        "Error during inference: Error code: 500 - {'error': {'message': 'x', 'request_id': 'req_1'}}",
        "Error during inference: Unterminated string starting at: line 1 column 33 (char 32)",
        "Error in generating model output:\nlitellm.Timeout: APITimeoutError - Request timed out.",
        'API Error: 500 {"type":"error","error":{"type":"api_error"},"request_id":"req_011"}',
        "[ERROR] Error code: 504 - {'error': 'upstream'}",
        "Failed to call the model: HTTPConnectionPool(host='vllm', port=8000): Read timed out.",
        'Post "http://vllm:8000/v1/completions": read tcp 10.0.0.1:51234->10.0.0.2:8000: i/o timeout',
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which "
        "3.25 MiB is free. Including non-PyTorch memory, this process has 79.14 GiB memory in use. Of the "
        "allocated memory 77.91 GiB is allocated by PyTorch, and 512.31 MiB is reserved by PyTorch but "
        "unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF.",
        "**NETWORK ERROR DUE TO HIGH TRAFFIC. PLEASE REGENERATE OR REFRESH THIS PAGE.**\n\n(error_code: 5)",
        "Ran into this error: Server error: Server error (504 Gateway Timeout): bad response status code 504 "
        "(request id: 20261130120015100111).\n\nPlease retry if you think this is a transient error.",
        "Error: bad response status code 504 (request id: 20261130120015100111)",
        "<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.DEADLINE_EXCEEDED",
        "Failure during generate. (POST https://host/ml/v1/text/generation?version=2024)\nStatus code: 504",
        "stream error: stream ID 5; INTERNAL_ERROR; received from peer",
        "Error: Request failed with status code 504",
        "Error: Request timed out after 120.3 seconds",
        "API Error: The operation timed out.",
        "peer closed connection without sending complete message body (incomplete chunked read)",
        "Error: 14 UNAVAILABLE: upstream request timeout",
        "$ERROR$",
    ],
)
def test_an_error_that_was_logged_as_the_answer(text: str) -> None:
    """35 % of the answers were "Request timed out.", and a gate passed: the loops were the time-outs."""
    assert is_error(text)


@pytest.mark.parametrize(
    "text",
    [
        "The error is 504 in most cases.",
        "Errors happen.",
        "HTTP is a protocol.",
        "502 people came.",
        "Connection error. Its causes are many.",
        "[404] is the code of a page that is not there.",
        "headers: {a list of names}",
        "openai.OpenAI() makes a client. " * 12,
        "ValueError: what it means, and what to do about it. " * 8,
        "Error code: 404 - this page explains what it means. " * 8,
        "Error",
        '{"error": "no invoice number was found", "details": []}',
        '{"error": {"message": "The total does not match."}, "status": "rejected"}',
        '{"code": 504, "message": "Gateway timeout", "retries": 3}',
        '{"message": "Hello", "id": 7}',
        "[]",
        '{"error": ',
        "<!DOCTYPE html><html><head><title>404 – Page not found</title></head></html>",
        TEXT,
        "The error means that the request failed: Error code 500 is raised by the server, which logs it.",
        "Error message: Request failed with status code 404 means that the page is not there.",
        "Error: Internal Server Error is what a browser shows when the server has failed.",
        "3 UNKNOWNS: what we do not know of the harbour.",
        "Your refund (request id: 8812) is on its way.",
        "[Errno 13] Permission denied: this is what Python says when it may not open a file. " * 4,
        "Error handling: read the body first. 500 is what a gateway sends when its upstream is gone.",
    ],
)
def test_an_answer_about_errors_is_an_answer(text: str) -> None:
    """Its beginning is no exception's."""
    assert not is_error(text)


@pytest.mark.parametrize(
    "text", ['{"choices": [{"text": "So it goes."}]}' * 4, story(4), story(4).replace("e", "é")]
)
def test_a_body_in_base64_is_no_answer(text: str) -> None:
    """Fifty of 200 answers drifted to Italian; in base64 they were sound Polish."""
    assert is_replaced(base64.b64encode(text.encode()).decode())


_SEALED = base64.b64encode(random.Random(5).randbytes(400)).decode()


@pytest.mark.parametrize(
    "text",
    [
        _SEALED,
        "U2FsdGVkX1" + _SEALED[10:],
        "\n".join(textwrap.wrap(_SEALED, 64)),
        f"ENC[AES256_GCM,data:{_SEALED},iv:AA==,tag:AA==,type:str]",
        f"-----BEGIN PGP MESSAGE-----\n\n{_SEALED}\n-----END PGP MESSAGE-----\n",
        f'{{"p":"{_SEALED}","h":{{"iv":"AAAA","at":"AAAA"}}}}',
        "eyJhbGciOiJkaXIifQ..AAAA." + base64.urlsafe_b64encode(b"\xfe" * 201).decode() + ".AAAA",
        "s3://acme-llm-logs/responses/2026/11/29/0f3a.json",
        "com.acme.llm.ChatResponse@1b2c3d4",
    ],
)
def test_what_is_encrypted_or_kept_elsewhere_is_no_answer(text: str) -> None:
    """Three hundred answers in ciphertext were healthy, whatever was in them."""
    assert is_replaced(text)


@pytest.mark.parametrize(
    "text", ["AAAA" * 60, "abcd" * 60, hashlib.sha256(b"x").hexdigest() * 4, "aaaa" * 400]
)
def test_letters_without_blanks_are_an_answer(text: str) -> None:
    """A model that writes the like has failed."""
    assert not is_replaced(text)
