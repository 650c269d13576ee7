"""Which of a file's prompts are asked: the sample is drawn, it is not the beginning of the file."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stresstest.campaign.prompt_source import PromptSource, load_prompt_source
from tests.support.stored_data import make_run

KINDS = ("Name a harbour", "Prove the lemma")


def written(folder: Path, prompts: Sequence[str], *, rigor: str = "quick") -> PromptSource:
    """The prompts as a campaign takes them from a file."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": each}) + "\n" for each in prompts), encoding="utf-8")
    return load_prompt_source(replace(make_run().settings, prompts_file=str(path), rigor=rigor))


def asked(source: PromptSource, count: int) -> list[str]:
    return [
        prompt.text or prompt.messages[-1].content
        for prompt in map(source.prompt_at, range(count), [None] * count)
    ]


def test_the_sample_of_a_sorted_file_holds_all_its_kinds(tmp_path: Path) -> None:
    """Files from production are sorted by time, tenant or length: their first lines are no sample of them."""
    prompts = [f"{kind} {i}" for kind in KINDS for i in range(200)]
    source = written(tmp_path, prompts)
    first = sum(text.startswith(KINDS[0]) for text in asked(source, 38))
    assert 9 <= first <= 29
    assert sorted(asked(source, 400)) == sorted(prompts)


def test_the_order_of_the_lines_changes_nothing(tmp_path: Path) -> None:
    """A file that was sorted anew is the same file: it may be continued and compared."""
    prompts = [f"{KINDS[0]} {i}" for i in range(60)]
    before = written(tmp_path, prompts)
    random.Random(1).shuffle(prompts)
    after = written(tmp_path, prompts)
    assert asked(after, 60) == asked(before, 60)
    assert after.digest() == before.digest()


def test_a_sample_smaller_than_the_file_is_said(tmp_path: Path) -> None:
    """Who names 400 prompts is told that 38 of them are asked; a small file is asked whole."""
    [note] = written(tmp_path, [f"{KINDS[0]} {i}" for i in range(400)]).notes
    assert note.startswith("the file has 400 distinct prompts, of which a sample of 38 is drawn by a hash")
    assert written(tmp_path, [f"{KINDS[0]} {i}" for i in range(38)]).notes == ()
