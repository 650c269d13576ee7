"""Stored runs for `stresstest check`, and the command itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from stresstest.campaign.conclusion.conclude import conclude
from stresstest.model import Generation, Run, RunStatus, Subject
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.generations import make, make_job
from tests.support.stored_data import make_run

T = 800
N = 24
"""Generations of a sample: the least that certifies at the rigor quick, so that the tests are quick too."""


def sample(failing: int, n: int = N, *, onset: int = 300, reach: int = T) -> list[Generation]:
    """A certifying sample: the first `failing` topics loop at `onset`, the others are healthy to `reach`."""
    return [
        make(make_job(index=i), 900, onset, finish="length")
        if i < failing
        else make(make_job(index=i), reach, finish="length")
        for i in range(n)
    ]


def stored(store: str, run_id: str, generations: list[Generation], **more: Any) -> str:
    """A finished run with these generations. more: created, model, decoding, parent, status, profile."""
    run: Run = make_run(
        run_id,
        created=more.pop("created", 1000.0),
        subject=Subject(more.pop("model", "lab"), more.pop("task", "narrative"), "it"),
    )
    decoding = more.pop("decoding", run.settings.decoding)
    status, parent = more.pop("status", RunStatus.DONE), more.pop("parent", None)
    run = replace(
        run,
        status=status,
        settings=replace(run.settings, decoding=decoding, rigor="quick", parent=parent),
        profile=replace(run.profile, **more),
    )
    with open_store(store) as opened:
        opened.create_run(run)
        for generation in generations:
            opened.add_generation(run_id, generation)
        if status is RunStatus.DONE:
            found = conclude(opened, run_id)
            opened.save_threshold(run_id, found.threshold, found.safe_max_tokens, found.verdict)
    return run_id


def check(store: str, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON document ({} when none was printed), stderr."""
    code, out, err = command("--store", store, "--display", "none", "check", "--json", *words)
    return code, json.loads(out) if out.strip() else {}, err
