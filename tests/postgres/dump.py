"""Keeps a store of this revision as dumps of SQLite and PostgreSQL: `python -m tests.postgres.dump`.

To be run, and its files committed, before the revision in `stresstest/store/tables.py` is raised: the tests
open them with every later program. pg_dump is Debian's.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from stresstest.model import (
    Basis,
    FailureKind,
    Generation,
    Plane,
    PlaneVerdict,
    ServerSample,
    ServiceFailure,
    Threshold,
)
from stresstest.store import open_store
from stresstest.store.repository import Store
from stresstest.store.tables import SCHEMA_REVISION
from tests.postgres.server import database, plain, programs, serve
from tests.support.stored_data import make_generation, make_run

FOLDER = Path(__file__).parents[1] / "data" / "store"


def fill(store: Store) -> None:
    """One run with something in every table."""
    store.create_run(make_run("kept"))
    session = store.add_session("kept", make_generation().started)
    for generation in _generations():
        store.add_generation("kept", generation)
    store.add_samples("kept", [ServerSample(1.79e9, 2.0, 0.0, 0.25, 0.0), ServerSample(1.79e9 + 1)])
    if hasattr(store, "add_gpu_samples"):  # from revision 0002 on
        from stresstest.model import GpuSample

        store.add_gpu_samples(
            "kept", [GpuSample(1.79e9, "0", "NVML", power=401.5, throttle=("sw_power_cap",))]
        )
    verdict = PlaneVerdict(Plane.DECODING, Basis.OBSERVED, "Loops, whatever the length.", (), ("penalty",))
    store.save_threshold(
        "kept", Threshold(0.1, 0.9, 900, n=40), 810, verdict, distinct_prompts=38, saved=1.79e9
    )
    if hasattr(store, "save_diagnosis"):  # from revision 0003 on
        from stresstest.model import Diagnosis

        store.save_diagnosis(Diagnosis("kept", (), notes=("Cut short.",)), saved=1.79e9)
    if hasattr(store, "save_document"):  # from revision 0004 on
        from stresstest.model import DocumentKind

        store.save_document(DocumentKind.CHECK, {"verdict": "pass"}, runs=("kept",), id="gate", saved=1.79e9)
    store.end_session(session, make_generation(3).ended)


def _generations() -> list[Generation]:
    healthy = make_generation(1)
    healthy = replace(healthy, verdict=replace(healthy.verdict, onset=None), finish_reason="stop")
    lost = replace(make_generation(2), failure=ServiceFailure(FailureKind.CUT, "cut", at_token=50))
    return [make_generation(0), healthy, lost]


def known(store: Store) -> dict[str, Any]:
    """What every later program must read out of it."""
    [summary] = store.runs()
    read = list(store.generations("kept"))
    [stored] = store.thresholds()
    gpus = store.gpu_samples("kept") if hasattr(store, "gpu_samples") else []
    return {
        "summary": [summary.id, summary.generations, summary.degenerate, summary.lost],
        "generations": [[g.key, g.text, g.verdict.onset, g.finish_reason] for g in read],
        "tokens": [[t.id, t.logprob, t.arrived] for t in read[0].tokens[:3]],
        "samples": [[s.at, s.kv_usage, s.preemptions] for s in store.samples("kept")],
        "gpu_samples": [[g.at, g.gpu, g.power] for g in gpus],
        "threshold": [stored.threshold.tokens, stored.safe_max_tokens, stored.verdict.sentence],
        "diagnosis": _notes_of_diagnosis(store),
        "documents": _documents(store),
    }


def _notes_of_diagnosis(store: Store) -> list[str]:
    found = store.diagnosis("kept") if hasattr(store, "diagnosis") else None
    return list(found.notes) if found is not None else []


def _documents(store: Store) -> list[list[Any]]:
    kept = store.documents(run="kept") if hasattr(store, "documents") else []
    return [[d.id, str(d.kind), d.saved, dict(d.body)] for d in kept]


def main() -> None:
    """Write the three files of this revision."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        with open_store(str(path)) as store:
            fill(store)
            facts = known(store)
        connection = sqlite3.connect(path)
        _write(f"{SCHEMA_REVISION}.sqlite.sql", "\n".join(connection.iterdump()))
        connection.close()
    with serve() as server, database(server) as url:
        with open_store(url) as store:
            fill(store)
        command = [
            str(programs() / "pg_dump"),
            "--inserts",
            "--no-owner",
            "--no-privileges",
            "-d",
            plain(url),
        ]
        text = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ}).stdout
    # Meta-commands are psql's own; comments tell of the machine.
    lines = [line for line in text.splitlines() if line and not line.startswith(("\\", "--"))]
    _write(f"{SCHEMA_REVISION}.postgresql.sql", "\n".join(lines))
    _write(f"{SCHEMA_REVISION}.json", json.dumps(facts, ensure_ascii=False, indent=1))


def _write(name: str, text: str) -> None:
    (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
