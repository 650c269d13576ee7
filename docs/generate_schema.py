"""Writes docs/stresstest.schema.json, the JSON Schema of a project file; a test compares the two."""

from __future__ import annotations

import json
from pathlib import Path

from stresstest.config.project import schema

TARGET = Path(__file__).parent / "stresstest.schema.json"


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
