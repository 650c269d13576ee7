"""The rate inside the reasoning and outside: what counts in which, and that nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stresstest.features.scan.console import limit_sentence
from stresstest.features.scan.document import scan_document
from stresstest.model import AnswerPart
from stresstest.model.scanned import ScanResult
from stresstest.scanning.job import ScanJob
from stresstest.scanning.scan import ScanSettings, scan
from tests.support.scanned_files import LOOPING, Heard, write
from tests.support.stories import story

THOUGHT = "The story needs a lighthouse, so I begin there and keep the keeper for the end of it. "
ITALIAN = (
    "Devo scrivere una storia lunga, quindi comincio dal faro e dal vecchio guardiano che lo abita. Poi "
    "viene la tempesta, che porta al molo una barca senza nome, e infine la lettera che nessuno ha aperto."
)


def body(answer: str, thought: str = "", finish: str = "stop") -> dict[str, Any]:
    """A chat-completion body, as a server with a reasoning parser answers."""
    message = {"role": "assistant", "content": answer, "reasoning_content": thought or None}
    return {"choices": [{"message": message, "finish_reason": finish}]}


def scanned(tmp_path: Path, rows: list[dict[str, Any]], **more: Any) -> ScanResult:
    path = write(tmp_path / "a.jsonl", rows)
    return scan(ScanSettings(files=(path,), job=ScanJob(language="en"), workers=1, **more), Heard())


def test_each_part_has_its_own_n_and_interval(tmp_path: Path) -> None:
    """Reasoning that loops takes its answer out of the second rate: what follows it was not answered in
    health. A parser's field and tags in the text count alike; what was cut in its reasoning has no answer."""
    rows = [
        *(body(story(2, seed=n), THOUGHT) for n in range(6)),
        *({"response": f"<think>\n{THOUGHT}\n</think>\n\n{story(2, seed=n)}"} for n in range(6, 8)),
        body(story(2, seed=8)),
        body("", story(1) + LOOPING, "length"),
        {"response": f"<think>\n{story(1)}{LOOPING}", "finish_reason": "length"},
        body("", THOUGHT, "length"),
        body(story(2, seed=9) + LOOPING, THOUGHT, "length"),
    ]
    (group,) = scanned(tmp_path, rows).groups
    assert (group.requests, group.degenerate) == (13, 3)
    reasoning, answer = group.parts
    assert (reasoning.part, reasoning.degenerate, reasoning.n) == (AnswerPart.REASONING, 2, 12)
    assert (answer.part, answer.degenerate, answer.n) == (AnswerPart.ANSWER, 1, 10)
    # Clopper-Pearson, two-sided 95 %, from a table.
    assert reasoning.rate_ci == pytest.approx((0.0209, 0.4841), abs=1e-4)
    assert answer.rate_ci == pytest.approx((0.0025, 0.4450), abs=1e-4)
    words = "in the reasoning 2 of 12 (16.7 %, 95 % interval 2.09–48.4 %)"
    assert words in limit_sentence(group)


def test_without_reasoning_nothing_is_said_of_it(tmp_path: Path) -> None:
    """No key, no sentence."""
    result = scanned(tmp_path, [{"response": story(2, seed=n)} for n in range(3)])
    (group,) = result.groups
    assert group.parts == ()
    assert "reasoning" not in limit_sentence(group)
    assert "parts" not in json.dumps(scan_document(result))


def test_the_answers_language_is_not_inferred_from_its_reasoning(tmp_path: Path) -> None:
    """Italian reasoning before English stories makes no drift of the stories."""
    rows = [
        {"response": f"<think>\n{ITALIAN}\n</think>\n\n{story(8, seed=n)}", "finish_reason": "stop"}
        for n in range(6)
    ]
    path = write(tmp_path / "a.jsonl", rows)
    (group,) = scan(ScanSettings(files=(path,), job=ScanJob(), workers=1), Heard()).groups
    assert (group.degenerate, dict(group.languages)) == (0, {"en": 6})
