"""`stresstest guard`."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from stresstest.errors import UsageError
from stresstest.options.common import with_global_options
from stresstest.options.listening import cannot_listen, checked_host, listens
from stresstest.options.measurement import on_signals
from stresstest.output_file import refuse_overwriting

if TYPE_CHECKING:
    from stresstest.features.guard.journal import Journal, Sink
    from stresstest.features.guard.lines import LogFile
    from stresstest.features.guard.settings import GuardSettings
    from stresstest.model.guard import GuardConfig
    from stresstest.store import StoredThreshold

_SHARED = (
    "another process answers at this address already; where it is a guard, the two share the requests, each "
    "with a log and metrics of its own"
)
_OTHER_FILES = 64
"""Files that are open beside the two of each connection: libraries, the log, the event loop."""
EXAMPLES = """\b
Examples:
  stresstest guard --upstream http://vllm:8000 --port 8088
  stresstest guard --upstream http://vllm:8000 --policy abort --dry-run
  stresstest guard --upstream http://vllm:8000 --log degenerate.jsonl --log-text
  curl -s http://127.0.0.1:8088/guard/metrics
"""


@with_global_options
def command(
    options: dict[str, Any],
    upstream: Annotated[str, typer.Option(help="The server behind the guard, such as http://vllm:8000.")],
    host: Annotated[str, typer.Option(help="Address to listen on.", callback=checked_host)] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8088,
    policy: Annotated[
        str | None,
        typer.Option(
            help="count, abort, cap, retry or end-thinking, for every request, whatever [guard] in "
            "stresstest.toml says. [default: what it says, else count]"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; count and log what the policies would do.")
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(help="Append one JSON line a degenerate answer to this file. [default: stdout]"),
    ] = None,
    log_text: Annotated[
        bool, typer.Option("--log-text", help="Log prompts and answers too, so that scan can judge them.")
    ] = False,
    log_all: Annotated[
        bool, typer.Option("--log-all", help="Log healthy answers too, as rates and limits need them.")
    ] = False,
    max_connections: Annotated[int, typer.Option(help="Client connections at most.", min=1)] = 2048,
    max_body: Annotated[str, typer.Option(help="Bytes of a request at most (64M, 200k).")] = "64M",
    max_bodies: Annotated[
        str, typer.Option(help="Bytes of all requests that are held at once, at most; as much of answers.")
    ] = "128M",
    max_time: Annotated[str, typer.Option(help="Time of one request at most (90s, 30m).")] = "1h",
    drain: Annotated[
        str, typer.Option(help="After SIGTERM or Ctrl-C, wait so long for answers to end (90s, 30m).")
    ] = "5m",
) -> None:
    """Run in front of a server, watch every answer that passes, and stop only what its policy says.

    By default it counts and changes nothing. Its own pages are /guard/metrics and /guard/health; everything
    else is passed to the upstream. Answers of other APIs than OpenAI's, such as /v1/messages, are only
    counted.
    """
    from stresstest.campaign.execution.eventloop import run
    from stresstest.config.settings import parse_count, parse_duration
    from stresstest.features.guard.evaluation import evaluation_events
    from stresstest.features.guard.journal import Journal
    from stresstest.features.guard.lines import ends_within_line
    from stresstest.features.guard.settings import (
        GuardLimits,
        GuardSettings,
        check_symptoms,
        checked_upstream,
    )

    config = _config(options["config_file"], policy)
    check_symptoms(config)
    limits = replace(
        GuardLimits(),
        body=parse_count(max_body),
        bodies=parse_count(max_bodies),
        seconds=parse_duration(max_time),
        connections=max_connections,
        drain=parse_duration(drain),
    )
    settings = GuardSettings(
        checked_upstream(upstream), config, dry_run, _caps(config, options["store"]), limits
    )
    with _open_log(log) as out, evaluation_events(os.environ) as events:
        sinks = () if events is None else (events,)
        torn = log is not None and ends_within_line(Path(log))
        run(_serve(settings, Journal(out, every=log_all, text=log_text, torn=torn), sinks, host, port))


def _few_files(connections: int) -> list[str]:
    """A warning where the process may not open as many files as its connections can need."""
    from stresstest.own_process import allow_open_files

    most = allow_open_files(2 * connections + _OTHER_FILES)
    served = max(0, most - _OTHER_FILES) // 2
    if served >= connections:
        return []
    return [
        f"warning: this process may open {most:,} files, enough for {served:,} of {connections:,} "
        "connections (--max-connections): raise the limit (ulimit -n)"
    ]


def _config(config_file: Path | None, policy: str | None) -> GuardConfig:
    """The effective [guard] table. Raises UsageError."""
    from stresstest.config.guard import SECTION, guard_config, with_policy
    from stresstest.config.settings import section
    from stresstest.model.guard import GuardPolicy

    found = section(SECTION, config_file)
    config = guard_config({}, "") if found is None else guard_config(found[1], str(found[0]))
    if policy is None:
        return config
    if policy not in list(GuardPolicy):
        raise UsageError(f"--policy {policy!r} is not known: choose {', '.join(GuardPolicy)}.")
    return with_policy(config, GuardPolicy(policy))


def _caps(config: GuardConfig, store: str | None) -> list[StoredThreshold]:
    """The limits in the store, if a rule needs them; simulated ones only if there are no
    others, and none from a single prompt."""
    from stresstest.campaign.conclusion.conclude import chance_notes
    from stresstest.campaign.provenance.doubts import doubts_about
    from stresstest.features.guard.settings import idle_rules
    from stresstest.model.guard import GuardPolicy
    from stresstest.render.text import single_line

    capping = [rule for rule in config.rules if rule.policy is GuardPolicy.CAP]
    if all(rule.max_tokens is not None for rule in capping):
        return []
    from stresstest.store import open_store

    with open_store(store) as opened:
        rows = [row for row in opened.thresholds() if row.latest and row.limit]
        if not rows:
            own = any(rule.max_tokens is not None for rule in capping)
            effect = "only rules with a max_tokens of their own cap" if own else "nothing is capped"
            sys.stderr.write(
                f"warning: the store holds no safe max_tokens, so {effect}; measure one: "
                "stresstest run --model M --lang it\n"
            )
        caps = _usable(rows)
        smallest = {row.subject: row for row in sorted(caps, key=lambda each: -(each.limit or 0))}
        doubts = [
            f"run {row.run_id}: {note}"
            for row in smallest.values()
            for note in [*chance_notes(opened, row), *doubts_about(opened, row.run_id)]
        ]
    for warning in [*doubts, *(idle_rules(config.rules, caps) if rows else [])]:
        sys.stderr.write(f"warning: {single_line(warning)}\n")
    return caps


def _usable(rows: Sequence[StoredThreshold]) -> list[StoredThreshold]:
    """The limits that may cap; warns of those that may not."""
    under_load = [row for row in rows if row.holds_up_to is None]
    if len(under_load) < len(rows):
        sys.stderr.write(
            "warning: limits that hold only for a smaller load cap nothing, as the guard limits no load; a "
            "rule's max_tokens can name one\n"
        )
    several = [row for row in under_load if row.distinct_prompts != 1]
    if len(several) < len(under_load):
        sys.stderr.write(
            "warning: limits from a single prompt cap nothing: the behaviour on others is unknown; a rule's "
            "max_tokens can name one\n"
        )
    real = [row for row in several if not row.simulated]
    if several and not real:
        sys.stderr.write("warning: every limit in the store is SIMULATED: none was measured on a model\n")
    return real or several


def _open_log(path: str | None) -> AbstractContextManager[IO[bytes] | LogFile]:
    """The log, for appending, without a buffer. Raises UsageError."""
    from stresstest.features.guard.lines import LogFile, unbuffered

    if path is not None:
        refuse_overwriting(path)
    try:
        return nullcontext(unbuffered(sys.stdout)) if path is None else LogFile(Path(path))
    except OSError as error:
        raise UsageError(f"The log {path} cannot be written: {error.strerror}.") from None


async def _serve(
    settings: GuardSettings, journal: Journal, sinks: Sequence[Sink], host: str, port: int
) -> None:
    from stresstest.features.guard.lines import tell
    from stresstest.features.guard.server import guards_another, serve_guard
    from stresstest.features.guard.settings import cap_lines

    stop = asyncio.Event()
    serving = asyncio.current_task()

    def interrupt() -> None:
        if stop.is_set() and serving is not None:
            serving.cancel()
        elif not stop.is_set():
            stop.set()
            tell("draining: open answers may end; a second signal ends them at once")

    on_signals(interrupt)
    if hasattr(signal, "SIGHUP"):
        # logrotate asks with it that logs are opened again, which needs no asking here.
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
    shared = await listens(host, port)
    if shared and await guards_another(host, port, settings.upstream):
        raise UsageError(
            f"A guard of another upstream answers on {host}:{port} already: each would get some of the "
            f"requests that are meant for the other.",
            hint="Choose another port with --port, or end that guard first.",
        )
    at = urlsplit(settings.upstream)
    answers = await listens(at.hostname or "", at.port or (443 if at.scheme == "https" else 80))
    try:
        async with serve_guard(settings, journal, sinks=sinks, host=host, port=port) as guard:
            # What was loaded until here stays; what requests allocate has next to no cycles.
            gc.freeze()
            gc.set_threshold(50_000, 20, 20)
            where = f"guarding {settings.upstream} at {guard.url}"
            tell(f"{where} (metrics: {guard.url}/guard/metrics; Ctrl-C ends it)")
            few = _few_files(settings.limits.connections)
            silent = f"warning: nothing answers at {settings.upstream} yet: until then, requests get a 502"
            notes = [*few, *([_SHARED] if shared else []), *([] if answers else [silent])]
            for line in [*notes, *cap_lines(settings.caps)]:
                tell(line)
            await stop.wait()
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    except OSError as error:
        raise cannot_listen(error, "The guard", host, port) from None
