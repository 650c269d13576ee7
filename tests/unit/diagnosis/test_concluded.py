"""One truth about a run: what its diagnosis has confirmed, in the verdict and in every report of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.campaign.conclusion.conclude import conclude
from stresstest.diagnosis.concluded import _plane_fact, apply_diagnosis
from stresstest.diagnosis.intervention.arms import decoding_arms
from stresstest.diagnosis.intervention.wording import split_sentence
from stresstest.features.diagnose.console import diagnosis_markdown
from stresstest.features.diagnose.document import chain_keys
from stresstest.features.report.workflow import load_report_data
from stresstest.model import (
    ArmResult,
    Basis,
    CauseLink,
    Decoding,
    Diagnosis,
    Evidence,
    Plane,
    PlaneVerdict,
    Run,
    RunStatus,
    SplitRemedy,
    SymptomKind,
    Threshold,
)
from stresstest.render.html import run_html
from stresstest.render.markdown import run_markdown
from stresstest.render.run_document import full_document
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.generations import make, make_job
from tests.support.report_agreement import contradictions, missing_remedy
from tests.support.stored_data import make_run

PENALISED = Decoding(temperature=0.7, top_k=20, repetition_penalty=1.15)
SPLIT = SplitRemedy(6, 2, 4, 0, 40.0, 0.527, "6 units a request: verified, 0 of 4", 900)
UNCHANGED = ArmResult("unchanged", None, "nothing", 16, 16, 16, 1.0, 1.0, clears=False)
LOOP = CauseLink(
    "r1",
    Plane.DECODING,
    Basis.CONFIRMED,
    SymptomKind.LOOP,
    903.0,
    16,
    "loop from about token 900 (median of the tested answers), "
    "caused by decoding; confirmed: it goes away with "
    "repetition_penalty 1.15",
    cleared_by="repetition_penalty 1.15",
    cleared_decoding=PENALISED,
    arms=(
        UNCHANGED,
        ArmResult("alone", Plane.SYSTEM, "one request at a time", 4, 4, 4, 1.0, 1.0, clears=False),
        ArmResult("p", Plane.DECODING, "repetition_penalty 1.15", 16, 0, 16, 1.5e-5, 0.17, clears=True),
    ),
)
DRIFT = CauseLink(
    "r2",
    Plane.CONTEXT,
    Basis.CONFIRMED,
    SymptomKind.LOOP,
    5200.0,
    16,
    "language drift from about token 5,200 (median of the tested answers), "
    "caused by the context; confirmed: it goes away with "
    "the context cut to the instruction and the last few paragraphs",
    cleared_by="the context cut to the instruction and the last few paragraphs",
    arms=(
        UNCHANGED,
        ArmResult("p1", Plane.DECODING, "repetition_penalty 1.2", 6, 5, 6, 0.5, 1.0, clears=False),
        ArmResult("p2", Plane.DECODING, "temperature 0.3", 6, 6, 6, 1.0, 1.0, clears=False),
        ArmResult(
            "c",
            Plane.CONTEXT,
            "the context cut to the instruction and the last few paragraphs",
            16,
            1,
            16,
            3e-5,
            0.26,
            True,
        ),
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
    each = load_report_data(diagnosed, "r1")
    document = full_document(each.result, each.load)
    assert document["verdict"]["plane"] == "decoding"
    assert document["verdict"]["basis"] == "confirmed"
    assert document["planes"] == {"system": 0, "decoding": 6, "context": 0}
    pages = (
        json.dumps(document, ensure_ascii=False),
        run_markdown(each.result, found=FOUND, diagnosis=diagnosis_markdown(FOUND)).replace("\\", ""),
        run_html(each),
    )
    for page in pages:
        assert (
            "oop from about token 900 (median of the tested answers), caused by decoding; confirmed" in page
        )
        assert "0 of 16 fail; of the same 16 unchanged, 16 fail (p = 1.5e-05)" in page
        assert "With it, the safe max_tokens is 4,554 (only at rigor quick: at most 10" in page
        for gone in ("To test the cause", "not tested yet", "suspected", "verified"):
            assert gone not in page


def test_an_interrupted_diagnosis_is_called_incomplete_on_the_first_screen(diagnosed: Store) -> None:
    """A report is read from its top: what may still change is said above the number, in HTML and Markdown."""
    found = replace(FOUND, complete=False)
    diagnosed.save_diagnosis(found)
    each = load_report_data(diagnosed, "r1")
    said = "The diagnosis of this run is not complete: causes and advice may still change."
    page, markdown = run_html(each), run_markdown(each.result, found=found)
    assert said in page[: page.index('class="number')]
    assert said in markdown[: markdown.index("max")]
    assert "stresstest diagnose r1" in markdown
    for complete in (run_markdown(each.result, found=FOUND), run_markdown(each.result)):
        assert "not complete" not in complete


def test_a_later_cause_says_under_which_change_it_shows() -> None:
    """Every answer loops early: a drift at 5,200 makes sense only to who reads what removed the loop."""
    first, second = FOUND.sentences
    assert first.startswith(
        "Loop from about token 900 (median of the tested answers), caused by decoding; confirmed: "
    )
    assert second.startswith(
        "After that fix (repetition_penalty 1.15): language drift from about token 5,200 "
    )
    assert FOUND.sentence == f"{first} {second}"
    again = replace(FOUND.chain[1], run_id=FOUND.chain[0].run_id)
    assert replace(FOUND, chain=(FOUND.chain[0], again)).sentences[1].startswith("Also, language drift")


def test_the_control_of_a_change_stands_apart_from_what_it_clears() -> None:
    """ "Of 16 unchanged or with … at the same time, 16 fail; this clears the failure" was read twice."""
    arm = replace(FOUND.chain[0].arms[2], control_n=4, control_failed=4, control="unchanged")
    assert _plane_fact(Plane.DECODING, (arm,), arm).fact.endswith(
        "this clears the failure; control: of 4 continued unchanged meanwhile, 4 fail"
    )


def test_a_campaign_that_a_diagnosis_began_says_what_it_showed_there(diagnosed: Store) -> None:
    """Its failures look like decoding; the diagnosis of its parent confirmed the context, and is named."""
    result = conclude(diagnosed, "r2")
    verdict = result.verdict
    assert (verdict.plane, verdict.basis) == (Plane.CONTEXT, Basis.CONFIRMED)
    assert (
        "16 failing answers were cut before the failure and continued: with nothing changed, all 16 fail "
        "again; with the context cut to the instruction and the last few paragraphs, 1 do (p = 3e-05; "
        "diagnosis of run r1)." in verdict.sentence
    )
    assert {g.plane for g in result.generations} == {Plane.CONTEXT}
    [line] = verdict.advice
    assert line.startswith("For longer outputs: request 6 paragraphs at a time")
    decoding, context, *_ = verdict.evidence
    assert (decoding.plane, decoding.supports, decoding.value) == (Plane.DECODING, False, 0.5)
    assert decoding.fact.startswith(
        "none of 2 changes clears the failure; the closest is repetition_penalty 1.2: 5 of 6"
    )
    assert (context.plane, context.supports) == (Plane.CONTEXT, True)
    assert any("started by the diagnosis of run r1" in note for note in result.notes)


@pytest.mark.parametrize(
    "found",
    [
        None,
        Diagnosis("r1", ()),
        Diagnosis("r1", (replace(LOOP, plane=None, basis=None, arms=(), lacking="9 prompts"),)),
        Diagnosis("r1", (replace(LOOP, plane=Plane.SYSTEM, basis=Basis.OBSERVED), LOOP)),
        Diagnosis("r1", (replace(LOOP, run_id="r2"),)),
    ],
    ids=["none", "empty", "inconclusive", "service failures first", "another run's"],
)
def test_what_a_diagnosis_did_not_confirm_stays_observed(found: Diagnosis | None) -> None:
    """Without a confirmed first link of this run the suspicion and its advice stand as they were."""
    evidence = (Evidence(Plane.CONTEXT, True, "onsets", "one place"),)
    observed = PlaneVerdict(
        Plane.CONTEXT, Basis.OBSERVED, "Context suspected.", evidence, ("To test the cause: …",)
    )
    assert apply_diagnosis(observed, found, make_run("r1")) == observed


def test_what_was_tried_in_vain_is_not_advised() -> None:
    """Where arms ran and none cleared, the advice to confirm gives way to what is lacking; the rest stays."""
    lacking = "none of the 9 changes that were tried keeps these answers healthy"
    found = Diagnosis("r1", (replace(LOOP, plane=None, basis=None, lacking=lacking),))
    observed = PlaneVerdict(
        Plane.DECODING, Basis.OBSERVED, "x", (), ("To test the cause: repeat …", "Cap it.")
    )
    verdict = apply_diagnosis(observed, found, make_run("r1"))
    assert verdict.advice == (f"The diagnosis is inconclusive: {lacking}.", "Cap it.")
    assert (verdict.plane, verdict.basis) == (observed.plane, observed.basis)


def test_a_report_made_before_its_diagnosis_is_seen_to_contradict_it(diagnosed: Store) -> None:
    """The reader of all reports (`tests/simulation/test_reports_agree.py`) sees what the demo once said:
    confirmed, cleared by 1.15, and "repeat with 1.05 to 1.1", which the table has failing. Those made from
    the store say nothing of the kind."""
    failing = ArmResult("p", Plane.DECODING, "repetition_penalty 1.05", 9, 9, 9, 1.0, 1.0, clears=False)
    found = replace(FOUND, chain=(replace(LOOP, arms=(*LOOP.arms, failing)), DRIFT))
    diagnosed.save_diagnosis(found)
    each = load_report_data(diagnosed, "r1")
    pages = {
        "json": json.dumps(full_document(each.result, each.load), ensure_ascii=False),
        "markdown": run_markdown(each.result, found=found, diagnosis=diagnosis_markdown(found)),
        "html": run_html(each),
    }
    for kind, page in pages.items():
        assert [*contradictions(kind, page, each.result, found)] == []
        assert [*missing_remedy(page, found)] == []
    advice = ("To test the cause: repeat with a mild --repetition-penalty (1.05 to 1.1).",)
    stale = replace(
        each.result, verdict=PlaneVerdict(Plane.DECODING, Basis.OBSERVED, "Suspected.", (), advice)
    )
    old = run_markdown(stale, diagnosis="")
    assert [*contradictions("markdown", old, stale, found)] == [
        "recommends repetition_penalty 1.05 to 1.1; its table has 1.05 failing",
        "says 'To test the cause' of a confirmed plane",
    ]
    assert len([*missing_remedy(old, found)]) == 2


def test_concluding_twice_adds_nothing(diagnosed: Store) -> None:
    """A verdict that is confirmed already is left alone, whoever asks again."""
    result = conclude(diagnosed, "r1")
    assert apply_diagnosis(result.verdict, FOUND, result.run) == result.verdict
    partly = replace(FOUND, chain=(replace(LOOP, plane=None, basis=None), DRIFT))
    once = apply_diagnosis(PlaneVerdict(None, None, "x"), partly, result.run)
    assert apply_diagnosis(once, partly, result.run) == once


def test_the_load_is_the_advice_where_the_system_was_confirmed() -> None:
    """How many requests were shown to be safe, or that fewer are, where no campaign followed."""
    link = replace(LOOP, plane=Plane.SYSTEM, cleared_by="one request at a time")
    run: Run = make_run("r1")
    observed = PlaneVerdict(Plane.DECODING, Basis.OBSERVED, "x", (), ("To test the cause: …",))
    [alone] = apply_diagnosis(observed, Diagnosis("r1", (link,)), run).advice
    assert alone.startswith("Better: lower the load")
    [few] = apply_diagnosis(observed, Diagnosis("r1", (link,), concurrency=1), run).advice
    assert few.startswith("Better: keep at most one request in flight")
    limit = Threshold(0.1, 0.9, 4003, 24, 1, 0.1, certified=True)
    limited = Diagnosis(
        "r1",
        (link,),
        concurrency=1,
        safe_max_tokens=3602,
        safe_run="r2",
        safe_n=24,
        safe_threshold=limit,
    )
    [few] = apply_diagnosis(observed, limited, run).advice
    assert few.endswith(
        "With it, the safe max_tokens is 3,602 (T = 4,003; only at rigor quick: at most 10 % "
        "degenerate by T, 90 % confidence, n = 24, of which 1 degenerated; run r2)."
    )
    quick = replace(run, settings=replace(run.settings, rigor="quick"))
    [alike] = apply_diagnosis(observed, limited, quick).advice
    assert alike.endswith(
        "is 3,602 (T = 4,003; at most 10 % degenerate by T, 90 % confidence, n = 24, of which 1 degenerated; "
        "run r2)."
    )
    floor = replace(limited, safe_threshold=replace(limit, onsets=0, censored_at=4003))
    [healthy] = apply_diagnosis(observed, floor, quick).advice
    assert "(T ≥ 4,003; " in healthy
    assert "of which none degenerated" in healthy
    earlier = replace(limited, safe_threshold=None)
    [unknown] = apply_diagnosis(observed, earlier, quick).advice
    assert unknown.endswith("is 3,602 (at most 10 % degenerate by T, 90 % confidence, n = 24; run r2).")
    loop = replace(LOOP, run_id="r2", cleared_by="repetition_penalty 1.15")
    both = replace(limited, chain=(link, loop), recommended=Decoding(repetition_penalty=1.15))
    gibberish = replace(both, chain=(replace(link, symptom=SymptomKind.GIBBERISH), loop))
    [together] = apply_diagnosis(observed, gibberish, quick).advice
    assert together.startswith(
        "Better: keep at most one request in flight, which clears the gibberish (more may be possible), and "
        "use repetition_penalty 1.15, which clears the loop. With both, the safe max_tokens is 3,602"
    )
    assert "the next failure" in together  # the loop, in r2, which is not cleared there
    [cleared] = apply_diagnosis(observed, replace(gibberish, safe_run="r3"), quick).advice
    assert "the next failure" not in cleared
    held = replace(quick, settings=replace(quick.settings, concurrency=1, holds_up_to=1))
    decoded = replace(limited, chain=(LOOP,), concurrency=None, recommended=Decoding(repetition_penalty=1.15))
    [under] = apply_diagnosis(observed, decoded, held).advice
    assert "at most 10 % degenerate by T, with at most 1 request in flight, 90 % confidence" in under
    uncapped = replace(limited, safe_max_tokens=None)
    [without] = apply_diagnosis(observed, uncapped, run).advice
    assert without.endswith("Run r2 measured that, and recommends no cap: `stresstest runs show` says why.")


@pytest.mark.parametrize(
    ("outputs", "failed", "upper", "word"),
    [
        (4, 0, 0.527, "only tried: none of 4"),
        (4, 1, 0.751, "only tried: 1 of 4"),
        (4, 3, 0.987, "does not hold here: 3 of 4"),
        (9, 0, 0.283, "is tested: none of 9"),
    ],
)
def test_a_split_is_verified_by_its_bound_alone(outputs: int, failed: int, upper: float, word: str) -> None:
    """Four outputs verify nothing, whatever they show; what an earlier version stored is worded anew."""
    remedy = replace(SPLIT, outputs=outputs, failed=failed, upper=upper)
    assert word in split_sentence(remedy)
    [link] = chain_keys(Diagnosis("r1", (replace(DRIFT, remedy=remedy),)))["chain"]
    assert word in link["remedy"]["sentence"]


def test_a_penalty_of_one_is_said_to_be_off() -> None:
    """Beside the unchanged arm "repetition_penalty 1" looks like a repeat of it."""
    arms = {arm.name: arm.changed for arm in decoding_arms(Decoding(repetition_penalty=1.2), "Only Italian.")}
    assert arms["penalty-1"] == "repetition_penalty 1 (off)"
    assert (
        arms["constraint-and-penalty"]
        == "the language asked for in the system prompt, and repetition_penalty 1 (off)"
    )
    assert arms["penalty-1.1"] == "repetition_penalty 1.1"
