"""Where a check's outcome is written besides the terminal: JUnit XML, Markdown, GitHub's annotations."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stresstest.errors import ExitCode, StresstestError, UsageError
from stresstest.model.address import without_secrets
from stresstest.options.output_folder import in_folder
from stresstest.options.streams import as_logged, write_workflow_command
from stresstest.output_file import refuse_one_file, refuse_overwriting

if TYPE_CHECKING:
    from stresstest.render.test_cases import CaseSuite

_JUNIT_NAME = "stresstest check"
_BEGINNINGS = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="{_JUNIT_NAME}"'.encode(),
    b"### stresstest check",
)
"""How the files that a check writes begin."""
_CUT_SHORT = "The check did not come to its end."
_KINDS = {ExitCode.ENDPOINT: "infrastructure", ExitCode.INTERRUPTED: "interrupted"}


@dataclass(frozen=True, slots=True)
class CheckOutputs:
    """Files to write, and whether to write for GitHub Actions (by default where it runs there)."""

    junit: str | None = None
    markdown: str | None = None
    github: bool = False

    def __post_init__(self) -> None:
        """UsageError for a folder that is not there: not only after hours of measuring."""
        for what, path in (("--junit", self.junit), ("--markdown", self.markdown)):
            if path is not None and not Path(path).parent.is_dir():
                raise UsageError(
                    f"{what} {path} cannot be written: the folder {Path(path).parent} does not exist."
                )
        refuse_one_file({"--junit": self.junit, "--markdown": self.markdown})

    @classmethod
    def named(
        cls, junit: str | None, markdown: str | None, output_dir: str | None, *, github: bool
    ) -> CheckOutputs:
        """Those that the options name. Raises UsageError for a folder that cannot be used."""
        chosen = output_dir is not None and markdown is None and junit is None
        if chosen:
            markdown, junit = "check.md", "check.xml"
        markdown, junit = in_folder(output_dir, markdown, junit, chosen=chosen)
        return cls(junit, markdown, github)

    def write(self, suites: Sequence[CaseSuite], markdown: str) -> None:
        """Write the requested files. Raises UsageError for a file that cannot be written."""
        from stresstest.render.github import workflow_commands
        from stresstest.render.junit import junit_xml

        if self.junit is not None:
            _write_file("--junit", self.junit, junit_xml(suites, name=_JUNIT_NAME))
        if self.markdown is not None:
            _write_file("--markdown", self.markdown, markdown)
        if not (self.github or os.environ.get("GITHUB_ACTIONS") == "true"):
            return
        # On stderr, which the runner reads as well: stdout is the result alone.
        for line in workflow_commands(suites):
            write_workflow_command(line)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            _write_file("GITHUB_STEP_SUMMARY", summary, markdown + "\n", append=True)

    @contextmanager
    def never_stale(self) -> Iterator[None]:
        """From the beginning on, the files hold nothing of an earlier check: a pipeline that publishes them
        whatever the exit code would show its pass. An error is written into them."""
        self._write_error(_CUT_SHORT, "interrupted", new=False)
        try:
            yield
        except StresstestError as error:
            with suppress(UsageError):
                self._write_error(without_secrets(str(error)), _KINDS.get(error.exit_code, "usage"), new=True)
            raise

    def _write_error(self, sentence: str, kind: str, *, new: bool) -> None:
        """Write why there is no result. Of files that are there, only those of an earlier check are replaced:
        whether another one is an input is not known yet. new: also files that are not there."""
        paths = {"--junit": self.junit, "--markdown": self.markdown}
        written = {
            what: path
            for what, path in paths.items()
            if path is not None and (_is_of_a_check(path) or (new and not Path(path).exists()))
        }
        if not written:
            return
        from stresstest.features.check.output.markdown import error_markdown
        from stresstest.features.check.output.test_cases import error_suite
        from stresstest.render.junit import junit_xml

        texts = {
            "--junit": junit_xml([error_suite(sentence, kind)], name=_JUNIT_NAME),
            "--markdown": error_markdown(sentence),
        }
        for what, path in written.items():
            _write_file(what, path, texts[what])


def with_current_files(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its files never stale, also where its options or its project file are refused."""

    @functools.wraps(command)
    def wrapper(context: Any, **values: Any) -> None:
        names = values["junit"], values["markdown"], values["output_dir"]
        with CheckOutputs.named(*names, github=values["github"]).never_stale():
            command(context, **values)

    return wrapper


def _is_of_a_check(path: str) -> bool:
    try:
        if not Path(path).is_file():  # a pipe must not be read
            return False
        with Path(path).open("rb") as file:
            return file.read(max(map(len, _BEGINNINGS))).startswith(_BEGINNINGS)
    except OSError:
        return False


def _write_file(what: str, path: str, text: str, *, append: bool = False) -> None:
    """Write or append, as a log would be; UsageError when that fails."""
    refuse_overwriting(path)
    try:
        with Path(path).open("a" if append else "w", encoding="utf-8") as file:
            file.write(as_logged(text))
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be written: {error.strerror or error}.") from None
