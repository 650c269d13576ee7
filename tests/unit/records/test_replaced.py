"""What stands in the place of an answer is no answer."""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib

import pytest

from stresstest.records.replaced import is_replaced
from tests.support.stories import story

TEXT = story(8)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "[REDACTED]",
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
