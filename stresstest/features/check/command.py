"""`stresstest check`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.config.settings import DEFAULT_BASE_URL, parse_share
from stresstest.errors import ExitCode, UsageError
from stresstest.features.check.output.outputs import CheckOutputs, with_current_files
from stresstest.features.check.project.command import check_project_file, refuse_without_baseline
from stresstest.model import SAMPLING
from stresstest.options.common import stdout_console, with_run_options
from stresstest.options.measurement import exit_if_cut_short, run_measurement
from stresstest.options.output_folder import OutputDir
from stresstest.output_file import refuse_inputs

if TYPE_CHECKING:
    from stresstest.campaign.progress import Progress
    from stresstest.features.check.settings import CheckSettings
    from stresstest.features.check.workflow import CheckResult
    from stresstest.model import FindingKind
    from stresstest.store.repository import Store

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
    "stall_timeout": "stall_timeout",
}
_BUDGETS = {"budget_tokens", "budget_time"}
_REFUSED = {
    "model": "--candidate names the candidate's model",
    "prompts": "the candidate gets the same prompts as the baseline",
    "tighten": "use --extend to declare a second look",
    "no_abort": "it has no effect here",
}


@with_current_files
@with_run_options
def command(
    options: dict[str, Any],
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            help="A stored run (id, the beginning of it, or latest), a model, or recorded outputs. In a "
            "pipeline name a run: latest moves on. Required without a project file.",
        ),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate",
            help="Like --baseline. A model without a matching stored run is measured now, at "
            "--base-url. [default: the model served there]",
        ),
    ] = None,
    fresh_baseline: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="A second run of the baseline; the prompts that both runs share are then compared in pairs.",
        ),
    ] = None,
    max_increase: Annotated[
        str | None, typer.Option(help="Tolerated increase of the risk at T: 0.02 or 2%. [default: α of T]")
    ] = None,
    max_drop: Annotated[
        str, typer.Option(help="Tolerated decrease of the safe max_tokens; a larger one is a warning.")
    ] = "10%",
    extend: Annotated[
        bool, typer.Option("--extend", help="Declare a second look with more data, each at 97.5 %.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the candidate now, even if a run of it is stored.")
    ] = False,
    allow_different: Annotated[
        list[str] | None,
        typer.Option(help="Compare despite a different task, language, decoding or tokenizer. Repeatable."),
    ] = None,
    allow_refused_baseline: Annotated[
        bool,
        typer.Option(
            "--allow-refused-baseline",
            help="Accept a baseline that a check rejected, to ask whether the candidate is better. "
            "Name it by its id.",
        ),
    ] = False,
    error_on: Annotated[
        list[str] | None,
        typer.Option(
            help="Treat this warning as a failure: max-drop, new-symptoms, plane-moved, survival. Repeatable."
        ),
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option(help="For recorded outputs: path of a field, as in scan.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="For recorded outputs: the model's tokenizer.json.")
    ] = None,
    markdown: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the result to this file, for a pull request comment."),
    ] = None,
    junit: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result to this file as JUnit XML.")
    ] = None,
    github: Annotated[
        bool,
        typer.Option(
            "--github", help="Write annotations and a job summary for GitHub Actions. [default: on there]"
        ),
    ] = False,
    output_dir: OutputDir = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Test whether the candidate degenerates more than the baseline at the baseline's threshold T.

    Pass (exit 0): the risk at T is at most the α of T plus --max-increase, with 95 % confidence.
    Regression (99): it is certainly more than that α. Inconclusive (4): the output names what is missing.
    The baseline's own sample chose T and is not used again: the candidate's is fresh. Sampling options change
    the candidate that is measured now. Repeating the command continues an interrupted check.

    Without --baseline every cell of the project file (--config FILE, else ./stresstest.toml) is measured and
    held to its budgets; --model, --task and --lang choose among them. The worst decides: a breached budget
    99, trouble with an endpoint 3, undecided 4.
    """
    from stresstest.features.check.output.console import print_check
    from stresstest.features.check.output.document import check_document, empty_check_document
    from stresstest.features.check.output.markdown import check_markdown
    from stresstest.features.check.output.test_cases import comparison_suite
    from stresstest.features.check.workflow import check
    from stresstest.render.json_text import dumps

    outputs = CheckOutputs.named(junit, markdown, output_dir, github=github)
    read = [*(baseline or ()), *(candidate or ()), tokenizer, options["prompts"]]
    refuse_inputs([outputs.markdown, outputs.junit], read)
    if not baseline:
        refuse_without_baseline(
            candidate=candidate,
            fresh_baseline=fresh_baseline,
            max_increase=max_increase,
            extend=extend,
            allow_different=allow_different,
            allow_refused_baseline=allow_refused_baseline,
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
        allow_refused=allow_refused_baseline,
        errors=_errors(error_on or []),
        job=_job(options, field or [], tokenizer),
    )

    async def compare(store: Store, progress: Progress, stop: asyncio.Event) -> CheckResult:
        return await check(settings, store, progress, api_key=options["api_key"], stop=stop)

    done = run_measurement(options, compare, empty=empty_check_document if json_output else None)
    trouble = None if done.error is None else str(done.error)
    outputs.write([comparison_suite(done.comparison, error=trouble)], check_markdown(done.comparison))
    if json_output:
        typer.echo(dumps(check_document(done.comparison)))
    else:
        print_check(
            stdout_console(), done.comparison, document_id=done.document_id, cut_short=done.interrupted
        )
    _exit(done)


