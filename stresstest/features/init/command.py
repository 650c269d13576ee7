"""`stresstest init`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from stresstest.config import settings as config
from stresstest.config.found_file import PROJECT_FILE
from stresstest.errors import UsageError
from stresstest.options.common import run_settings, with_run_options
from stresstest.output_file import refuse_link, replace_file

EXAMPLES = """\b
Examples:
  stresstest init
  stresstest init --lang it --yes
  stresstest init --base-url http://gpu-box:8000/v1 --model mistral-7b --lang it --temperature 0.7
"""


@with_run_options
def command(
    options: dict[str, Any],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take every suggestion.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing stresstest.toml.")] = False,
) -> None:
    """Write a stresstest.toml for a server, a model, a language and prompts.

    Looks for a server at the usual addresses of this machine and asks about what is not given. Every option
    that is given goes into the file. Without a terminal nothing is asked.
    """
    from stresstest.campaign.prompt_source import load_prompt_source
    from stresstest.features.init.document import settings_text
    from stresstest.features.init.questions import Questions, choose_settings, next_steps

    target = Path(PROJECT_FILE)
    refuse_link(target)
    if target.exists() and not force:
        raise UsageError(f"{target} exists already.", hint="Replace it with --force, or edit it.")
    questions = Questions(at_terminal=sys.stdin.isatty() and not yes)
    try:
        server, values = choose_settings(_known(options), options["api_key"], questions)
    except typer.Abort:
        raise KeyboardInterrupt from None
    load_prompt_source(run_settings(options | values))  # what a run would refuse is refused here
    text = settings_text(values)
    try:
        replace_file(target, [text])
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from None
    typer.echo(f"Wrote {target}.", err=True)
    typer.echo(next_steps(server, values))


def _known(options: dict[str, Any]) -> dict[str, Any]:
    """What need not be asked: the options on the command line, and server, model, language and prompts from
    the environment or a settings file."""
    answered = ("base_url", "model", "lang", "prompts")
    elsewhere = {name for name in answered if options[name] not in (None, config.DEFAULT_BASE_URL)}
    given = options["given"] - {"store", "api_key", "display"}
    return {name: options[name] for name in options if name in given | elsewhere}
