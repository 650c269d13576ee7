"""datatrove itself runs the filter, with its local executor.

build/integrations/datatrove/bin/python -m pytest tests/integrations/check_datatrove.py
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers.jsonl import JsonlWriter

import stresstest
from stresstest.integrations.datatrove import DegenerationFilter
from tests.integrations.answers import HEALTHY, LOOPING


def ids(folder: Path) -> list[str]:
    return sorted(
        json.loads(line)["id"]
        for path in folder.glob("*.gz")
        for line in gzip.open(path, "rt", encoding="utf-8")
    )


def test_the_local_executor_drops_what_detect_calls_degenerate(tmp_path: Path) -> None:
    """The same documents, with the symptom as the reason, and counted under it."""
    texts = {f"d{n}": LOOPING if n % 5 == 0 else f"{HEALTHY} It was year {1900 + n}." for n in range(20)}
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": name, "text": text, "language": "en"}) for name, text in texts.items()]
    (tmp_path / "in" / "docs.jsonl").write_text("\n".join(lines))
    dropped = JsonlWriter(str(tmp_path / "dropped"))
    LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(tmp_path / "in")),
            DegenerationFilter(exclusion_writer=dropped, batch_size=8),
            JsonlWriter(str(tmp_path / "kept")),
        ],
        tasks=1,
        logging_dir=str(tmp_path / "logs"),
    ).run()
    expected = sorted(
        name for name, text in texts.items() if stresstest.detect(text, language="en").degenerate
    )
    assert ids(tmp_path / "dropped") == expected == ["d0", "d10", "d15", "d5"]
    assert ids(tmp_path / "kept") == sorted(set(texts) - set(expected))
    stats = json.loads((tmp_path / "logs" / "stats.json").read_text())
    counted = next(each["stats"] for each in stats if "stresstest" in each["name"])
    assert counted["dropped_loop"] == 4