def _settings(options: dict[str, Any], **own: Any) -> CheckSettings:
    """The check that the options describe. Raises UsageError for run's options that mean nothing here."""
    from stresstest.features.check.settings import CheckSettings
    from stresstest.tasks.taskfile import task_name

    given: set[str] = options["given"]
    for name, why in _REFUSED.items():
        if name in given:
            raise UsageError(f"--{name.replace('_', '-')} does not apply to check: {why}.")
    return CheckSettings(
        task=task_name(options["task"]) if "task" in given else None,
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
        }
        | ({"send_seed": False} if options["no_seed"] else {}),
        sampling={name: options[name] for name in SAMPLING if name in given},
        **own,
    )


def _share(name: str, value: str) -> float:
    try:
        return parse_share(value)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _allowed(names: Sequence[str]) -> frozenset[str]:
    from stresstest.features.check.differences import INCOMPARABLE

    for name in names:
        if name not in INCOMPARABLE:
            raise UsageError(
                f"--allow-different: {name!r} is not known. Choose from {', '.join(INCOMPARABLE)}."
            )
    return frozenset(names)


def _errors(names: Sequence[str]) -> frozenset[FindingKind]:
    from stresstest.model import FindingKind

    known = {str(kind).replace("_", "-"): kind for kind in FindingKind}
    for name in names:
        if name not in known:
            raise UsageError(f"--error-on: {name!r} is not known. Choose from {', '.join(known)}.")
    return frozenset(known[name] for name in names)


def _job(options: dict[str, Any], fields: Sequence[str], tokenizer: str | None) -> Any:
    """How recorded outputs are read, as `scan` reads them."""
    from stresstest.detectors.identification.names import require_language
    from stresstest.features.check.sides.sample import GROUP_KEYS
    from stresstest.records import parse_fields
    from stresstest.scanning.job import ScanJob

    language = options["lang"]
    if "lang" in options["given"]:
        require_language(language)
    return ScanJob(mapped=parse_fields(list(fields), GROUP_KEYS), language=language, tokenizer=tokenizer)


def _exit(done: CheckResult) -> None:
    """Leave with the code that the outcome has; returns on a pass."""
    from stresstest.model import CheckVerdict

    exit_if_cut_short(done.error, interrupted=done.interrupted)
    if done.comparison.verdict is CheckVerdict.REGRESSION:
        raise typer.Exit(ExitCode.REGRESSION)
    if done.comparison.verdict is CheckVerdict.INCONCLUSIVE:
        raise typer.Exit(ExitCode.INCONCLUSIVE)
