"""JUnit XML: what CI servers show as test results (Jenkins, GitLab, GitHub reporters, Azure)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from stresstest.report.cases import Case, State, Suite
from stresstest.report.text import clean


def junit_xml(suites: Sequence[Suite], *, name: str = "stresstest") -> str:
    """The document, with an XML declaration. Foreign text is escaped, and stripped of what XML forbids."""
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


def _totals(name: str, suites: Sequence[Suite]) -> dict[str, str]:
    cases = [case for suite in suites for case in suite.cases]
    counts = {
        "tests": len(cases),
        "failures": sum(case.state is State.FAILURE for case in cases),
        "errors": sum(case.state is State.ERROR for case in cases),
        "skipped": sum(case.state is State.SKIPPED for case in cases),
    }
    seconds = sum(suite.seconds for suite in suites)
    return {"name": _legal(name), **{k: str(v) for k, v in counts.items()}, "time": f"{seconds:.3f}"}


def _case(parent: ET.Element, suite: Suite, case: Case) -> None:
    # The time of measuring is the suite's: its cases share it.
    seconds = suite.seconds / len(suite.cases)
    # Dots part packages in the viewers, and models are called Qwen2.5.
    group = f"{suite.classname}.{suite.name.replace('.', '_')}"
    attributes = {"name": _legal(case.name), "classname": _legal(group)}
    element = ET.SubElement(parent, "testcase", {**attributes, "time": f"{seconds:.3f}"})
    message = _legal(case.message)
    if case.state in (State.FAILURE, State.ERROR):
        found = ET.SubElement(element, str(case.state), {"message": message, "type": case.kind})
        found.text = message
    elif case.state is State.SKIPPED:
        ET.SubElement(element, "skipped", {"message": message})
    elif message:
        ET.SubElement(element, "system-out").text = f"warning: {message}" if case.warning else message


def _legal(text: str) -> str:
    """Without control sequences, and without the non-characters that XML 1.0 forbids."""
    return "".join(c for c in clean(text) if unicodedata.category(c) != "Cn" or ord(c) & 0xFFFE != 0xFFFE)
