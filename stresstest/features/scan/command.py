"""`stresstest scan`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.config.settings import parse_share
from stresstest.errors import ExitCode, UsageError
from stresstest.options.common import language_source, scan_progress_for, stdout_console, with_global_options

if TYPE_CHECKING:
    from stresstest.features.scan.keys import KeySurvey
    from stresstest.model.scanned import ScanResult
    from stresstest.render.scan_progress import SilentScanProgress
    from stresstest.scanning.scan import ScanSettings

EXAMPLES = """\b
Examples:
  stresstest scan outputs.jsonl
  stresstest scan logs/*.jsonl.gz --group-by model,task --out verdicts.jsonl
  stresstest scan today.jsonl --group-by model --fail-above 2% --out verdicts.parquet
  stresstest scan batch_output.jsonl --lang it --show 3
  stresstest scan 's3://logs/2026/*.jsonl.gz' --engine ray --address auto --out /shared/verdicts
  zcat requests.jsonl.gz | stresstest scan - --field response=result.answer.text --json
"""


@with_global_options
def command(
    options: dict[str, Any],
    files: Annotated[
        list[str],
        typer.Argument(
            help="JSONL, JSON (both also gzipped), Parquet or vLLM logs; - for stdin. Addresses (s3://…, "
            "https://…) are read through fsspec; quote their patterns.",
            metavar="FILES",
        ),
    ],
    group_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEYS",
            help="Comma-separated keys of the records: model,task or metadata.team. Repeatable.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="Write one verdict per request to this file: .csv, .parquet, or JSON Lines. With --engine "
            "ray, a folder that gets one file per input.",
        ),
    ] = None,
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Exit 99 if a group's rate is above this share (2% or 0.02) with 95 % confidence, 4 "
            "if that is "
            "undecided.",
        ),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
    field: Annotated[
        list[str] | None,
        typer.Option(
            help="Path of a field in your records, such as response=path.to.text or id=…. Repeatable."
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option("--lang", "-l", help="Language of the answers, for records that do not state it."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The model's tokenizer.json, to count lengths in its tokens.")
    ] = None,
    by_length: Annotated[
        str | None,
        typer.Option(help="Key that holds the requested length, to test whether the onset depends on it."),
    ] = None,
    show: Annotated[int, typer.Option(help="Number of worst outputs to print.", min=0, max=1000)] = 0,
    rigor: Annotated[
        str | None,
        typer.Option(
            metavar="quick|standard|strict",
            help="Tolerated risk and confidence: 10 % at 90 %, 5 % at 95 %, 1 % at 95 %. [default: standard]",
        ),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(help="Safety margin subtracted from the threshold: 0.1 or 10%. [default: 10%]"),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat a damaged line as an error (exit 2).")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="Number of processes. [default: one per core]", min=1, max=256)
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="Where to scan: on this machine or on a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of the Ray cluster. [default: RAY_ADDRESS, else a new local one]"),
    ] = None,
) -> None:
    """Compute degeneration rates and limits from recorded outputs. Sends nothing."""
    from stresstest.detectors.identification.names import require_language
    from stresstest.records import check_files, expand_names, parse_fields, total_size
    from stresstest.scanning.job import ScanJob
    from stresstest.scanning.scan import ScanSettings

    language = lang or options["lang"] or None
    require_language(language)
    files = expand_names(files)
    keys = tuple(dict.fromkeys(key.strip() for key in ",".join(group_by or []).split(",") if key.strip()))
    all_keys = (*keys, by_length) if by_length else keys
    settings = ScanSettings(
        files=tuple(files),
        job=ScanJob(
            mapped=parse_fields(field or [], tuple(dict.fromkeys(all_keys))),
            keys=keys,
            language=language,
            tokenizer=tokenizer,
            by_length=by_length,
            show=show > 0,
        ),
        rigor=_rigor(rigor or options["rigor"]),
        margin=options["margin"] if margin is None else parse_share(margin),
        out=out,
        show=show,
        strict=strict,
        workers=workers,
    )
    check_files(files)
    if files.count("-") > 1:
        raise UsageError("stdin (-) can be given only once.")
    scan = _engine(engine, address, workers)
    survey = _survey_keys(settings)
    limit = None if fail_above is None else _limit(fail_above)
    progress = scan_progress_for(options["display"], total_size(list(files)))
    notes = () if lang or not language else (language_source(language),)
    _run(scan, settings, survey, progress, json_output=json_output, limit=limit, notes=notes)


def _engine(name: str, address: str | None, workers: int | None) -> Callable[..., ScanResult]:
    """What scans. Raises UsageError for an engine that there is not, or options of the other one."""
    if name == "ray":
        from stresstest.scanning.ray_cluster import scan_on_ray

        if workers is not None:
            raise UsageError("--workers is of the local engine: the Ray cluster has its own.")
        return partial(scan_on_ray, address)
    if name != "local":
        raise UsageError(f"--engine {name!r} is not known: choose local or ray.")
    if address is not None:
        raise UsageError("--address is a Ray cluster's: it needs --engine ray.")
    from stresstest.scanning.scan import scan

    return scan


def _survey_keys(settings: ScanSettings) -> KeySurvey:
    """Look for the keys before the scan, which may take hours: warn about a key missing in the first records.

    Raises UsageError for a key of --group-by that occurs nowhere in the files.
    """
    from stresstest.features.scan.keys import KeySurvey, is_key_absent, survey_keys
    from stresstest.render.text import sanitize

    options = dict.fromkeys(settings.job.keys, "--group-by")
    if settings.job.by_length:
        options.setdefault(settings.job.by_length, "--by-length")
    if not options:
        return KeySurvey(0, frozenset(), ())
    survey = survey_keys(settings.files, replace(settings.job, keys=tuple(options)))
    for key, option in options.items():
        if survey.read and key not in survey.found_keys:
            hint = survey.hint(key)
            text = f"none of the first {survey.read:,} records has the key {key!r} of {option}. {hint or ''}"
            sys.stderr.write(f"warning: {sanitize(text).strip()}\n")
            if option == "--group-by" and is_key_absent(key, settings.files, settings.job):
                raise _missing_key_error([key], hint)
    return survey


def _missing_key_error(keys: list[str], hint: str | None) -> UsageError:
    return UsageError(f"No record has the key {' or '.join(map(repr, keys))} of --group-by.", hint=hint)


def _limit(given: str) -> float:
    """The share of --fail-above. Raises UsageError for none, which no number of answers could prove."""
    share = parse_share(given)
    if share == 0.0:
        raise UsageError("--fail-above needs a share above 0: no number of answers proves that none fails.")
    return share


def _run(
    scan: Callable[..., ScanResult],
    settings: ScanSettings,
    survey: KeySurvey,
    progress: SilentScanProgress,
    *,
    json_output: bool,
    limit: float | None,
    notes: tuple[str, ...] = (),
) -> None:
    """Scan, print, and raise what the exit code must be. notes: what must be read before the numbers."""
    from stresstest.features.scan.console import print_judgement, print_scan
    from stresstest.features.scan.document import scan_document
    from stresstest.features.scan.keys import missing_keys
    from stresstest.model.comparison import GateOutcome
    from stresstest.render.json_text import dumps
    from stresstest.statistics.rate_limit import judge_rates

    with closing(progress):
        result = scan(settings, progress)
    missing = missing_keys(result) if result.requests and not result.interrupted else []
    if missing:
        raise _missing_key_error(missing, survey.hint(missing[0]))
    judged = None
    if limit is not None and not result.interrupted:
        judged = judge_rates(result.groups, limit, damaged=result.damaged, unread=result.unread)
    if json_output:
        typer.echo(dumps(scan_document(replace(result, notes=(*notes, *result.notes)), judged)))
    elif result.requests:
        for note in notes:
            stdout_console().print(note, highlight=False, markup=False)
        print_scan(stdout_console(), result)
        if judged is not None:
            print_judgement(stdout_console(), judged)
    if result.interrupted:
        so_far = "the results so far are shown" if result.requests else "nothing was scanned yet"
        sys.stderr.write(f"Interrupted: {so_far}. Start again to scan everything.\n")
        raise typer.Exit(ExitCode.INTERRUPTED)
    if result.unwritten is not None:
        raise UsageError(
            result.unwritten,
            hint="The scan is complete and its result is on stdout; only that file is missing.",
        )
    if not result.requests:
        _tell_nothing(result)
        # A gate that takes "undecided" for a pass must not take a layout that nobody can read for one.
        raise typer.Exit(ExitCode.USAGE if result.damaged else ExitCode.INCONCLUSIVE)
    if judged is not None and judged.outcome is not GateOutcome.PASS:
        breach = judged.outcome is GateOutcome.BREACH
        raise typer.Exit(ExitCode.REGRESSION if breach else ExitCode.INCONCLUSIVE)


def _tell_nothing(result: ScanResult) -> None:
    """Say on stderr that there was no answer to judge, and why."""
    from stresstest.features.scan.notes import count_answers, left_out_lines
    from stresstest.records.formats.plain import TEXT_KEYS
    from stresstest.records.record import JSON_LINES_HINT, LAYOUT_HINT

    lines = "1 line is" if result.damaged == 1 else f"{result.damaged:,} lines are"
    named = len(result.damaged_examples)
    above = "see above" if named == result.damaged else f"the first {named} are named above"
    damage = f" {lines} damaged; {above}." if result.damaged else ""
    if result.textless:
        answers = count_answers(result.textless, "is", "are")
        damage = f" {answers} only tool calls.{damage}"
    if result.left_out:
        damage = f" {left_out_lines(result)}.{damage}"
    readable = result.damaged > result.malformed
    hint = f" {LAYOUT_HINT if readable else JSON_LINES_HINT}" if result.damaged else ""
    sys.stderr.write(f"stresstest: these files contain no answer to scan.{damage}{hint}\n")
    if readable:
        sys.stderr.write(f"  The text of a plain record is expected under {', '.join(TEXT_KEYS)}.\n")


def _rigor(value: str) -> str:
    from stresstest.model import RIGORS

    if value not in RIGORS:
        raise UsageError(f"--rigor: {value!r} is not known. Choose from {', '.join(RIGORS)}.")
    return value
