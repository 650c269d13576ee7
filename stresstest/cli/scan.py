"""`stresstest scan`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.options import stdout_console, with_global_options
from stresstest.config import parse_share
from stresstest.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from stresstest.report.scan_progress import SilentScan
    from stresstest.workflows.scan import ScanSettings
    from stresstest.workflows.scan_keys import Glance

EXAMPLES = """\b
Examples:
  stresstest scan outputs.jsonl
  stresstest scan logs/*.jsonl.gz --group-by model,task --out verdicts.jsonl
  stresstest scan batch_output.jsonl --lang it --show 3
  zcat requests.jsonl.gz | stresstest scan - --field response=result.answer.text --json
"""


@with_global_options
def command(
    options: dict[str, Any],
    files: Annotated[
        list[str],
        typer.Argument(help="JSONL, JSON, either gzipped, Parquet, vLLM logs; - for stdin.", metavar="FILES"),
    ],
    group_by: Annotated[
        str | None, typer.Option(help="Keys of the records, with commas: model,task or metadata.team.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Write every verdict here, one JSON line a request.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
    field: Annotated[
        list[str] | None,
        typer.Option(
            help="Where something lies in your records: response=path.to.text, id=…, model=… (again)."
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(
            "--lang", "-l", help="Language the answers are wanted in, where the records do not say."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The model's tokenizer.json, for lengths in its tokens.")
    ] = None,
    by_length: Annotated[
        str | None, typer.Option(help="Key that tells the requested length: does onset depend on it?")
    ] = None,
    show: Annotated[int, typer.Option(help="Print so many of the worst outputs.", min=0, max=1000)] = 0,
    rigor: Annotated[
        str | None,
        typer.Option(
            help="quick: risk 10% at 90%; standard: 5% at 95%; strict: 1% at 95%. [default: standard]"
        ),
    ] = None,
    margin: Annotated[
        str | None, typer.Option(help="Safety margin taken off the threshold, 0.1 or 10%. [default: 10%]")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A damaged line is an error (exit 2).")] = False,
    workers: Annotated[
        int | None, typer.Option(help="Processes. [default: the cores of this machine]", min=1, max=256)
    ] = None,
) -> None:
    """Degeneration rates and limits from outputs that you already have. Sends nothing."""
    from stresstest.records import parse_fields, size
    from stresstest.workflows.scan import ScanSettings
    from stresstest.workflows.scan_judge import Job

    keys = tuple(dict.fromkeys(key.strip() for key in (group_by or "").split(",") if key.strip()))
    wanted = (*keys, by_length) if by_length else keys
    settings = ScanSettings(
        files=tuple(files),
        job=Job(
            mapped=parse_fields(field or [], tuple(dict.fromkeys(wanted))),
            keys=keys,
            language=_language(lang or options["lang"]),
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
    _check(settings)
    look = _look(settings)
    _run(settings, look, listener_for(options["display"], size(list(files))), json_output)


def _check(settings: ScanSettings) -> None:
    from stresstest.records import check

    check(list(settings.files))
    if settings.files.count("-") > 1:
        raise UsageError("stdin (-) can be read only once.")


def _look(settings: ScanSettings) -> Glance:
    """A warning now, not after hours, for a key that the files do not seem to have, and the end of it for
    one to group by that is nowhere in them."""
    from stresstest.report.text import clean
    from stresstest.workflows.scan_keys import Glance, glance, nowhere

    options = dict.fromkeys(settings.job.keys, "--group-by")
    if settings.job.by_length:
        options.setdefault(settings.job.by_length, "--by-length")
    if not options:
        return Glance(0, frozenset(), ())
    look = glance(settings.files, replace(settings.job, keys=tuple(options)))
    for key, option in options.items():
        if look.read and key not in look.seen:
            hint = look.hint(key)
            said = f"none of the first {look.read} records has the key {key!r} of {option}. {hint or ''}"
            sys.stderr.write(f"warning: {clean(said).strip()}\n")
            if option == "--group-by" and nowhere(key, settings.files, settings.job):
                raise _no_such_key([key], hint)
    return look


def _no_such_key(keys: list[str], hint: str | None) -> UsageError:
    return UsageError(f"No record has the key {' or '.join(map(repr, keys))} of --group-by.", hint=hint)


def _run(settings: ScanSettings, look: Glance, listener: SilentScan, json_output: bool) -> None:
    from stresstest.records import TEXT_KEYS
    from stresstest.report.document import dumps
    from stresstest.report.scan_console import print_scan
    from stresstest.report.scan_document import scan_document
    from stresstest.workflows.scan import scan
    from stresstest.workflows.scan_keys import absent

    try:
        result = scan(settings, listener)
    finally:
        listener.close()
    missing = absent(result) if result.requests and not result.interrupted else []
    if missing:
        raise _no_such_key(missing, look.hint(missing[0]))
    if json_output:
        typer.echo(dumps(scan_document(result)))
    elif result.requests:
        print_scan(stdout_console(), result)
    if result.interrupted:
        so_far = "what was judged so far is shown" if result.requests else "nothing was judged yet"
        sys.stderr.write(f"Interrupted: {so_far}; start again to judge everything.\n")
        raise typer.Exit(ExitCode.INTERRUPTED)
    if result.unwritten is not None:
        raise UsageError(result.unwritten, hint="The scan is complete and told on stdout; that file is not.")
    if not result.requests:
        lines = "1 line is" if result.damaged == 1 else f"{result.damaged} lines are"
        damage = f" {lines} damaged; see above." if result.damaged else ""
        if result.textless:
            answers = "1 answer is" if result.textless == 1 else f"{result.textless} answers are"
            damage = f" {answers} only tool calls.{damage}"
        hint = " Map your own layout with --field response=path.to.text" if result.damaged else ""
        sys.stderr.write(f"stresstest: there is no answer to judge in these files.{damage}{hint}\n")
        if result.damaged:
            sys.stderr.write(f"  A plain answer's text is looked for under {', '.join(TEXT_KEYS)}.\n")
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _rigor(value: str) -> str:
    from stresstest.model import RIGORS

    if value not in RIGORS:
        raise UsageError(f"--rigor {value!r} is not known: choose {', '.join(RIGORS)}.")
    return value


def _language(value: str | None) -> str | None:
    from stresstest.detectors import can_judge

    if value and not can_judge(value):
        raise UsageError(
            f"--lang {value!r}: no identifier here knows this language; write a code such as it."
        )
    return value or None


def listener_for(display: str | None, total: int | None) -> SilentScan:
    """Who watches a reading of files: rich on a terminal, plain lines elsewhere, or none."""
    from stresstest.report.scan_progress import LiveScan, PlainScan, SilentScan

    chosen = display or ("rich" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain")
    if chosen == "none":
        return SilentScan()
    return PlainScan(total) if chosen == "plain" else LiveScan(total)
