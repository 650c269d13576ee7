"""`stresstest plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stresstest.tasks import prompts_file
from tests.support.commands import command


def test_all_distinct_prompts_of_a_file_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only a sample of a large file is kept."""
    monkeypatch.setattr(prompts_file, "KEPT_PROMPTS", 10)
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"Tell story {n % 90}."}) + "\n" for n in range(100)))
    code, out, err = command("plan", "--prompts", str(path), "--model", "m", "--lang", "en", "--json")
    assert (code, json.loads(out)["distinct_prompts"]) == (0, 90), err
