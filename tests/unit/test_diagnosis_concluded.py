"""One truth about a run: what its diagnosis has confirmed, in the verdict and in every report of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.diagnosis.arms import decoding_arms
from stresstest.diagnosis.concluded import concluded
from stresstest.diagnosis.wording import split_sentence
from stresstest.model import (
    ArmResult,
    Basis,
    Decoding,
    Diagnosis,
    Evidence,
    Link,
    Plane,
    PlaneVerdict,
    Remedy,
    Run,
    RunStatus,
    SymptomKind,
)
from stresstest.report.diagnosis import chain_keys, diagnosis_markdown
from stresstest.report.document import full_document
from stresstest.report.html import run_html
from stresstest.report.markdown import run_markdown
from stresstest.store import open_store
from stresstest.store.repository import Store
from stresstest.workflows.conclude import conclude
from stresstest.workflows.report import gather
from tests.unit._deciding import make, make_job
from tests.unit.store_data import make_run

PENALISED = Decoding(temperature=0.7, top_k=20, repetition_penalty=1.15)
SPLIT = Remedy(6, 2, 4, 0, 40.0, 0.527, "6 units a request: verified, 0 of 4", 900)
UNCHANGED = ArmResult("unchanged", None, "nothing", 16, 16, 16, 1.0, 1.0, clears=False)
LOOP = Link(
    "r1",
    Plane.DECODING,
    Basis.CONFIRMED,
    SymptomKind.LOOP,
    903.0,
    16,
    "loop at ~900: decoding, confirmed, cleared by repetition_penalty 1.15",
    cleared_by="repetition_penalty 1.15",
    cleared_decoding=PENALISED,
    arms=(
        UNCHANGED,
        ArmResult("alone", Plane.SYSTEM, "alone on the server", 4, 4, 4, 1.0, 1.0, clears=False),
        ArmResult("p", Plane.DECODING, "repetition_penalty 1.15", 16, 0, 16, 1.5e-5, 0.17, clears=True),
    ),
)
DRIFT = Link(
    "r2",
    Plane.CONTEXT,
    Basis.CONFIRMED,
    SymptomKind.LOOP,
    5200.0,
    16,
    "drift at ~5,200: context, confirmed, cleared by the instruction and the last units only",
    cleared_by="the instruction and the last units only",
    arms=(
        UNCHANGED,
        ArmResult("p1", Plane.DECODING, "repetition_penalty 1.2", 6, 5, 6, 0.5, 1.0, clears=False),
        ArmResult("p2", Plane.DECODING, "temperature 0.3", 6, 6, 6, 1.0, 1.0, clears=False),
        ArmResult("c", Plane.CONTEXT, "the instruction and the last units only", 16, 1, 16, 3e-5, 0.26, True),
    ),
    remedy=SPLIT,
)
FOUND = Diagnosis(
    "r1", (LOOP, DRIFT), complete=True, recommended=PENALISED, safe_max_tokens=4554, safe_run="r2"
)


@pytest.fixture
def diagnosed(tmp_path: Path) -> Iterator[Store]:
    """A run, the campaign that its diagnosis began, and the diagnosis; both fail with loops."""
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        own = replace(make_run("r1"), status=RunStatus.DONE)
        settings = replace(own.settings, parent="r1", decoding=PENALISED)
        for run in (own, replace(own, id="r2", settings=settings)):
            store.create_run(run)
            for i in range(6):
                store.add_generation(run.id, make(make_job(index=i), 1000, 700 + 90 * i))
        store.save_diagnosis(FOUND)
        yield store


def test_every_report_of_a_diagnosed_run_says_what_was_confirmed(diagnosed: Store) -> None:
    """HTML, Markdown and JSON agree: confirmed, with the arm's counts and p; nothing is left to confirm."""
    each = gather(diagnosed, "r1")
    document = full_document(each.result)
    assert document["verdict"]["plane"] == "decoding"
    assert document["verdict"]["basis"] == "confirmed"
    assert document["planes"] == {"system": 0, "decoding": 6, "context": 0}
    pages = (
        json.dumps(document, ensure_ascii=False),
        run_markdown(each.result, diagnosis=diagnosis_markdown(FOUND)).replace("\\", ""),
        run_html(each),
    )
    for page in pages:
        assert "oop at ~900: decoding, confirmed" in page
        assert "0 of 16 fail, 16 of 16 unchanged (p = 1.5e-05)" in page
        assert "max_tokens 4,554 is certified (run r2)" in page
        for gone in ("To confirm", "not confirmed", "suspected", "verified"):
            assert gone not in page


