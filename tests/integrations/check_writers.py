"""What the SDKs of tracers and clients write, as `scan` reads it: against answers that are known.

build/integrations/writers/bin/python -m pytest tests/integrations/check_writers.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stresstest.records import FieldMapping, Record, parse_line
from tests.integrations.writers import NAMES, WRITERS
from tests.support.scripted_openai import Scripted, endpoint, scripted

HERE = Path(__file__).parent
JOINS_CHOICES = frozenset({"langfuse", "langchain", "langsmith"})
"""Writers that keep the streamed answers to one request as one text."""
_CLOSED = '"}'
"""What LangChain's parser adds to arguments that a stream's cap cut."""


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("writer", WRITERS)
def test_every_answer_is_read(writer: str, streamed: bool, tmp_path: Path) -> None:
    """Each answer once, with its text whole; what a writer does not keep counts as one without text."""
    lines = _written(writer, streamed, tmp_path)
    for name in NAMES:
        wanted = scripted(name)
        found = [record for line in lines[name] for record in _read(line)]
        if streamed and writer in JOINS_CHOICES and len(wanted) > 1:
            assert len(found) == 1
            continue
        assert len(found) == len(wanted), (name, found)
        for answer, record in zip(wanted, found, strict=True):
            assert _agrees(answer, record), (name, record)


def _agrees(answer: Scripted, record: Record) -> bool:
    """Whether all that was written is there. A writer may lose the reasoning; an answer that is nothing else
    must then have spent tokens."""
    said, thought = _words(record.text), _words(record.reasoning)
    if said not in (_words(answer.text), _words(answer.text) + _CLOSED):
        return False
    spent = record.completion_tokens or record.max_tokens
    return thought == _words(answer.reasoning or "") or (not thought and bool(said or spent))


def _words(text: str) -> str:
    return "".join(text.split())


def _read(row: Any) -> list[Record]:
    return parse_line(json.dumps(row).encode(), "f", 1, FieldMapping())


def _written(writer: str, streamed: bool, folder: Path) -> dict[str, list[Any]]:
    out = folder / "lines.json"
    with endpoint() as url:
        command = [sys.executable, str(HERE / "writers.py"), writer, url, "1" if streamed else "", str(out)]
        given = {**os.environ, "OPENAI_API_KEY": "none", "PYTHONPATH": str(HERE.parents[1])}
        run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=given)
    assert run.returncode == 0, run.stderr[-2000:]
    found: dict[str, list[Any]] = json.loads(out.read_text())
    return found
