"""Options that several commands share, and what every command does with them."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from stresstest import config
from stresstest.errors import StresstestError, UsageError
from stresstest.model import SAMPLING, Decoding, RunSettings, Subject

if TYPE_CHECKING:
    from rich.console import Console

    from stresstest.report.progress import Progress


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """What stands before the command."""

    store: str | None = None
    api_key: str | None = None
    display: str | None = None
    config: str | None = None

    def resolve(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options by precedence, the API key also from OPENAI_API_KEY; "given": by the command line."""
        for warning in config.unknown_variables():
            sys.stderr.write(f"warning: {warning}\n")
        here = {"store": self.store, "api_key": self.api_key, "display": self.display}
        merged = {**here, **{k: v for k, v in given.items() if v is not None}}
        named = given.get("config") or self.config
        values = config.resolve(merged, config_file=Path(named) if named else None)
        values["config_file"] = Path(named) if named else None
        values["api_key"] = values["api_key"] or os.environ.get("OPENAI_API_KEY") or None
        values["given"] = {k for k, v in given.items() if v is not None} - {"config"}
        values["program"] = _program(merged["store"])
        return values


def _program(store: str | None) -> str:
    """How a command that goes on with this store begins; a URL may hold a password and is not repeated."""
    if not store:
        return "stresstest"
    return f"stresstest --store {'…' if '@' in store else shlex.quote(store)}"


def _prototype(  # the options of `run`, in the order of `--help`
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model name as served. Default: the one that is served."),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option("--lang", "-l", help="Language of the answers: it, en, fr (or what the task has)."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="narrative, technical, qa, or a task file (./mine.toml). [default: narrative]"),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help=f"OpenAI-compatible endpoint. [default: {config.DEFAULT_BASE_URL}]")
    ] = None,
    rigor: Annotated[
        str | None,
        typer.Option(
            help="quick: risk 10% at 90%; standard: 5% at 95%; strict: 1% at 95%. [default: standard]"
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Not sent unless given, like all sampling options.")
    ] = None,
    top_p: Annotated[float | None, typer.Option(help="Nucleus sampling.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Top-k sampling (vLLM).")] = None,
    min_p: Annotated[float | None, typer.Option(help="Min-p sampling (vLLM).")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Repetition penalty (vLLM).")] = None,
    presence_penalty: Annotated[float | None, typer.Option(help="Presence penalty.")] = None,
    frequency_penalty: Annotated[float | None, typer.Option(help="Frequency penalty.")] = None,
    system_prompt: Annotated[str | None, typer.Option(help="System message before every prompt.")] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="Requests in flight. [default: 8]")
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Most output tokens of one generation. [default: the context's room, at most 16384]"
        ),
    ] = None,
    margin: Annotated[
        str | None, typer.Option(help="Safety margin taken off the threshold, 0.1 or 10%. [default: 10%]")
    ] = None,
    prompts: Annotated[
        str | None, typer.Option(help="Your production prompts (JSONL) instead of a task.")
    ] = None,
    budget_tokens: Annotated[
        str | None, typer.Option(help="Start nothing more after this many output tokens (200k, 2M).")
    ] = None,
    budget_time: Annotated[
        str | None, typer.Option(help="Start nothing more after this long (90s, 30m, 1h30m).")
    ] = None,
    tighten: Annotated[
        bool | None, typer.Option("--tighten", help="Declare up to four looks with growing samples.")
    ] = None,
    no_abort: Annotated[
        bool | None, typer.Option("--no-abort", help="Observe degenerate generations to their end.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the campaign; each request has its own. [default: 1]")
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            help="GPUs to watch by NVML: auto (all, if the server is on this machine), all, none, or a list "
            "of indices and UUIDs. [default: auto]"
        ),
    ] = None,
    gpu_exporter: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Watch the GPUs of another machine by its dcgm-exporter or nvidia_gpu_exporter.",
        ),
    ] = None,
) -> None:
    """Carries the parameters; never called."""