def test_a_campaign_that_a_diagnosis_began_says_what_it_showed_there(diagnosed: Store) -> None:
    """Its failures look like decoding; the diagnosis of its parent confirmed the context, and is named."""
    result = conclude(diagnosed, "r2")
    verdict = result.verdict
    assert (verdict.plane, verdict.basis) == (Plane.CONTEXT, Basis.CONFIRMED)
    assert (
        "last units only 1 of 16 fail, unchanged 16 of 16 (p = 3e-05; diagnosis of run r1)"
        in verdict.sentence
    )
    assert {g.plane for g in result.generations} == {Plane.CONTEXT}
    [line] = verdict.advice
    assert line.startswith("For longer outputs: 6 units a request")
    decoding, context, *_ = verdict.evidence
    assert (decoding.plane, decoding.supports, decoding.value) == (Plane.DECODING, False, 0.5)
    assert decoding.fact.startswith("none of 2 changes clears, the nearest is repetition_penalty 1.2: 5 of 6")
    assert (context.plane, context.supports) == (Plane.CONTEXT, True)
    assert any("diagnosis of run r1 began this run" in note for note in result.notes)


@pytest.mark.parametrize(
    "found",
    [
        None,
        Diagnosis("r1", ()),
        Diagnosis("r1", (replace(LOOP, plane=None, basis=None, lacking="9 prompts"),)),
        Diagnosis("r1", (replace(LOOP, plane=Plane.SYSTEM, basis=Basis.OBSERVED), LOOP)),
        Diagnosis("r1", (replace(LOOP, run_id="r2"),)),
    ],
    ids=["none", "empty", "inconclusive", "service failures first", "another run's"],
)
def test_what_a_diagnosis_did_not_confirm_stays_observed(found: Diagnosis | None) -> None:
    """Without a confirmed first link of this run the suspicion and its advice stand as they were."""
    evidence = (Evidence(Plane.CONTEXT, True, "onsets", "one place"),)
    observed = PlaneVerdict(Plane.CONTEXT, Basis.OBSERVED, "Context suspected.", evidence, ("To confirm: …",))
    assert concluded(observed, found, make_run("r1")) == observed


def test_concluding_twice_adds_nothing(diagnosed: Store) -> None:
    """A verdict that is confirmed already is left alone, whoever asks again."""
    result = conclude(diagnosed, "r1")
    assert concluded(result.verdict, FOUND, result.run) == result.verdict
    partly = replace(FOUND, chain=(replace(LOOP, plane=None, basis=None), DRIFT))
    once = concluded(PlaneVerdict(None, None, "x"), partly, result.run)
    assert concluded(once, partly, result.run) == once


def test_the_load_is_the_advice_where_the_system_was_confirmed() -> None:
    """How many requests were shown to be safe, or that fewer are, where no campaign followed."""
    link = replace(LOOP, plane=Plane.SYSTEM, cleared_by="alone on the server")
    run: Run = make_run("r1")
    observed = PlaneVerdict(Plane.DECODING, Basis.OBSERVED, "x", (), ("To confirm: …",))
    [alone] = concluded(observed, Diagnosis("r1", (link,)), run).advice
    assert alone.startswith("Lower the load")
    [few] = concluded(observed, Diagnosis("r1", (link,), concurrency=1), run).advice
    assert few.startswith("Keep at most one request in flight")


@pytest.mark.parametrize(
    ("outputs", "failed", "upper", "word"),
    [
        (4, 0, 0.527, "tried"),
        (4, 1, 0.751, "tried"),
        (4, 3, 0.987, "does not hold"),
        (9, 0, 0.283, "verified"),
    ],
)
def test_a_split_is_verified_by_its_bound_alone(outputs: int, failed: int, upper: float, word: str) -> None:
    """Four outputs verify nothing, whatever they show; what an earlier version stored is worded anew."""
    remedy = replace(SPLIT, outputs=outputs, failed=failed, upper=upper)
    assert f": {word}, {failed} of {outputs} split outputs" in split_sentence(remedy)
    [link] = chain_keys(Diagnosis("r1", (replace(DRIFT, remedy=remedy),)))["chain"]
    assert f": {word}, " in link["remedy"]["sentence"]


def test_a_penalty_of_one_is_said_to_be_off() -> None:
    """Beside the unchanged arm "repetition_penalty 1" looks like a repeat of it."""
    arms = {arm.name: arm.changed for arm in decoding_arms(Decoding(repetition_penalty=1.2), "Only Italian.")}
    assert arms["penalty-1"] == "repetition_penalty 1 (off)"
    assert arms["constraint-and-penalty"] == "language constraint and repetition_penalty 1 (off)"
    assert arms["penalty-1.1"] == "repetition_penalty 1.1"
