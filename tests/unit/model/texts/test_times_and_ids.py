"""What is new in each request although its question is not."""

from __future__ import annotations

import pytest

from stresstest.model.texts.times_and_ids import steady, without_times_and_ids

PICTURE = "iVBORw0KGgoAAAANSUhEUgAA" * 12


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It is 2026-11-29T04:00:00Z.", "It is 2026-11-30T17:12:09Z."),
        (
            "https://b.s3.amazonaws.com/p/1.png?X-Amz-Date=20261129T040000Z&X-Amz-Signature=0a1b2c3d&versionId=7",
            "https://b.s3.amazonaws.com/p/1.png?X-Amz-Date=20261130T171209Z&X-Amz-Signature=9f8e7d6c&versionId=7",
        ),
        (
            "https://a.blob.core.windows.net/c/p.png?sv=2024&se=2026-11-29&sig=ab%2B1",
            "https://a.blob.core.windows.net/c/p.png?sv=2024&se=2026-11-30&sig=zz%2B9",
        ),
    ],
)
def test_times_and_signatures_do_not_count(one: str, other: str) -> None:
    """Answers to one prompt would pass as answers to many."""
    assert steady(f'{{"url": "{one}"}}') == steady(f'{{"url": "{other}"}}')


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://b.example/scan-00017-aa.png", "https://b.example/scan-00018-aa.png"),
        ("https://b.example/page?id=90017", "https://b.example/page?id=90018"),
        (f"data:image/png;base64,{PICTURE}AAA1", f"data:image/png;base64,{PICTURE}AAA2"),
    ],
)
def test_other_files_are_other_prompts(one: str, other: str) -> None:
    """Pages of one document with one question each: their names and contents tell them apart."""
    assert steady(one) != steady(other)
    assert without_times_and_ids("What is on the page?") == "What is on the page?"
