"""Options that several commands share, and how their values are resolved."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import os
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from stresstest.config import settings as config
from stresstest.config.secrets import remember
from stresstest.errors import ExitCode, StresstestError, UnreadableRunWarning, UsageError
from stresstest.model import SAMPLING, Decoding, RunSettings, Subject
from stresstest.output_file import forget_inputs

if TYPE_CHECKING:
    from rich.console import Console

    from stresstest.campaign.progress import Progress
    from stresstest.render.scan_progress import SilentScanProgress


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options given before the command's name; None where one is not given."""

    store: str | None = None
    api_key: str | None = None
    display: str | None = None
    config: str | None = None

    def resolve(self, given: Mapping[str, Any], *, base_url: str | None = None) -> dict[str, Any]:
        """The effective values of all options, by precedence; `given` holds those of the command line.

        base_url: the address on the command line of a command that has an option of its own for it.
        Three keys are added: "config_file" (path or None), "given" (names of the options on the command line)
        and "program" (how a command on the same store begins).
        """
        forget_inputs()
        for warning in config.unknown_variables():
            sys.stderr.write(f"warning: {warning}\n")
        here = {"store": self.store, "api_key": self.api_key, "display": self.display}
        explicit = {k: v for k, v in given.items() if v is not None}
        merged = here | explicit
        named = given.get("config") or self.config
        config_file = Path(named) if named else None
        values = config.resolve(merged, config_file=config_file)
        values["config_file"] = config_file
        if base_url:
            merged["base_url"] = base_url
        values["api_key"] = self._api_key(values, merged, config_file)
        values["given"] = explicit.keys() - {"config"}
        values["program"] = program_on(merged["store"])
        return values

    @staticmethod
    def _api_key(values: Mapping[str, Any], given: Mapping[str, Any], config_file: Path | None) -> str | None:
        """The key in use. One from the environment goes only to servers that the user has chosen, and one
        given beside an address to no other that a project file names."""
        from stresstest.config.credentials.bound_key import BoundKey

        variable = os.environ.get(config.ENV_PREFIX + "API_KEY")
        key: str | None = values["api_key"] or os.environ.get("OPENAI_API_KEY") or None
        remember(key)
        from_environment = not given.get("api_key") and (variable or not values["api_key"])
        if key is None or not (from_environment or given.get("base_url")):
            return key
        foreign = config.address_comes_from_project_file(given, config_file)
        address = given.get("base_url") or values["base_url"]
        return BoundKey(key, chosen=() if foreign else (address,))


def program_on(store: str | None) -> str:
    """The beginning of a command on this store; … for one that may hold a password, or steers a terminal."""
    if not store:
        return "stresstest"
    hidden = "@" in store or "?" in store or not store.isprintable()
    return f"stresstest --store {'…' if hidden else shlex.quote(store)}"


