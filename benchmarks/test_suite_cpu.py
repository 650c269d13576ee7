"""CPU time of the fast tests: in all, and by file or by test.

    python -m benchmarks.test_suite_cpu                                    # what `make test` costs
    python -m benchmarks.test_suite_cpu --by test --top 40 -- tests/unit/campaign -n 0

The total is user and system time of pytest, its workers and every process that the tests started, those
that outlived their parent included (on Linux). Unlike the duration, it depends little on how busy the
machine is.
A test's figure is the CPU time between its report and the previous one of the same worker, with the
processes that ended in between; a shared fixture counts for the test that first requested it, and what
is forked from a process that several tests share counts only in the total.
Arguments after `--` are pytest's. Exit code: pytest's, or 1 if the total is over the limit.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 300.0
"""Seconds that the whole of `make test` may cost."""
_PROPERTY = "cpu_seconds"
_PR_SET_CHILD_SUBREAPER = 36


def cpu_seconds(*of: int) -> float:
    """User and system time so far of RUSAGE_SELF (this process) or RUSAGE_CHILDREN (those it waited for)."""
    usages = [resource.getrusage(who) for who in of]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class TestCosts:
    """A pytest plugin: each worker adds the CPU time to its reports, the main process sums them up."""

    __test__ = False

    def __init__(self, by: str, top: int) -> None:
        self._by, self._top = by, top
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._before = cpu_seconds(resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach what was spent since the previous report."""
        report = yield
        now = cpu_seconds(resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        report.user_properties.append((_PROPERTY, now - self._before))
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Sum up what a worker, or this process itself, reported."""
        name = report.nodeid if self._by == "test" else report.nodeid.split("::")[0]
        for key, value in report.user_properties:
            if key == _PROPERTY and isinstance(value, float):
                self._spent[name] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The most expensive files or tests."""
        terminalreporter.section(f"CPU seconds by {self._by}: {sum(self._spent.values()):.1f} in tests")
        for name, seconds in sorted(self._spent.items(), key=lambda item: -item[1])[: self._top]:
            terminalreporter.write_line(f"{seconds:8.2f}  {name}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the plugin, which xdist hands on to its workers."""
    parser.addoption("--cpu-by", default="file")
    parser.addoption("--cpu-top", type=int, default=25)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin in the main process and in every worker."""
    config.pluginmanager.register(TestCosts(config.getoption("--cpu-by"), config.getoption("--cpu-top")))


def adopt_orphans() -> None:
    """Have processes whose parent ends become children of this one, so that their time is counted."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_orphans() -> None:
    """Those that were adopted end by themselves soon after their parent."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--by", choices=("file", "test"), default="file")
    parser.add_argument("--top", type=int, default=25, help="rows of the table")
    parser.add_argument("--limit", type=float, default=LIMIT, help="CPU seconds allowed")
    parser.add_argument("pytest_arguments", nargs="*", default=["-n", "auto"], metavar="PYTEST_ARGUMENT")
    given = parser.parse_args()
    options = ["-q", "-p", "benchmarks.test_suite_cpu", "--cpu-by", given.by, "--cpu-top", str(given.top)]
    adopt_orphans()
    code = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *given.pytest_arguments], cwd=ROOT
    ).returncode
    wait_for_orphans()
    total = cpu_seconds(resource.RUSAGE_CHILDREN)
    print(f"CPU time: {total:.0f} s ({total / 60:.1f} min), at most {given.limit:.0f} s")
    return code or int(total > given.limit)


if __name__ == "__main__":
    sys.exit(main())