_GLOBAL_AGAIN = tuple(
    inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, typer.Option(help="As before the command.", hidden=True)],
    )
    for name in ("store", "api_key", "display", "config")
)


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command(options, **own)` all of run's options; `options` are the values in force."""
    return with_run_options_but()(command)


def with_run_options_but(*hidden: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `with_run_options`; the `hidden` ones say nothing to this command and are not in its help."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"
        ]
        shared = [
            _hidden(p) if p.name in hidden else p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for p in inspect.signature(_prototype, eval_str=True).parameters.values()
        ]
        return _wrapped(command, own, [*shared, *_GLOBAL_AGAIN])

    return decorate


def _hidden(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, option = get_args(parameter.annotation)
    silent = copy.copy(option)
    silent.hidden = True
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, silent])


def with_global_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command(options, **own)` the global options after the command's name as well."""
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]
    return _wrapped(command, own, list(_GLOBAL_AGAIN))


def _wrapped(
    command: Callable[..., None], own: list[inspect.Parameter], shared: list[inspect.Parameter]
) -> Callable[..., None]:
    names = {p.name for p in shared}

    @functools.wraps(command)
    def wrapper(context: typer.Context, **values: Any) -> None:
        top: GlobalOptions = context.obj or GlobalOptions()
        given = {k: v for k, v in values.items() if k in names}
        command(top.resolve(given), **{k: v for k, v in values.items() if k not in names})

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    # Typer reads the parameters from the signature; keyword-only keeps defaults free in order.
    parameters = [first, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *shared]
    signature = inspect.Signature(parameters)
    wrapper.__dict__["__signature__"] = signature
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def run_settings(values: Mapping[str, Any]) -> RunSettings:
    """The campaign that the options describe. Raises UsageError when the language is missing."""
    from stresstest.telemetry.gpus import parse_gpus

    parse_gpus(values["gpus"])
    if not values["lang"] and not values["prompts"]:
        raise UsageError(
            "--lang is missing: the language that the answers are wanted in.", hint="For example: --lang it"
        )
    task = str(values["task"])
    name = "prompts:" + Path(values["prompts"]).stem if values["prompts"] else task_name(task)
    return RunSettings(
        subject=Subject(values["model"] or "", name, values["lang"] or ""),
        base_url=values["base_url"],
        task_source=task,
        rigor=values["rigor"],
        decoding=Decoding(**{k: values[k] for k in SAMPLING}),
        concurrency=values["concurrency"],
        horizon=values["horizon"],
        margin=values["margin"],
        prompts_file=values["prompts"],
        budget_tokens=values["budget_tokens"],
        budget_seconds=values["budget_time"],
        tighten=values["tighten"],
        abort=not values["no_abort"],
        seed=values["seed"],
        gpus=values["gpus"],
        gpu_exporter=values["gpu_exporter"],
    )


def task_name(source: str) -> str:
    """The task's own name; a file's is read from it. Raises UsageError for a bad file."""
    from stresstest.tasks import load_task

    return load_task(source).name


def on_signals(act: Callable[[], object]) -> None:
    """Call `act` at Ctrl-C and SIGTERM, from the running event loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, act)
        except NotImplementedError:  # Windows event loops have no signal handlers
            break


def stdout_console() -> Console:
    """Results go here."""
    from rich.console import Console

    return Console(highlight=False)


def progress_for(display: str | None) -> Progress:
    """The listener: rich on a terminal, plain lines elsewhere, or none."""
    from stresstest.report.progress import PlainProgress, SilentProgress

    chosen = display or ("rich" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain")
    if chosen == "none":
        return SilentProgress()
    if chosen == "plain":
        return PlainProgress()
    from rich.console import Console

    from stresstest.report.live import LiveProgress

    return LiveProgress(Console(stderr=True, highlight=False))


def show_error(error: StresstestError) -> None:
    """One sentence on stderr, and what to do about it; what a server put into it steers no terminal."""
    from stresstest.report.text import clean

    sys.stderr.write(f"stresstest: {clean(str(error))}\n")
    if error.hint:
        sys.stderr.write(f"  {clean(error.hint)}\n")
