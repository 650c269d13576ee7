"""Runs as JUnit XML, one suite each."""

from __future__ import annotations

from collections.abc import Sequence

from stresstest.model import RunResult, RunStatus
from stresstest.render.junit import junit_xml
from stresstest.render.report_data import ReportData
from stresstest.render.sentences import headline
from stresstest.render.test_cases import CaseResult, CaseState, CaseSuite


def run_suite(result: RunResult) -> CaseSuite:
    """A suite of one case, which passes if a threshold was certified that has room for one unit, and no other
    run speaks against its limit."""
    run = result.run
    if run.status is RunStatus.FAILED:
        case = CaseResult("certified", CaseState.ERROR, run.note or "the run failed", "infrastructure")
    elif result.threshold.unfit:
        case = CaseResult("certified", CaseState.FAILURE, headline(result), "unfit")
    elif result.overruled_by is not None:
        case = CaseResult("certified", CaseState.FAILURE, headline(result), "overruled")
    elif result.threshold.certified:
        case = CaseResult("certified", CaseState.PASSED, headline(result))
    else:
        case = CaseResult("certified", CaseState.FAILURE, headline(result), "inconclusive")
    safe = result.safe_max_tokens
    properties = {
        "run": run.id,
        "simulated": str(run.profile.simulated).lower(),
        "safe_max_tokens": "" if safe is None else str(safe),
    }
    return CaseSuite(str(run.settings.subject), (case,), "stresstest.run", result.seconds, properties)


def write(runs: Sequence[ReportData]) -> str:
    """One test case per run, which passes if a threshold was certified."""
    return junit_xml([run_suite(each.result) for each in runs])
