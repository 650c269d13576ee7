"""`stresstest check`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.check_project import Outputs, check_project_file, refuse_without_baseline
from stresstest.cli.options import progress_for, show_error, stdout_console, with_run_options
from stresstest.config import DEFAULT_BASE_URL, parse_share
from stresstest.errors import ExitCode, InterruptedEarlyError, UsageError
from stresstest.model import SAMPLING

if TYPE_CHECKING:
    from stresstest.model import FindingKind
    from stresstest.workflows.check import Checked, CheckSettings

EXAMPLES = """\b
Examples:
  stresstest check --baseline 20261121-173000-4f2a --candidate latest
  stresstest check --baseline mistral-7b --candidate mistral-7b --base-url http://staging:8000/v1
  stresstest check --baseline 20261121-17 --candidate qwen-7b-awq --max-increase 2% --extend --json
  stresstest check --baseline before.jsonl --candidate after.jsonl --lang it --markdown comment.md
  stresstest check --config stresstest.toml --junit results.xml
"""
# Option → field of the settings of what is measured now.
_CHANGED = {
    "concurrency": "concurrency",
    "horizon": "horizon",
    "rigor": "rigor",
    "budget_tokens": "budget_tokens",
    "budget_time": "budget_seconds",
    "seed": "seed",
    "gpus": "gpus",
    "gpu_exporter": "gpu_exporter",
}
_BUDGETS = {"budget_tokens", "budget_time"}
_REFUSED = {
    "model": "the candidate's model is named by --candidate",
    "prompts": "the candidate is asked what the baseline was asked",
    "tighten": "a second look is declared by --extend",
    "no_abort": "it changes nothing here",
}


@with_run_options
def command(
    options: dict[str, Any],
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline", help="Stored run (id, its beginning, latest), model, or recorded outputs."
        ),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate",
            help="As --baseline; a model without a fitting stored run is measured now, at --base-url. "
            "[default: what is served there]",
        ),
    ] = None,
    fresh_baseline: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A second run of the baseline: then common prompts are compared."),
    ] = None,
    max_increase: Annotated[
        str | None, typer.Option(help="Increase of the risk at T to tolerate, 0.02 or 2%. [default: α of T]")
    ] = None,
    max_drop: Annotated[str, typer.Option(help="Fall of the safe max_tokens without a warning.")] = "10%",
    extend: Annotated[
        bool, typer.Option("--extend", help="Declare a second look at more data; both at 97.5 %.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the candidate now, even if a run of it is stored.")
    ] = False,
    allow_different: Annotated[
        list[str] | None,
        typer.Option(help="Compare although this differs: task, language, decoding, tokenizer. Repeatable."),
    ] = None,
    error_on: Annotated[
        list[str] | None,
        typer.Option(help="Fail on this too: max-drop, new-symptoms, plane-moved, survival. Repeatable."),
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="Recorded outputs: where something lies, as for scan.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Recorded outputs: the model's tokenizer.json.")
    ] = None,
    markdown: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the outcome there for a pull request's comment.")
    ] = None,
    junit: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the outcome there as JUnit XML.")
    ] = None,
    github: Annotated[
        bool,
        typer.Option(
            "--github", help="Annotations and job summary for GitHub Actions. [default: where it runs there]"
        ),
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Does the candidate degenerate more than the baseline, at the baseline's threshold T?

    Pass (exit 0): the risk at T is at most what T stands for plus --max-increase, with 95 % confidence.
    Regression (99): it is surely more than what T stands for. Inconclusive (4): says how much is lacking.
    The baseline's own sample chose T and is not used again: the candidate's is fresh. Sampling options change
    the candidate that is measured now. An interrupted check goes on when it is given again.

    Without --baseline every cell of the project file (--config FILE, else ./stresstest.toml) is measured and
    held to its budgets; --model, --task and --lang choose among them. The worst decides: a breached budget
    99, trouble with an endpoint 3, undecided 4.
    """
    from stresstest.report.cases import comparison_suite
    from stresstest.report.check import check_document, check_markdown, empty_check_document, print_check
    from stresstest.report.document import dumps

    outputs = Outputs(junit=junit, markdown=markdown, github=github)
    if not baseline:
        refuse_without_baseline(
            candidate=candidate,
            fresh_baseline=fresh_baseline,
            max_increase=max_increase,
            extend=extend,
            allow_different=allow_different,
            error_on=error_on,
            field=field,
            tokenizer=tokenizer,
        )
        check_project_file(options, outputs, anew=measure, json_output=json_output)
        return
    settings = _settings(
        options,
        baseline=tuple(baseline),
        candidate=tuple(candidate or ()),
        fresh=fresh_baseline,
        max_increase=None if max_increase is None else _share("--max-increase", max_increase),
        max_drop=_share("--max-drop", max_drop),
        extend=extend,
        measure=measure,
        allow=_allowed(allow_different or []),
        errors=_errors(error_on or []),
        job=_job(options, field or [], tokenizer),
    )
    try:
        done = _play(options, settings)
    except (InterruptedEarlyError, KeyboardInterrupt):
        if json_output:
            typer.echo(dumps(empty_check_document()))
        raise
    trouble = None if done.error is None else str(done.error)
    outputs.write([comparison_suite(done.comparison, trouble=trouble)], check_markdown(done.comparison))
    if json_output:
        typer.echo(dumps(check_document(done.comparison)))
    else:
        print_check(stdout_console(), done.comparison, document_id=done.document_id)
    exit_checked(done)


