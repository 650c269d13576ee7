"""Answers of which a log cut the middle out: what fails behind the hole fails, but nobody knows where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stresstest.model.scanned import GroupResult
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import ScanSettings, scan
from tests.support.scanned_files import Heard
from tests.support.stories import story

HEALTHY, LOOPING = 140, 20
KEPT_BEFORE, KEPT_AFTER = 716, 1_331
MARK = "... (litellm_truncated skipped {} chars. Full data is logged (OTEL, etc.).) ..."


def _cut(text: str) -> str:
    """As LiteLLM writes a text of more than 2,048 characters into its spend logs."""
    if len(text) <= 2_048:
        return text
    skipped = len(text) - KEPT_BEFORE - KEPT_AFTER
    return text[:KEPT_BEFORE] + MARK.format(skipped) + text[-KEPT_AFTER:]


def _scan(tmp_path: Path, *, cut: bool) -> GroupResult:
    texts = [story(2, n) for n in range(HEALTHY)]
    texts += [story(1, HEALTHY + n)[:500] + " and the gulls came back" * 300 for n in range(LOOPING)]
    path = tmp_path / "a.jsonl"
    rows = [
        {
            "id": str(n),
            "response": _cut(text) if cut else text,
            "finish_reason": "stop",
            "usage": {"completion_tokens": len(text) // 4},
        }
        for n, text in enumerate(texts)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (group,) = scan(ScanSettings((str(path),), ScanJob(language="en"), workers=1), Heard()).groups
    return group


@pytest.mark.slow
def test_what_fails_behind_a_hole_counts_and_certifies_nothing_beyond_it(tmp_path: Path) -> None:
    """The rate is that of the whole texts; T was certified at the hole, behind where the loops began."""
    whole, cut = _scan(tmp_path, cut=False), _scan(tmp_path, cut=True)
    assert cut.degenerate == whole.degenerate == LOOPING
    assert whole.threshold.tokens
    assert cut.threshold.tokens is None
