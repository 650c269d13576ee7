"""Answers whose text the log did not keep speak against a limit: what nobody saw is not safe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stresstest.features.scan.console import limit_sentence
from stresstest.model.scanned import GroupResult
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import ScanSettings, scan
from tests.support.scanned_files import Heard
from tests.support.stories import story


def _scan(tmp_path: Path, unseen: int) -> GroupResult:
    rows: list[dict[str, object]] = [
        {"id": str(n), "response": story(6, n), "finish_reason": "stop"} for n in range(120)
    ]
    rows += [{"id": f"u{n}", "text_not_kept": True, "start": 1.0} for n in range(unseen)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (group,) = scan(ScanSettings((str(path),), ScanJob(language="en"), workers=1), Heard()).groups
    return group


def test_of_answers_without_any_text_no_rate_is_told(tmp_path: Path) -> None:
    """ "0.00 %" and "nothing degenerates" of a log that nobody could read are no findings."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"text_not_kept": true, "start": 1.0}\n' * 3, encoding="utf-8")
    (group,) = scan(ScanSettings((str(path),), ScanJob(language="en"), workers=1), Heard()).groups
    assert limit_sentence(group).startswith("no answer has a text to judge; nothing is certified")


@pytest.mark.slow
@pytest.mark.parametrize(("unseen", "certified"), [(0, True), (1, True), (30, False)])
def test_t_is_certified_against_the_unseen(tmp_path: Path, unseen: int, certified: bool) -> None:
    """One in a hundred is within the tolerated risk, one in five is not; they are counted once."""
    group, whole = _scan(tmp_path, unseen), _scan(tmp_path, 0)
    assert group.threshold.certified is certified
    assert (group.unseen, group.undecided, group.degenerate) == (unseen, whole.undecided, 0)


def test_the_interval_holds_what_nobody_has_seen(tmp_path: Path) -> None:
    """A log that cuts every text said 0 %, at most 1.8 %: nobody knows."""
    rows = [{"response": story(6, n)[:400], "completion_tokens": 900} for n in range(60)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (group,) = scan(ScanSettings((str(path),), ScanJob(language="en"), workers=1), Heard()).groups
    assert (group.rate, group.rate_ci[0]) == (0.0, 0.0)
    assert group.rate_ci[1] > group.unseen / 60 > 0.9