def _settings(options: dict[str, Any], **own: Any) -> CheckSettings:
    """The check that the options describe. Raises UsageError for run's options that mean nothing here."""
    from stresstest.workflows.check import CheckSettings

    given: set[str] = options["given"]
    for name, why in _REFUSED.items():
        if name in given:
            raise UsageError(f"--{name.replace('_', '-')} is not for check: {why}.")
    return CheckSettings(
        task=options["task"] if "task" in given else None,
        language=options["lang"] if "lang" in given else None,
        rigor=options["rigor"],
        margin=options["margin"],
        # The baseline's own address, unless another is named: by option, environment or file.
        base_url=options["base_url"]
        if "base_url" in given or options["base_url"] != DEFAULT_BASE_URL
        else None,
        changed={
            field: options[name]
            for name, field in _CHANGED.items()
            if name in given or (name in _BUDGETS and options[name] is not None)
        },
        sampling={name: options[name] for name in SAMPLING if name in given},
        **own,
    )


def _share(name: str, value: str) -> float:
    try:
        return parse_share(value)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _allowed(names: Sequence[str]) -> frozenset[str]:
    from stresstest.workflows.check_differences import INCOMPARABLE

    for name in names:
        if name not in INCOMPARABLE:
            raise UsageError(
                f"--allow-different {name!r} is not known: choose from {', '.join(INCOMPARABLE)}."
            )
    return frozenset(names)


def _errors(names: Sequence[str]) -> frozenset[FindingKind]:
    from stresstest.model import FindingKind

    known = {str(kind).replace("_", "-"): kind for kind in FindingKind}
    for name in names:
        if name not in known:
            raise UsageError(f"--error-on {name!r} is not known: choose from {', '.join(known)}.")
    return frozenset(known[name] for name in names)


def _job(options: dict[str, Any], fields: Sequence[str], tokenizer: str | None) -> Any:
    """How recorded outputs are read, as `scan` reads them."""
    from stresstest.detectors import can_judge
    from stresstest.records import parse_fields
    from stresstest.workflows.check_sample import GROUP_KEYS
    from stresstest.workflows.scan_judge import Job

    language = options["lang"]
    if language and "lang" in options["given"] and not can_judge(language):
        raise UsageError(
            f"--lang {language!r}: no identifier here knows this language; write a code such as it."
        )
    return Job(mapped=parse_fields(list(fields), GROUP_KEYS), language=language, tokenizer=tokenizer)


def _play(options: dict[str, Any], settings: CheckSettings) -> Checked:
    from stresstest.cli.run import until_interrupted
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.store import open_store
    from stresstest.workflows.check import check

    store = open_store(options["store"])
    progress = progress_for(options["display"])

    async def play(stop: asyncio.Event) -> Checked:
        return await check(settings, store, progress, api_key=options["api_key"], stop=stop)

    try:
        return run_loop(until_interrupted(play))
    finally:
        progress.close()
        store.close()


def exit_checked(done: Checked) -> None:
    """Leave with the code that the outcome has; returns on a pass."""
    from stresstest.model import CheckVerdict

    if done.error is not None:
        show_error(done.error)
        raise typer.Exit(ExitCode.ENDPOINT)
    if done.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if done.comparison.verdict is CheckVerdict.REGRESSION:
        raise typer.Exit(ExitCode.REGRESSION)
    if done.comparison.verdict is CheckVerdict.INCONCLUSIVE:
        raise typer.Exit(ExitCode.INCONCLUSIVE)
