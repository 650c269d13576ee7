"""Production requests as they are, with images and a system message: measured and diagnosed whole."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import pytest

from stresstest.features.demo.command import simulator
from tests.simulation.campaigns import measured
from tests.support.commands import command

pytestmark = pytest.mark.simulated


def picture(red: int) -> str:
    """A PNG of one pixel as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + crc

    header = bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0])
    pixel = chunk(b"IDAT", zlib.compress(bytes([0, red, 0, 0])))
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixel + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def test_requests_with_images_are_measured_and_diagnosed(tmp_path: Path) -> None:
    """Each prompt's image counts in its tokens. A diagnosis answers from the start, since a prompt with an
    image cannot be continued from token ids, and confirms the plane all the same."""
    prompts = tmp_path / "production.jsonl"
    texts = [
        f"Write a story in 40 numbered paragraphs about this picture. Topic: harbour {n}." for n in range(60)
    ]
    bodies = [
        {
            "id": f"p{n}",
            "messages": [
                {"role": "system", "content": "You describe pictures."},
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": picture(n)}},
                        {"type": "text", "text": text},
                    ],
                },
            ],
            "stop": ["THE END"],
        }
        for n, text in enumerate(texts)
    ]
    prompts.write_text("".join(json.dumps(body) + "\n" for body in bodies), encoding="utf-8")
    store = tmp_path / "s.sqlite3"
    with simulator("loop-at-900") as base_url:
        found = measured(
            "loop-at-900", base_url, store, "--lang", "en", "--prompts", str(prompts), "--horizon", "1500"
        )
        assert found.code == 0, found.said
        code, out, err = command(
            "--store", str(store), "--display", "plain", "diagnose", found.run.id, "--json"
        )
    assert code == 0, err
    assert 500 <= found.document["threshold"]["tokens"] <= 900
    assert all(576 < (g.prompt_tokens or 0) < 700 for g in found.generations)
    chain = json.loads(out)["chain"]
    assert (chain[0]["plane"], chain[0]["basis"]) == ("decoding", "confirmed")
