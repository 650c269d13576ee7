"""JUnit XML and GitHub's workflow commands: read by other programs, and fed with hostile text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped

from stresstest.model import (
    CheckVerdict,
    Comparison,
    Finding,
    FindingKind,
    PlaneVerdict,
    RunResult,
    RunStatus,
    Severity,
    Side,
    Subject,
    Threshold,
)
from stresstest.report.cases import Case, State, Suite, comparison_suite, run_suite
from stresstest.report.github import workflow_commands
from stresstest.report.junit import junit_xml
from tests.unit.store_data import make_run

HOSTILE = st.text(max_size=60) | st.sampled_from(
    [
        "]]><x/>",
        "\x00\x1b[31m\ufffe\uffff",
        "a\r\n::error::owned",
        "\u2028\U0001fffe",
        "100% %0A ::set-env name=A::b",
    ]
)


@given(name=HOSTILE, message=HOSTILE, state=st.sampled_from(list(State)))
def test_any_text_gives_a_document_that_a_parser_accepts(name: str, message: str, state: State) -> None:
    """One case in, the same case out: nothing breaks out of its attribute, nothing is illegal in XML."""
    case = Case(name, state, message, "kind" if state in (State.FAILURE, State.ERROR) else "")
    document = JUnitXml.fromstring(junit_xml([Suite(name, (case,), "c", 1.5, {"p": message})]).encode())
    (suite,) = document
    (found,) = suite
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (
        1,
        int(state is State.FAILURE),
        int(state is State.ERROR),
        int(state is State.SKIPPED),
    )
    kinds = {State.FAILURE: Failure, State.ERROR: Error, State.SKIPPED: Skipped}
    assert [type(result) for result in found.result] == ([kinds[state]] if state in kinds else [])


@given(name=HOSTILE, message=HOSTILE)
def test_an_annotation_is_one_line_and_one_command(name: str, message: str) -> None:
    """What a model or a server wrote cannot start a workflow command of its own, nor add properties."""
    suite = Suite(name, (Case(name, State.FAILURE, message, "breach"),), "c")
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
            Case("a", State.FAILURE, "m", "inconclusive"),
            "::error title=stresstest%3A s%3A a (inconclusive)::m",
        ),
        (Case("a", State.ERROR, "m", "infrastructure"), "::error "),
        (Case("a", State.SKIPPED, "no baseline"), "::notice "),
        (Case("a", State.PASSED, "m", warning=True), "::warning "),
    ],
)
def test_levels_of_annotations(case: Case, start: str) -> None:
    """Failures and errors are errors, a remark on a passed case is a warning, a plain pass says nothing."""
    assert next(workflow_commands([Suite("s", (case, Case("b", State.PASSED, "fine")), "c")])).startswith(
        start
    )
    assert list(workflow_commands([Suite("s", (Case("b", State.PASSED, "fine"),), "c")])) == []


def test_one_message_is_annotated_once_a_suite() -> None:
    """A dead server fails every budget of a cell in the same words: GitHub shows ten annotations a step."""
    cases = tuple(Case(name, State.ERROR, "refused", "infrastructure") for name in "abc")
    assert len(list(workflow_commands([Suite("s", cases, "c"), Suite("t", cases, "c")]))) == 2


def test_times_and_counts_add_up() -> None:
    """Viewers sum the cases' times: they must give the time that was spent measuring."""
    cases = (Case("a", State.PASSED), Case("b", State.FAILURE, "m", "breach"))
    document = JUnitXml.fromstring(
        junit_xml([Suite("s", cases, "c", 3.0), Suite("t", cases, "c", 1.0)]).encode()
    )
    assert (document.tests, document.failures, document.time) == (4, 2, 4.0)
    assert sum(case.time for suite in document for case in suite) == pytest.approx(4.0)


def compared(tested: CheckVerdict, *findings: Finding) -> Comparison:
    """A check of two runs with this word of the test."""
    side = Side("run a", Subject("m", "narrative", "it"), ("a",), at_risk=60, failed=3)
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
    assert (test.state is State.PASSED, test.kind) == (passed, "" if passed else str(tested))
    assert [case.state for case in rest] == [State.PASSED] * len(FindingKind)
    assert [case.name for case in rest if case.warning] == ["max_drop"]


def test_a_finding_that_counts_as_an_error_fails_and_a_cut_check_is_an_error() -> None:
    """`--error-on` makes a failure of a finding; a server that was lost says nothing about the model."""
    counted = Finding(FindingKind.PLANE_MOVED, "context, was decoding", Severity.ERROR)
    cases = {case.name: case for case in comparison_suite(compared(CheckVerdict.PASS, counted)).cases}
    assert cases["plane_moved"].state is State.FAILURE
    cut = comparison_suite(compared(CheckVerdict.INCONCLUSIVE), trouble="refused")
    assert (cut.cases[0].state, cut.cases[0].kind) == (State.ERROR, "infrastructure")


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
    assert states == [(State.PASSED, ""), (State.FAILURE, "inconclusive"), (State.ERROR, "infrastructure")]
    text = junit_xml([run_suite(each) for each in (certified, lacking, failed)])
    document = JUnitXml.fromstring(text.encode())
    assert (document.tests, document.failures, document.errors) == (3, 1, 1)
