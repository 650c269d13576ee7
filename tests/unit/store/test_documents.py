"""Documents in the store: kept, found, replaced, and gone with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from stresstest.errors import UsageError
from stresstest.model import DocumentKind
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.stored_data import make_run


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = open_store(str(tmp_path / "s.db"))
    opened.create_run(make_run("a"))
    opened.create_run(make_run("b"))
    return opened


BODY = {"verdict": "regression", "text": "</script>\u2028\x00\ud800", "interval": [0.1, None], "n": 38}


def test_a_document_comes_back_as_it_was_saved(store: Store) -> None:
    """Body, order of runs and flags survive, hostile text included."""
    name = store.save_document(DocumentKind.CHECK, BODY, simulated=True, runs=("b", "a"), saved=5.0)
    [kept] = store.documents()
    assert (kept.id, kept.kind, kept.saved, kept.complete, kept.simulated) == (name, "check", 5.0, True, True)
    assert kept.runs == ("b", "a")
    assert kept.body == BODY
    assert store.document(name[:-1]) == kept


def test_documents_are_found_by_kind_and_by_run_newest_first(store: Store) -> None:
    """A report asks for what stands on its run."""
    old = store.save_document(DocumentKind.COST, {}, runs=("a",), id="old", saved=1.0)
    new = store.save_document(DocumentKind.COST, {}, runs=("a", "b"), id="new", saved=2.0)
    scan = store.save_document(DocumentKind.SCAN, {}, id="scan", saved=3.0)
    assert [d.id for d in store.documents()] == [scan, new, old]
    assert [d.id for d in store.documents(DocumentKind.COST)] == [new, old]
    assert [d.id for d in store.documents(run="b")] == [new]


def test_a_document_with_a_known_id_is_replaced_whole(store: Store) -> None:
    """An unfinished sweep is saved again as it grows; the runs it no longer stands on are forgotten."""
    store.save_document(DocumentKind.SWEEP, {"cells": 1}, complete=False, runs=("a",), id="s")
    store.save_document(DocumentKind.SWEEP, {"cells": 2}, runs=("b",), id="s")
    [kept] = store.documents()
    assert (kept.body, kept.complete, kept.runs) == ({"cells": 2}, True, ("b",))


def test_deleting_a_run_keeps_the_document(store: Store) -> None:
    """A comparison outlives the runs compared; it only no longer names the deleted one."""
    store.save_document(DocumentKind.CHECK, BODY, runs=("a", "b"), id="c")
    store.delete_run("a")
    assert store.document("c").runs == ("b",)
    assert store.documents(run="a") == []


def test_unknown_runs_and_references_are_refused(store: Store) -> None:
    """Nothing is saved half; a reference that means two documents or none says so."""
    with pytest.raises(UsageError):
        store.save_document(DocumentKind.CHECK, BODY, runs=("a", "nowhere"), id="c")
    assert store.documents() == []
    store.save_document(DocumentKind.CHECK, BODY, id="x1")
    store.save_document(DocumentKind.CHECK, BODY, id="x2")
    with pytest.raises(UsageError, match="beginning of 2 documents"):
        store.document("x")
    with pytest.raises(UsageError, match="not a stored document"):
        store.document("y")
