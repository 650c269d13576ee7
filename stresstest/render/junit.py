"""JUnit XML, which CI servers show as test results (Jenkins, GitLab, GitHub reporters, Azure)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from stresstest.render.test_cases import CaseResult, CaseState, CaseSuite
from stresstest.render.text import sanitize


def junit_xml(suites: Sequence[CaseSuite], *, name: str = "stresstest") -> str:
    """The document with an XML declaration. Text is escaped, and characters that XML forbids are removed."""
    root = ET.Element("testsuites", _totals(name, suites))
    for suite in suites:
        element = ET.SubElement(root, "testsuite", _totals(suite.name, [suite]))
        if suite.properties:
            properties = ET.SubElement(element, "properties")
            for key, value in suite.properties.items():
                ET.SubElement(properties, "property", {"name": key, "value": _legal(value)})
        for case in suite.cases:
            _case(element, suite, case)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _totals(name: str, suites: Sequence[CaseSuite]) -> dict[str, str]:
    cases = [case for suite in suites for case in suite.cases]
    counts = {
        "tests": len(cases),
        "failures": sum(case.state is CaseState.FAILURE for case in cases),
        "errors": sum(case.state is CaseState.ERROR for case in cases),
        "skipped": sum(case.state is CaseState.SKIPPED for case in cases),
    }
    seconds = sum(suite.seconds for suite in suites)
    return {"name": _legal(name), **{k: str(v) for k, v in counts.items()}, "time": f"{seconds:.3f}"}


def _case(parent: ET.Element, suite: CaseSuite, case: CaseResult) -> None:
    # The first case waits for the measurement; the others are read off it.
    seconds = suite.seconds if case is suite.cases[0] else 0.0
    # Viewers take dots as package separators, but model names contain them (Qwen2.5).
    group = f"{suite.classname}.{suite.name.replace('.', '_')}"
    attributes = {"name": _legal(case.name), "classname": _legal(group)}
    element = ET.SubElement(parent, "testcase", {**attributes, "time": f"{seconds:.3f}"})
    message = _legal(case.message)
    if case.state in (CaseState.FAILURE, CaseState.ERROR):
        found = ET.SubElement(element, str(case.state), {"message": message, "type": case.kind})
        found.text = message
    elif case.state is CaseState.SKIPPED:
        ET.SubElement(element, "skipped", {"message": message})
    elif message:
        ET.SubElement(element, "system-out").text = f"warning: {message}" if case.warning else message


def _legal(text: str) -> str:
    """The text without control sequences and the non-characters that XML 1.0 forbids."""
    return "".join(c for c in sanitize(text) if unicodedata.category(c) != "Cn" or ord(c) & 0xFFFE != 0xFFFE)
