"""What `init` asks, in order: server, model, prompts, language; and what it says when it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import typer

from stresstest.campaign.execution.eventloop import run as run_loop
from stresstest.config import settings as config
from stresstest.endpoint.discovery import AskedServer, ask_server, find_local_servers
from stresstest.errors import UsageError
from stresstest.features.init.suggestions import find_prompts, suggest_language
from stresstest.render.text import single_line
from stresstest.tasks import load_prompts, load_task

SIMULATOR = "stresstest sim --scenario qwen2.5-7b-awq-it"
_SHIPPED = "none"


@dataclass(frozen=True, slots=True)
class Questions:
    """Asks at the terminal (on stderr), or takes every suggestion. Raises typer.Abort on Ctrl-C."""

    at_terminal: bool

    def ask(self, question: str, suggestion: str | None, check: Callable[[str], object] = str) -> str:
        """An answer that `check` accepts; what it raises as UsageError is shown, and asked again."""

        def checked(answer: str) -> str:
            try:
                check(answer)
            except UsageError as error:
                raise typer.BadParameter(". ".join(filter(None, (str(error), error.hint)))) from None
            return answer

        if not self.at_terminal:
            if suggestion and suggestion != _SHIPPED:
                typer.echo(f"{question}: {single_line(suggestion)} (suggested)", err=True)
            return suggestion or ""
        return str(typer.prompt(question, default=suggestion, value_proc=checked, err=True))

    def choose(self, what: str, names: Sequence[str], option: str) -> str:
        """One of several names. Raises UsageError where nobody can be asked."""
        listed = ", ".join(map(single_line, names))
        if not self.at_terminal:
            raise UsageError(f"Several {what} to choose from: {listed}.", hint=f"Name one with {option}.")
        typer.echo(f"Several {what} to choose from: {listed}", err=True)
        return self.ask(what, names[0], lambda answer: _require(answer, names))


def choose_settings(
    known: Mapping[str, Any], api_key: str | None, questions: Questions
) -> tuple[AskedServer, dict[str, Any]]:
    """The server as it answered, and the settings in the order of the file.

    known: settings that need not be asked. Raises UsageError for what cannot be used.
    """
    for name in ("base_url", "gpu_exporter"):
        _refuse_credentials(name, known.get(name))
    server = _choose_server(known.get("base_url"), api_key, questions)
    chosen: dict[str, Any] = {"base_url": server.base_url}
    model = _choose_model(known.get("model"), server, questions)
    if model is not None:
        chosen["model"] = model
    prompts = known.get("prompts")
    if prompts is None and "task" not in known:
        found = find_prompts()
        if found is not None or not known.get("lang"):  # a language alone is enough for a task
            prompts = _choose_prompts(found, questions)
    language = known.get("lang") or _choose_language(prompts, known.get("task", "narrative"), questions)
    if language:
        chosen["lang"] = language
    source = {"task": known.get("task", "narrative")} if prompts is None else {"prompts": prompts}
    return server, chosen | source | {name: value for name, value in known.items() if name not in chosen}


def next_steps(server: AskedServer, values: Mapping[str, Any]) -> str:
    """What was written, whether the server answers, and what to do now."""
    lines = [f"  {name:<9} {single_line(str(value))}" for name, value in values.items()]
    if server.simulated:
        lines.append("The server is the simulator: its results are marked SIMULATED.")
    if server.trouble is not None:
        lines += [
            server.trouble,
            f"Start it, or a simulated one: {SIMULATOR} --port {urlsplit(server.base_url).port or 8000}",
            "If the address is wrong: give init the right one, with --force.",
        ]
    if "prompts" not in values:
        lines.append("To measure with your own prompts instead of this task: --prompts FILE.")
    rigor = "" if "rigor" in values else " --rigor quick"
    steps = {
        "doctor": "what can be measured on this server",
        f"plan{rigor}": "what a run would send",
        f"run{rigor}": "a first certified number",
    }
    if not rigor:
        steps["run"] = "the measurement"
    width = max(map(len, steps))
    heading = "Next:" if server.trouble is None else "Once it answers:"
    lines += [heading, *(f"  stresstest {step:<{width}}  # {purpose}" for step, purpose in steps.items())]
    return "\n".join(lines)


def _choose_server(given: str | None, api_key: str | None, questions: Questions) -> AskedServer:
    if given is not None:
        return run_loop(ask_server(given, api_key=api_key))
    found = {server.base_url: server for server in run_loop(find_local_servers())}
    for server in found.values():
        typer.echo(f"Found {server.base_url}: {single_line(', '.join(server.models))}", err=True)
    if not found:
        typer.echo(
            f"No server was found on the usual ports of this machine. A simulated one: {SIMULATOR}", err=True
        )
    if len(found) > 1 and not questions.at_terminal:
        return found[questions.choose("servers", list(found), "--base-url")]
    address = questions.ask("Server", next(iter(found), config.DEFAULT_BASE_URL))
    _refuse_credentials("base_url", address)
    return found.get(address) or run_loop(ask_server(address))


def _choose_model(given: str | None, server: AskedServer, questions: Questions) -> str | None:
    if not server.models:
        return given
    if given is not None:
        if not server.simulated:
            _require(given, server.models)
        return given
    return (
        server.models[0] if len(server.models) == 1 else questions.choose("models", server.models, "--model")
    )


def _choose_prompts(found: str | None, questions: Questions) -> str | None:
    answer = questions.ask(
        "JSONL file with your own prompts (none: the shipped task narrative)",
        found or _SHIPPED,
        lambda answer: answer == _SHIPPED or load_prompts(answer),
    )
    return None if answer == _SHIPPED else answer


def _choose_language(prompts: str | None, task: str, questions: Questions) -> str:
    """A language code; "" where prompts have none that could be told."""
    if prompts is not None:
        return questions.ask("Language of the answers", suggest_language(load_prompts(prompts).prompts))
    loaded = load_task(task)
    question = f"Language of the answers ({', '.join(loaded.languages)})"
    return questions.ask(question, suggest_language(loaded), loaded.language)


def _require(name: str, names: Sequence[str]) -> None:
    if name not in names:
        listed = ", ".join(map(single_line, names))
        raise UsageError(f"{single_line(name)!r} is not one of: {listed}")


def _refuse_credentials(name: str, address: object) -> None:
    """Raise UsageError for an address with a user name or password, or of an exporter with a query, which may
    be a token: a file would keep it."""
    if not isinstance(address, str):
        return
    parts = urlsplit(address)
    what = "a password" if "@" in parts.netloc else "a query" if name != "base_url" and parts.query else None
    if what is not None:
        raise UsageError(
            f"The address in {name} holds {what}, which is not written to a file.",
            hint=f"Remove it there and set {config.ENV_PREFIX}{name.upper()} to the whole address.",
        )
