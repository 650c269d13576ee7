"""`stresstest recommend`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stresstest.cli.audit import audit
from stresstest.cli.options import stdout_console, with_global_options
from stresstest.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from stresstest.economics.optimum import Cheapest
    from stresstest.report.limits import Limits
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
_ONE_SETTING = ("vllm", "litellm", "env")


@with_global_options
def command(
    options: dict[str, Any],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Only this model.")] = None,
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    lang: Annotated[str | None, typer.Option("--lang", "-l", help="Only this language.")] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Only what has this run's model and decoding (id, or latest)."),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--format",
            help="table, json, vllm (flags), openai (request), litellm (model_list), env (shell) or "
            "openmetrics.",
        ),
    ] = "table",
    base_url: Annotated[
        str | None,
        typer.Option(help="Ask this server whether it still serves what was measured, and warn if not."),
    ] = None,
    repetition_detection: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN|FILE",
            help="Instead: replay stored outputs through vLLM's repetition_detection and print its best "
            "setting. Repeatable.",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The model's tokenizer.json, to replay files without token ids.")
    ] = None,
    fallback_price: Annotated[
        float, typer.Option(help="What a token of a fallback model costs, in tokens of this one.")
    ] = 1.0,
) -> None:
    """Print the stored safe max_tokens, with what each number stands on. Exit 4 when nothing is certified.

    Of several tasks or languages of a model, each one's limit is printed and the smallest is applied.
    """
    from stresstest.store import open_store

    if output not in FORMATS:
        known = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        raise UsageError(f"--format {output!r} is not known: choose {known}.")
    if repetition_detection:
        audit(options, repetition_detection, output, tokenizer=tokenizer, fallback=fallback_price)
        return
    with open_store(options["store"]) as store:
        rows = _chosen(store, model, task, lang, like)
        _warn(store, rows, base_url, options["api_key"])
        cheapest = _cheapest(store, rows, output)
    if not rows:
        asked = " ".join(str(x) for x in (model, task, lang) if x) or "anything"
        typer.echo(
            f"Nothing is stored for {asked} yet. Measure it: stresstest run --model M --lang it", err=True
        )
    text = _text(output, rows, cheapest)
    if text:
        typer.echo(text)
    if not any(row.threshold.certified for row in rows):
        if rows and output not in {"table", "json", "openmetrics"}:
            typer.echo("Nothing is certified for what was asked: no limit is printed.", err=True)
        raise typer.Exit(ExitCode.INCONCLUSIVE)


def _chosen(
    store: Store, model: str | None, task: str | None, lang: str | None, like: str | None
) -> list[StoredThreshold]:
    rows = [row for row in store.thresholds(model=model, task=task, language=lang) if row.latest]
    if like is None:
        return rows
    from stresstest.workflows.conclude import find_run

    run = find_run(store, like)
    wanted = (run.settings.subject.model, run.settings.decoding, run.profile.simulated)
    return [row for row in rows if (row.subject.model, row.decoding, row.simulated) == wanted]


def _warn(store: Store, rows: Sequence[StoredThreshold], base_url: str | None, api_key: str | None) -> None:
    """Ask the server, if one is named, and say on stderr what is no longer what was measured."""
    if base_url is None or not rows:
        return
    from stresstest.execution.eventloop import run as run_loop
    from stresstest.report.limits import one_line
    from stresstest.workflows.served import warnings_for

    for sentence in run_loop(warnings_for(rows, store, base_url, api_key=api_key)):
        sys.stderr.write(f"warning: {one_line(sentence)}\n")


def _cheapest(store: Store, rows: Sequence[StoredThreshold], output: str) -> list[Cheapest]:
    """The cheapest caps, for the formats that show them; the others enforce only what is certified."""
    from stresstest.workflows.cheapest import cheapest_caps

    return cheapest_caps(store, rows) if output in {"table", "json"} else []


def _text(output: str, rows: Sequence[StoredThreshold], cheapest: Sequence[Cheapest]) -> str:
    """What goes to stdout; a table is printed at once."""
    from stresstest.report import formats
    from stresstest.report.cheapest import cheapest_documents, print_cheapest
    from stresstest.report.document import dumps
    from stresstest.report.limits import limits_of
    from stresstest.report.recommended import recommendations_document
    from stresstest.report.recommended_console import print_recommendations

    if output == "json":
        return dumps(recommendations_document(rows) | {"cheapest": cheapest_documents(cheapest)})
    if output == "table":
        if rows:
            print_recommendations(stdout_console(), rows)
            print_cheapest(stdout_console(), cheapest)
        return ""
    if output == "openmetrics":
        from stresstest.report.openmetrics import exposition, threshold_samples

        return exposition(threshold_samples(rows)).removesuffix("\n")
    found = _real(limits_of(rows))
    if output == "openai":
        return dumps(formats.openai_document(found))
    _refuse_several(output, found)
    if not found:
        return ""
    if output == "litellm":
        return formats.litellm_yaml(found)
    return formats.vllm_flags(found[0]) if output == "vllm" else formats.shell_variables(found[0])


def _real(found: list[Limits]) -> list[Limits]:
    """A simulator's limits are printed only where there is no other."""
    real = [limits for limits in found if not limits.simulated]
    return real or found


def _refuse_several(output: str, found: Sequence[Limits]) -> None:
    """These formats hold one decoding a model (env and vllm: one model); which one is not ours to choose."""
    from stresstest.report.limits import decoding_words, one_line

    models = [limits.model for limits in found]
    if len(found) < 2 or (output == "litellm" and len(set(models)) == len(models)):
        return
    listed = "; ".join(
        one_line(f"{limits.model}, {decoding_words(limits.decoding)} (--like {limits.smallest.run_id})")
        for limits in found
    )
    raise UsageError(
        f"--format {output} takes one model under one decoding, but {len(found)} are certified: {listed}.",
        hint="Choose by one of these runs: --like RUN takes its model and its decoding."
        + (" --model alone chooses where a model has one decoding." if len(set(models)) > 1 else ""),
    )
