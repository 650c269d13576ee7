"""`stresstest recommend`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.errors import ExitCode, UsageError
from stresstest.options.common import scan_progress_for, stdout_console, with_global_options

if TYPE_CHECKING:
    from stresstest.economics.optimum import CheapestCap
    from stresstest.render.limits import ModelLimits
    from stresstest.store import StoredThreshold
    from stresstest.store.repository import Store

EXAMPLES = """\b
Examples:
  stresstest recommend
  stresstest recommend --model Qwen/Qwen2.5-7B-Instruct-AWQ --lang it --format json
  stresstest recommend --model Qwen/Qwen2.5-7B-Instruct-AWQ --format vllm
  stresstest recommend --like latest --format env > limits.env
  stresstest recommend --base-url http://localhost:8000/v1
  stresstest recommend --repetition-detection latest
"""
FORMATS = ("table", "json", "vllm", "openai", "litellm", "env", "openmetrics")
_FOR_READERS = frozenset({"table", "json", "openmetrics"})
_MOST_FALLBACK_PRICE = 1_000_000


@with_global_options
def command(
    options: dict[str, Any],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Only limits of this model.")] = None,
    task: Annotated[str | None, typer.Option(help="Only limits of this task.")] = None,
    lang: Annotated[str | None, typer.Option("--lang", "-l", help="Only limits of this language.")] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Only limits with this run's model and decoding (run id, or latest), of all its tasks: add "
            "--task and --lang for one.",
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="table|json|vllm|openai|litellm|env|openmetrics",
            help="Output format: server flags (vllm), request (openai), model_list (litellm), shell (env).",
        ),
    ] = "table",
    allow_one_prompt: Annotated[
        bool,
        typer.Option("--allow-one-prompt", help="Include limits that were measured with a single prompt."),
    ] = False,
    base_url: Annotated[
        str | None,
        typer.Option(help="Check that this server still serves what was measured; warn if it does not."),
    ] = None,
    repetition_detection: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN|FILE",
            help="Replay stored outputs through vLLM's repetition_detection instead, and print its "
            "best setting. Repeatable.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The model's tokenizer.json, to replay files without token ids.")
    ] = None,
    fallback_price: Annotated[
        float, typer.Option(help="Cost of one token of a fallback model, in tokens of this model.")
    ] = 1.0,
) -> None:
    """Print the stored safe max_tokens and how each was measured. Exit 4 if there is none.

    If a model has limits for several tasks or languages, all are printed and the smallest is applied.
    """
    from stresstest.features.recommend.cheapest import find_cheapest_caps
    from stresstest.render.text import single_line
    from stresstest.store import open_store
    from stresstest.tasks.taskfile import task_name

    if output not in FORMATS:
        known = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise UsageError(f"--format: {output!r} is not known. Choose from {known}.")
    if repetition_detection:
        _audit(options, repetition_detection, output, tokenizer=tokenizer, fallback=fallback_price)
        return
    with open_store(options["store"]) as store:
        name = None if task is None else task_name(task)
        every = found = _select_rows(store, model, name, lang, like)
        if task is not None and task != name:
            found = _of_this_text(every, task)
        rows = found if allow_one_prompt else _without_single_prompts(found)
        if output not in _FOR_READERS:  # the others enforce limits: a simulated one never replaces a real one
            rows = [row for row in rows if not row.simulated] or rows
        _warn_about_answers(store, rows)
        _warn_about_server(store, rows, base_url, options["api_key"])
        # Only these formats show the cheapest caps; the others enforce certified limits.
        cheapest = find_cheapest_caps(store, rows) if output in {"table", "json"} else []
        unfinished = [] if like is None else _unfinished_notes(store, like, options["program"])
    for note in unfinished:
        typer.echo(note, err=True)
    if not every and not unfinished:
        selection = single_line(" ".join(x for x in (model, task, lang) if x)) or "anything"
        own = "" if task is None else f" --task {single_line(shlex.quote(task))}"
        typer.echo(
            f"No limit is stored for {selection} yet. To measure one: {options['program']} run --model "
            f"{model or 'M'} --lang {lang or 'it'}{own}; an interrupted run has no limit until it is "
            "resumed.",
            err=True,
        )
    text = _text(output, rows, cheapest)
    if text:
        typer.echo(text)
    if not any(row.limit for row in rows):
        if rows and output not in {"table", "json"}:
            _say_why_nothing(rows)
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _say_why_nothing(rows: Sequence[StoredThreshold]) -> None:
    """Say on stderr why formats that enforce a limit print none."""
    from stresstest.render.limits import decoding_words, overruled_words
    from stresstest.render.text import certified_sentence, single_line, subject_name

    for row in (row for row in rows if row.threshold.unfit):
        why = (row.threshold.withheld or row.threshold.lacking or "").rstrip(".")
        typer.echo(
            single_line(f"{subject_name(row.subject)}: unfit for this task and language: {why}."), err=True
        )
    for row in (row for row in rows if row.overruled_by is not None):
        typer.echo(single_line(f"{subject_name(row.subject)}: {overruled_words(row)}."), err=True)
    for row in rows:
        if row.threshold.usable and row.threshold.withheld is not None and row.overruled_by is None:
            why = (
                f"{subject_name(row.subject)}, {decoding_words(row.decoding)}: "
                f"{certified_sentence(row.threshold)}. No cap is recommended, because "
                f"{row.threshold.withheld.rstrip('.')}."
            )
            typer.echo(single_line(why), err=True)
    certified = any(row.threshold.certified for row in rows)
    nothing = "No cap is recommended" if certified else "Nothing is certified"
    typer.echo(f"{nothing} for this selection, so no limit is printed.", err=True)


def _select_rows(
    store: Store, model: str | None, task: str | None, lang: str | None, like: str | None
) -> list[StoredThreshold]:
    every = store.thresholds(model=model, task=task, language=lang)
    rows = [row for row in every if row.latest]
    if like is None:
        return rows
    from stresstest.campaign.conclusion.conclude import find_run

    run = find_run(store, like)
    settings = run.settings
    selected = (settings.subject.model, settings.decoding, run.profile.simulated)
    rows = [row for row in rows if (row.subject.model, row.decoding, row.simulated) == selected]
    own = [row for row in every if row.run_id == run.id]
    if not own:
        return rows
    _point_to_better_run(store, run.id)
    _warn_about_others(own[0], [row for row in rows if row.subject == settings.subject])
    chosen = [_named_all_the_same(row, every) for row in own]
    return chosen + [row for row in rows if row.subject != settings.subject]


def _named_all_the_same(row: StoredThreshold, every: Sequence[StoredThreshold]) -> StoredThreshold:
    """A limit that the user has named and was warned about. Where the run that speaks against it had more
    requests in flight, the limit holds for its own load only, and is printed with it."""
    against = next((other for other in every if other.run_id == row.overruled_by), None)
    fewer = against is not None and against.concurrency > row.concurrency
    return replace(row, overruled_by=None, holds_up_to=row.concurrency if fewer else row.holds_up_to)


def _of_this_text(rows: Sequence[StoredThreshold], file: str) -> list[StoredThreshold]:
    """The limits that were measured with the task as it is in the file now; says on stderr that others are
    left out."""
    from stresstest.campaign.prompt_source import task_digest
    from stresstest.render.text import single_line, subject_name
    from stresstest.tasks.taskfile import load_task

    task = load_task(file)
    kept = []
    for row in rows:
        language = row.subject.language
        if language in task.languages and row.prompts_digest == task_digest(task, language):
            kept.append(row)
            continue
        why = f"it was measured with another text of the task than {file} holds now"
        if row.prompts_digest is None:
            why = "it is not known with which text of the task it was measured"
        words = f"{subject_name(row.subject)}: the limit of run {row.run_id} is left out, because {why}."
        typer.echo(single_line(words), err=True)
    return kept


def _point_to_better_run(store: Store, run_id: str) -> None:
    """Say on stderr which run was measured with the setting that a diagnosis of this one found."""
    found = store.diagnosis(run_id)
    if found is not None and found.safe_run is not None and found.safe_run != run_id:
        typer.echo(
            f"The diagnosis of run {run_id} found a better setting and measured it: --like {found.safe_run}",
            err=True,
        )


def _warn_about_others(own: StoredThreshold, rows: Sequence[StoredThreshold]) -> None:
    """Say on stderr that other runs of the same subject, whose limits are in force too, found less than the
    run that was named: without --like the smallest is applied."""
    from stresstest.render.text import format_count, single_line

    for row in rows:
        less = (row.safe_max_tokens or 0) < (own.safe_max_tokens or 0)
        if row.run_id != own.run_id and less:
            found = (
                f"only {format_count(row.safe_max_tokens)}" if row.safe_max_tokens else "no safe max_tokens"
            )
            typer.echo(
                single_line(
                    f"warning: the {'later ' if row.order > own.order else ''}run {row.run_id} at "
                    f"{row.base_url} (concurrency {row.concurrency}) found {found} for the same model, "
                    "task and decoding."
                ),
                err=True,
            )


def _unfinished_notes(store: Store, like: str, program: str) -> list[str]:
    """Why the run that `--like` names has no limit of its own; empty if it has been measured to its end.

    program: the beginning of a command on the same store.
    """
    from stresstest.campaign.conclusion.conclude import find_run
    from stresstest.model import RunStatus
    from stresstest.render.text import single_line

    run = find_run(store, like)
    if run.status is RunStatus.DONE:
        return []
    how = {
        RunStatus.RUNNING: "is still running or was killed",
        RunStatus.INTERRUPTED: "was interrupted",
        RunStatus.FAILED: "has failed",
    }[run.status]
    return [
        single_line(
            f"Run {run.id} {how}, and an unfinished sample certifies nothing: it has no limit of its own. "
            f"To continue it: {program} run --resume {run.id}. Any limits printed here are those of "
            "other runs with the same model and decoding."
        )
    ]


def _without_single_prompts(rows: Sequence[StoredThreshold]) -> list[StoredThreshold]:
    """The rows measured on more than one prompt, or on an unknown number; says on stderr which are not."""
    from stresstest.render.limits import subject_words

    kept = [row for row in rows if row.distinct_prompts != 1 or not row.threshold.certified]
    for row in (row for row in rows if row not in kept):
        typer.echo(
            f"{subject_words(row)}: run {row.run_id} measured a single prompt; the behaviour on others "
            f"is unknown. Its limit is printed only with --allow-one-prompt.",
            err=True,
        )
    return kept


def _warn_about_answers(store: Store, rows: Sequence[StoredThreshold]) -> None:
    """Say on stderr of which rows the answers may not be of the model, decoding or server that they name."""
    from stresstest.campaign.conclusion.conclude import chance_notes
    from stresstest.campaign.provenance.doubts import doubts_about
    from stresstest.render.text import single_line, subject_name

    for row in (row for row in rows if row.limit is not None):
        for note in [*chance_notes(store, row), *doubts_about(store, row.run_id)]:
            said = f"{subject_name(row.subject)}, run {row.run_id}: {note}"
            typer.echo(f"warning: {single_line(said)}", err=True)


def _warn_about_server(
    store: Store, rows: Sequence[StoredThreshold], base_url: str | None, api_key: str | None
) -> None:
    """Compare the rows with what the server serves now, if one is named, and print warnings on stderr."""
    if base_url is None or not rows:
        return
    from stresstest.campaign.execution.eventloop import run as run_loop
    from stresstest.campaign.served_model import server_warnings
    from stresstest.render.text import single_line

    for sentence in run_loop(server_warnings(rows, store, base_url, api_key=api_key)):
        sys.stderr.write(f"warning: {single_line(sentence)}\n")


def _text(output: str, rows: Sequence[StoredThreshold], cheapest: Sequence[CheapestCap]) -> str:
    """The text for stdout; empty for the table, which is printed here."""
    from stresstest.features.recommend import formats
    from stresstest.features.recommend.cheapest import cheapest_documents, print_cheapest
    from stresstest.features.recommend.console import print_recommendations
    from stresstest.features.recommend.document import recommendations_document
    from stresstest.render.json_text import dumps
    from stresstest.render.limits import group_limits

    if output == "json":
        return dumps(recommendations_document(rows) | {"cheapest": cheapest_documents(cheapest)})
    if output == "table":
        if rows:
            print_recommendations(stdout_console(), rows)
            print_cheapest(stdout_console(), cheapest)
        return ""
    if output == "openmetrics":
        from stresstest.render.openmetrics import metrics_text, threshold_samples

        return metrics_text(threshold_samples(rows)).removesuffix("\n")
    found = group_limits(rows)
    if output == "openai":
        return dumps(formats.openai_document(found))
    _refuse_several(output, found)
    if not found:
        return ""
    if output == "litellm":
        return formats.litellm_yaml(found)
    return formats.vllm_flags(found[0]) if output == "vllm" else formats.shell_variables(found[0])


def _refuse_several(output: str, found: Sequence[ModelLimits]) -> None:
    """Raise UsageError for several models or decodings: these formats hold one decoding per model (env and
    vllm: one model), and the user has to choose it."""
    from stresstest.render.limits import decoding_words
    from stresstest.render.text import single_line

    models = [limits.model for limits in found]
    if len(found) < 2 or (output == "litellm" and len(set(models)) == len(models)):
        return
    listed = "; ".join(
        single_line(f"{limits.model}, {decoding_words(limits.decoding)} (--like {limits.smallest.run_id})")
        for limits in found
    )
    raise UsageError(
        f"--format {output} needs one model with one decoding, but the store holds {len(found)}: {listed}.",
        hint="Choose with --like RUN, which selects the model and decoding of that run."
        + (" --model alone is enough if a model has only one decoding." if len(set(models)) > 1 else ""),
    )


def _audit(
    options: dict[str, Any], references: Sequence[str], output: str, *, tokenizer: str | None, fallback: float
) -> None:
    """Replay runs and files and print the best setting. Exit 4 when none can be sent to a server.

    references: run ids, "latest" or files. fallback: price of a fallback model's token in tokens of this one.
    Raises UsageError for unreadable input and for another format than table or json.
    """
    from stresstest.features.recommend.repetition_detection.console import audit_document, print_audit
    from stresstest.features.recommend.repetition_detection.workflow import audit_stored
    from stresstest.records import expand_names, names_records, total_size
    from stresstest.render.json_text import dumps
    from stresstest.scanning.job import ScanJob
    from stresstest.store import open_store

    if output not in {"table", "json"}:
        raise UsageError(f"--repetition-detection supports --format table and json, not {output}.")
    if not 0 <= fallback <= _MOST_FALLBACK_PRICE:
        raise UsageError(f"--fallback-price must be a number from 0 to {_MOST_FALLBACK_PRICE:,}.")
    references = expand_names(references)
    size = total_size([each for each in references if names_records(each)])
    progress = scan_progress_for(options["display"], size)
    with open_store(options["store"]) as store, closing(progress):
        found = audit_stored(references, store, progress, ScanJob(tokenizer=tokenizer), fallback=fallback)
    if output == "json":
        typer.echo(dumps(audit_document(found)))
    else:
        print_audit(stdout_console(), found)
    if found.usable is None:
        raise typer.Exit(ExitCode.INCONCLUSIVE)
