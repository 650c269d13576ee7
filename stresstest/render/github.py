"""Annotations for GitHub Actions, as workflow commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stresstest.model.texts.ci_commands import LOG_COMMAND
from stresstest.render.test_cases import CaseState, CaseSuite
from stresstest.render.text import single_line


def workflow_commands(suites: Iterable[CaseSuite]) -> Iterator[str]:
    """One workflow command for each case that did not pass or has a warning.

    Cases of a suite with the same state and message share one. Text is escaped as in actions/toolkit,
    packages/core/src/command.ts, so that it cannot end the line or a property.
    """
    for suite in suites:
        said: set[tuple[CaseState, str]] = set()
        for case in suite.cases:
            if (case.state is CaseState.PASSED and not case.warning) or (case.state, case.message) in said:
                continue
            said.add((case.state, case.message))
            level = {CaseState.PASSED: "warning", CaseState.SKIPPED: "notice"}.get(case.state, "error")
            kind = f" ({case.kind})" if case.kind else ""
            title = _property(f"stresstest: {suite.name}: {case.name}{kind}")
            yield f"::{level} title={title}::{_data(case.message)}"


def _data(text: str) -> str:
    # `##[` begins an older kind of command, for which the toolkit has no escape.
    return LOG_COMMAND.sub(r"\1 [", single_line(text).replace("%", "%25"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
