"""GitHub Actions: annotations (workflow commands on stderr) and the job's summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stresstest.report.cases import State, Suite
from stresstest.report.limits import one_line


def workflow_commands(suites: Iterable[Suite]) -> Iterator[str]:
    """One workflow command a case that did not plainly pass, one for cases with the same message.

    Foreign text cannot end the line or a property.

    Source of the escaping: actions/toolkit, packages/core/src/command.ts.
    """
    for suite in suites:
        said: set[tuple[State, str]] = set()
        for case in suite.cases:
            if (case.state is State.PASSED and not case.warning) or (case.state, case.message) in said:
                continue
            said.add((case.state, case.message))
            level = {State.PASSED: "warning", State.SKIPPED: "notice"}.get(case.state, "error")
            kind = f" ({case.kind})" if case.kind else ""
            title = _property(f"stresstest: {suite.name}: {case.name}{kind}")
            yield f"::{level} title={title}::{_data(case.message)}"


def _data(text: str) -> str:
    return one_line(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
