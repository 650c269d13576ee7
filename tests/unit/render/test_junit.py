"""JUnit XML and GitHub's workflow commands: read by other programs, and fed with hostile text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped

from stresstest.features.check.output.test_cases import comparison_suite
from stresstest.features.report.formats.junit import run_suite
from stresstest.model import (
    CheckVerdict,
    Comparison,
    ComparisonSide,
    Finding,
    FindingKind,
    PlaneVerdict,
    RunResult,
    RunStatus,
    Severity,
    Subject,
    Threshold,
)
from stresstest.render.github import workflow_commands
from stresstest.render.junit import junit_xml
from stresstest.render.test_cases import CaseResult, CaseState, CaseSuite
from tests.support.stored_data import make_run

HOSTILE = st.text(max_size=60) | st.sampled_from(
    [
        "]]><x/>",
        "\x00\x1b[31m\ufffe\uffff",
        "a\r\n::error::owned",
        "\u2028\U0001fffe",
        "100% %0A ::set-env name=A::b",
    ]
)


@given(name=HOSTILE, message=HOSTILE, state=st.sampled_from(list(CaseState)))
def test_any_text_gives_a_document_that_a_parser_accepts(name: str, message: str, state: CaseState) -> None:
    """One case in, the same case out: nothing breaks out of its attribute, nothing is illegal in XML."""
    case = CaseResult(name, state, message, "kind" if state in (CaseState.FAILURE, CaseState.ERROR) else "")
    document = JUnitXml.fromstring(junit_xml([CaseSuite(name, (case,), "c", 1.5, {"p": message})]).encode())
    (suite,) = document
    (found,) = suite
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (
        1,
        int(state is CaseState.FAILURE),
        int(state is CaseState.ERROR),
        int(state is CaseState.SKIPPED),
    )
    kinds = {CaseState.FAILURE: Failure, CaseState.ERROR: Error, CaseState.SKIPPED: Skipped}
    assert [type(result) for result in found.result] == ([kinds[state]] if state in kinds else [])


@given(name=HOSTILE, message=HOSTILE)
def test_an_annotation_is_one_line_and_one_command(name: str, message: str) -> None:
    """What a model or a server wrote cannot start a workflow command of its own, nor add properties."""
    suite = CaseSuite(name, (CaseResult(name, CaseState.FAILURE, message, "breach"),), "c")
    (line,) = workflow_commands([suite])
    assert line.startswith("::error title=stresstest%3A")
    assert len(line.splitlines()) == 1
    head, _, _ = line[2:].partition("::")
    assert "," not in head
    assert ":" not in head


@pytest.mark.parametrize(
    ("case", "start"),
    [
        (
            CaseResult("a", CaseState.FAILURE, "m", "inconclusive"),
            "::error title=stresstest%3A s%3A a (inconclusive)::m",
        ),
        (CaseResult("a", CaseState.ERROR, "m", "infrastructure"), "::error "),
        (CaseResult("a", CaseState.SKIPPED, "no baseline"), "::notice "),
        (CaseResult("a", CaseState.PASSED, "m", warning=True), "::warning "),
    ],
)
def test_levels_of_annotations(case: CaseResult, start: str) -> None:
    """Failures and errors are errors, a remark on a passed case is a warning, a plain pass says nothing."""
    assert next(
        workflow_commands([CaseSuite("s", (case, CaseResult("b", CaseState.PASSED, "fine")), "c")])
    ).startswith(start)
    assert list(workflow_commands([CaseSuite("s", (CaseResult("b", CaseState.PASSED, "fine"),), "c")])) == []


def test_one_message_is_annotated_once_a_suite() -> None:
    """A dead server fails every budget of a cell in the same words: GitHub shows ten annotations a step."""
    cases = tuple(CaseResult(name, CaseState.ERROR, "refused", "infrastructure") for name in "abc")
    assert len(list(workflow_commands([CaseSuite("s", cases, "c"), CaseSuite("t", cases, "c")]))) == 2


def test_times_and_counts_add_up() -> None:
    """Viewers sum the cases' times: they must give the time that was spent measuring. No case has a time that
    nobody measured."""
    cases = (CaseResult("a", CaseState.PASSED), CaseResult("b", CaseState.FAILURE, "m", "breach"))
    document = JUnitXml.fromstring(
        junit_xml([CaseSuite("s", cases, "c", 3.0), CaseSuite("t", cases, "c", 1.0)]).encode()
    )
    assert (document.tests, document.failures, document.time) == (4, 2, 4.0)
    assert [case.time for suite in document for case in suite] == [3.0, 0.0, 1.0, 0.0]


def compared(tested: CheckVerdict, *findings: Finding) -> Comparison:
    """A check of two runs with this word of the test."""
    side = ComparisonSide("run a", Subject("m", "narrative", "it"), ("a",), at_risk=60, failed=3)
    return Comparison(
        baseline=side,
        candidate=replace(side, label="run b", run_ids=("b",)),
        at_tokens=2000,
        alpha=0.05,
        max_increase=0.02,
        tested=tested,
        interval=(0.01, 0.12),
        p_candidate=0.05,
        lacking="40 more at risk are needed" if tested is CheckVerdict.INCONCLUSIVE else None,
        findings=findings,
    )


@pytest.mark.parametrize("tested", list(CheckVerdict))
def test_a_check_of_two_is_a_failure_unless_it_passes(tested: CheckVerdict) -> None:
    """Regression and inconclusive fail the case, each under its own type; a finding told is no failure."""
    told = Finding(FindingKind.MAX_DROP, "the safe max_tokens fell by 20 %")
    test, *rest = comparison_suite(compared(tested, told)).cases
    passed = tested is CheckVerdict.PASS
    assert (test.state is CaseState.PASSED, test.kind) == (passed, "" if passed else str(tested))
    assert [case.state for case in rest] == [CaseState.PASSED] * len(FindingKind)
    assert [case.name for case in rest if case.warning] == ["max_drop"]


def test_names_are_the_same_from_check_to_check() -> None:
    """A CI server follows a case by its name: run ids stand in the properties."""
    found = compared(CheckVerdict.PASS)
    again = replace(found, candidate=replace(found.candidate, label="run c", run_ids=("c",)))
    one, other = comparison_suite(found), comparison_suite(again)
    assert one.name == other.name == str(found.baseline.subject)
    assert [case.name for case in one.cases] == [case.name for case in other.cases]
    assert one.properties["runs"] != other.properties["runs"]
    files = replace(found.baseline, label="old.jsonl", run_ids=())
    assert comparison_suite(replace(found, baseline=files)).name == f"old.jsonl → {found.candidate.subject}"


def test_a_finding_that_counts_as_an_error_fails_and_a_cut_check_is_an_error() -> None:
    """`--error-on` makes a failure of a finding; a server that was lost says nothing about the model."""
    counted = Finding(FindingKind.PLANE_MOVED, "context, was decoding", Severity.ERROR)
    cases = {case.name: case for case in comparison_suite(compared(CheckVerdict.PASS, counted)).cases}
    assert cases["plane_moved"].state is CaseState.FAILURE
    cut = comparison_suite(compared(CheckVerdict.INCONCLUSIVE), error="refused")
    assert (cut.cases[0].state, cut.cases[0].kind) == (CaseState.ERROR, "infrastructure")


def test_a_stored_run_passes_when_it_certified_something() -> None:
    """`report RUN -o x.xml`: certified passes, too few data fail, a run that failed is an error."""
    nothing = PlaneVerdict(None, None, "Nothing fails.")
    certified = RunResult(make_run(), Threshold(0.05, 0.95, 900, 124, 0, 0.02, True), 810, nothing, ())
    lacking = replace(certified, threshold=Threshold(0.05, 0.95, lacking="49 more"), safe_max_tokens=None)
    failed = replace(lacking, run=replace(lacking.run, status=RunStatus.FAILED, note="the server is gone"))
    states = [
        (run_suite(each).cases[0].state, run_suite(each).cases[0].kind)
        for each in (certified, lacking, failed)
    ]
    assert states == [
        (CaseState.PASSED, ""),
        (CaseState.FAILURE, "inconclusive"),
        (CaseState.ERROR, "infrastructure"),
    ]
    text = junit_xml([run_suite(each) for each in (certified, lacking, failed)])
    document = JUnitXml.fromstring(text.encode())
    assert (document.tests, document.failures, document.errors) == (3, 1, 1)