def _option(name: str, kind: Any, *flags: str, **settings: Any) -> inspect.Parameter:
    """An option of this type that is None unless it is given."""
    annotation: Any = Annotated[kind | None, typer.Option(*flags, **settings)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_RUN_OPTIONS = (
    _option(
        "model", str, "--model", "-m", help="Model name on the server. [default: the model that it serves]"
    ),
    _option(
        "lang",
        str,
        "--lang",
        "-l",
        help="Language of the answers, such as it, en or fr. Required unless --prompts is given.",
    ),
    _option(
        "task",
        str,
        metavar="TASK|FILE",
        help="narrative, technical, qa, translation, json, catalogue, code, or a task file (./mine.toml); "
        "narrative:open asks for prose without numbers. [default: narrative]",
    ),
    _option("base_url", str, help=f"OpenAI-compatible server. [default: {config.DEFAULT_BASE_URL}]"),
    _option(
        "rigor",
        str,
        metavar="quick|standard|strict",
        help="Tolerated risk and confidence: 10 % at 90 %, 5 % at 95 %, 1 % at 95 %. [default: standard]",
    ),
    _option("temperature", float, help="Sampling options are sent only if given."),
    _option("top_p", float, help="Nucleus sampling."),
    _option("top_k", int, help="Top-k sampling (vLLM)."),
    _option("min_p", float, help="Min-p sampling (vLLM)."),
    _option("repetition_penalty", float, help="Repetition penalty (vLLM)."),
    _option("presence_penalty", float, help="Presence penalty."),
    _option("frequency_penalty", float, help="Frequency penalty."),
    _option("system_prompt", str, help="System message before every prompt."),
    _option(
        "extra_body",
        str,
        metavar="JSON",
        help="Further fields of every request: response_format, structured_outputs, stop, tools, "
        "chat_template_kwargs …",
    ),
    _option("concurrency", int, "--concurrency", "-c", help="Requests in flight. [default: 8]"),
    _option(
        "horizon",
        int,
        help="Maximum output tokens of one answer. [default: what the context allows, at most 16384]",
    ),
    _option("margin", str, help="Safety margin subtracted from the threshold: 0.1 or 10%. [default: 10%]"),
    _option("prompts", str, metavar="FILE", help="Your production prompts (JSONL) instead of a task."),
    _option("budget_tokens", str, help="Stop sending requests after this many output tokens (200k, 2M)."),
    _option("budget_time", str, help="Stop sending requests after this time (90s, 30m, 1h30m)."),
    _option(
        "tighten",
        bool,
        "--tighten",
        help="Enlarge the sample up to eightfold where that may certify a longer T: up to four looks, "
        "declared beforehand, each at a higher confidence.",
    ),
    _option("no_abort", bool, "--no-abort", help="Let degenerate answers run to their end."),
    _option("seed", int, help="Seed of the campaign; each request has its own. [default: 1]"),
    _option("no_seed", bool, "--no-seed", help="Send no seeds. Answers then cannot be reproduced exactly."),
    _option(
        "no_logprobs",
        bool,
        "--no-logprobs",
        help="Request no logprobs: less work for the server's API process, but no entropy.",
    ),
    _option(
        "stall_timeout",
        str,
        metavar="SECONDS",
        help="Give up a stream without tokens for this long. [default: four times the longest pause so far, "
        "300 to 1,200]",
    ),
    _option(
        "gpus",
        str,
        metavar="auto|all|none|LIST",
        help="GPUs to watch with NVML; auto: all, if the server runs on this machine. LIST: indices or "
        "UUIDs. "
        "[default: auto]",
    ),
    _option(
        "gpu_exporter",
        str,
        metavar="URL",
        help="Watch the GPUs of another machine through its dcgm-exporter or nvidia_gpu_exporter.",
    ),
)
"""The options of `run`, in the order of `--help`."""
_GLOBAL_OPTIONS = tuple(
    _option(name, str, help="As before the command.", hidden=True)
    for name in ("store", "api_key", "display", "config")
)
_NAMES = ("model", "lang", "task", "prompts", "like", "run", "resume", "fresh_baseline")
"""What chooses something by its name."""


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command(options, **own)` all options of `run`; `options` holds the effective values."""
    return with_run_options_but()(command)


def with_run_options_but(*hidden: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `with_run_options`; the `hidden` options do not apply to the command and are not in its help."""
    shared = [_hide(p) if p.name in hidden else p for p in _RUN_OPTIONS]
    return functools.partial(_add_options, shared=shared)


def _hide(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, option = get_args(parameter.annotation)
    option = copy.copy(option)
    option.hidden = True
    return parameter.replace(annotation=Annotated[kind, option])


def with_global_options(command: Callable[..., None]) -> Callable[..., None]:
    """Accept the global options of `command(options, **own)` after the command's name as well."""
    return _add_options(command, [])


def _add_options(command: Callable[..., None], shared: list[inspect.Parameter]) -> Callable[..., None]:
    """The command with the shared and the global options in its signature, resolved into `options`."""
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "options"]
    added = [*shared, *_GLOBAL_OPTIONS]
    names = {p.name for p in added}

    @functools.wraps(command)
    def wrapper(context: typer.Context, **values: Any) -> None:
        _refuse_empty(values)
        top: GlobalOptions = context.obj or GlobalOptions()
        given = {k: v for k, v in values.items() if k in names}
        options = top.resolve(given, base_url=values.get("base_url"))
        try:
            command(options, **{k: v for k, v in values.items() if k not in names})
            return
        except KeyboardInterrupt:
            pass  # with its traceback go the generators that it holds, and their workers
        gc.collect()
        sys.stderr.write("\nInterrupted.\n")
        raise typer.Exit(ExitCode.INTERRUPTED)

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    # Typer reads the signature. Keyword-only parameters may follow others that have defaults.
    parameters = [first, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *added))]
    wrapper.__dict__["__signature__"] = inspect.Signature(parameters)
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def _refuse_empty(values: Mapping[str, Any]) -> None:
    """Raise UsageError for an empty name: where a shell's variable is not set, all models are not meant."""
    for name in _NAMES:
        if isinstance(value := values.get(name), str) and not value.strip():
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{'The name of the run' if name == 'run' else option} is empty.",
                hint="Is a variable of the shell not set?",
            )


def run_settings(values: Mapping[str, Any]) -> RunSettings:
    """The campaign that the options describe. Raises UsageError for a missing language or bad GPU options."""
    from stresstest.tasks import load_prompts, load_task
    from stresstest.telemetry.gpu.watch import parse_gpus

    parse_gpus(values["gpus"])
    if not values["lang"] and not values["prompts"]:
        raise UsageError("--lang is missing: the language of the answers.", hint="For example: --lang it")
    task = str(values["task"])
    name = "prompts:" + Path(values["prompts"]).stem if values["prompts"] else load_task(task).name
    decoding = Decoding(**{k: values[k] for k in SAMPLING})
    if values["prompts"]:
        decoding = load_prompts(values["prompts"]).decoding(decoding)
    return RunSettings(
        subject=Subject(values["model"] or "", name, values["lang"] or ""),
        base_url=values["base_url"],
        task_source=task,
        rigor=values["rigor"],
        decoding=decoding,
        concurrency=values["concurrency"],
        horizon=values["horizon"],
        margin=values["margin"],
        prompts_file=values["prompts"],
        budget_tokens=values["budget_tokens"],
        budget_seconds=values["budget_time"],
        tighten=values["tighten"],
        abort=not values["no_abort"],
        seed=values["seed"],
        send_seed=not values["no_seed"],
        logprobs=not values["no_logprobs"],
        stall_timeout=values["stall_timeout"],
        gpus=values["gpus"],
        gpu_exporter=values["gpu_exporter"],
    )


def language_source(language: str) -> str:
    """Where the language of the answers comes from, if it was not given on the command line."""
    given = os.environ.get(f"{config.ENV_PREFIX}LANG")
    where = f"{config.ENV_PREFIX}LANG" if given else "a settings file (stresstest.toml)"
    return f'The language "{language}" is from {where}, not from the command line. --lang gives another one.'


def refuse_options(given: set[str], *, allowed: set[str], why: str, hint: str) -> None:
    """Raise UsageError if an option of `run` is given that is neither allowed nor global."""
    refused = sorted(given - allowed - {"store", "api_key", "display"})
    if refused:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in refused)
        raise UsageError(f"{names} cannot be {why}", hint=hint)


_NARROWEST = 20
"""Columns of the results at least, whatever the terminal says."""


def stdout_console() -> Console:
    """A console on stdout, for results."""
    from rich.console import Console

    console = Console(highlight=False)
    # Some CI runners set COLUMNS=0, and in a few columns tables are nothing but blanks.
    console.width = max(console.width, _NARROWEST)
    return console


def progress_for(display: str | None) -> Progress:
    """What shows a campaign's progress on stderr: rich on a terminal, plain lines elsewhere, or none."""
    from stresstest.campaign.progress import Progress
    from stresstest.render.plain_progress import PlainProgress

    chosen = display or _default_display()
    if chosen == "none":
        return Progress()
    if chosen == "plain":
        return PlainProgress()
    from rich.console import Console

    from stresstest.render.live.view import LiveProgress

    return LiveProgress(Console(stderr=True, highlight=False))


def scan_progress_for(display: str | None, total: int | None) -> SilentScanProgress:
    """What shows the progress of reading files on stderr. total: their size in bytes, None where unknown."""
    from stresstest.render.scan_progress import LiveScanProgress, PlainScanProgress, SilentScanProgress

    chosen = display or _default_display()
    if chosen == "none":
        return SilentScanProgress()
    return PlainScanProgress(total) if chosen == "plain" else LiveScanProgress(total)


def _default_display() -> str:
    return "rich" if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else "plain"


def show_warnings_of_the_store() -> None:
    """Have what the store warns of printed in one line, as every other warning of a command."""
    from stresstest.render.text import single_line

    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, UnreadableRunWarning):
            sys.stderr.write(f"warning: {single_line(str(message))}\n")
        else:
            others(message, category, *where, **more)

    warnings.showwarning = show


def show_error(error: StresstestError) -> None:
    """Print the error and its hint on stderr, without the control sequences a server may have sent."""
    from stresstest.model.address import without_secrets
    from stresstest.render.text import sanitize

    text = f"stresstest: {sanitize(without_secrets(str(error)))}"
    if sys.stderr.isatty():  # a terminal breaks words; a log keeps the line
        width = shutil.get_terminal_size().columns
        fill = functools.partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(map(fill, text.split("\n")))
    sys.stderr.write(f"{text}\n")
    if error.hint:  # a command in it is copied, so it is not broken
        sys.stderr.write(f"  {sanitize(without_secrets(error.hint))}\n")
