"""What stopping loops early would have done: a table, the request body, JSON. Computes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.economics.mitigation import TOLERATED, Audit, Chosen, Setting, Share
from stresstest.economics.retry import IDS, WORDS, Audited, Delivery
from stresstest.report.text import count, percent

if TYPE_CHECKING:
    from rich.console import Console

FEW_LOOPS = 10
"""Below it the choice of a setting is hardly better than a guess."""


def audit_document(found: Audited) -> dict[str, Any]:
    """Everything as JSON; `repetition_detection` is null where no setting can be sent to a server."""
    chosen = found.chosen
    return {
        "repetition_detection": None if found.usable is None else found.usable.body(),
        "false_stops_bounded": chosen.bounded,
        "setting": None if chosen.setting is None else chosen.setting.body(),
        "verdict": verdict(found),
        "streams": found.streams,
        "loops": found.loops,
        "degenerate": found.degenerate,
        "scale": found.scale,
        "chosen_on": chosen.chosen_on,
        "told_on": chosen.told_on,
        "settings_tried": chosen.tried,
        "audit": None if chosen.audit is None else _audit(chosen.audit),
        "online_detector": _audit(chosen.detector),
        "others": [{"setting": setting.body(), **_audit(told)} for setting, told in chosen.usual],
        "tokens_per_delivered_answer": [delivery_document(each) for each in found.taxes],
        "notes": remarks(found),
    }


def _audit(audit: Audit) -> dict[str, Any]:
    return {
        "loops_caught": _share(audit.caught),
        "other_failures_stopped": _share(audit.other),
        "healthy_stopped": _share(audit.stopped),
        "stopped_before_onset": _share(audit.early),
        "false_stops_upper": audit.most_false,
        "tokens": audit.tokens,
        "tokens_saved": audit.saved,
        "tokens_lost": audit.lost,
    }


def _share(share: Share) -> dict[str, Any]:
    known = share.n > 0
    return {
        "k": share.k,
        "n": share.n,
        "share": share.k / share.n if known else None,
        "ci": [share.lo, share.hi] if known else None,
    }


def delivery_document(each: Delivery) -> dict[str, Any]:
    """Tokens for a delivered answer under one policy, with the interval."""
    return asdict(each) | {"ci": [each.lo, each.hi]}


def verdict(found: Audited) -> str:
    """What to make of the chosen setting, in a sentence."""
    chosen = found.chosen
    if found.loops == 0:
        return "No output loops: there is nothing that repetition_detection would have to stop."
    if chosen.setting is None or chosen.audit is None:
        return "No setting saves tokens without stopping healthy text as well: none is recommended."
    if found.scale == WORDS:
        return (
            "No request body: vLLM counts tokens, and patterns are counted in words here. Give --tokenizer, "
            "or replay a run."
        )
    if chosen.bounded:
        return "Best request body:"
    healthy = chosen.audit.stopped.n
    if not found.streams - found.degenerate:
        why = "there is no healthy output, so that what it does to healthy text cannot be measured"
    else:
        seen = f"{chosen.audit.false_stops} false stops on {healthy} healthy outputs leave room for up to"
        why = f"{seen} {percent(chosen.audit.most_false)}; at most {percent(TOLERATED)} is wanted"
    return f"A candidate, not to be relied on: {why}. Replay more healthy outputs."


def remarks(found: Audited) -> list[str]:
    """Sentences that the numbers need."""
    chosen = found.chosen
    notes = [
        f"Chosen among {chosen.tried} settings on {chosen.chosen_on} outputs; the table is of the other "
        f"{chosen.told_on}. Intervals are exact, 95 %. A stop before the onset cuts healthy text: it catches "
        "nothing and saves nothing.",
        "The online detector stops no healthy output here because it says which ones are healthy; its own "
        "false alarms are in docs/detectors.md. It stops at the client, as abort-and-retry does.",
        "Exact repetition only: near-repeats (a counter in each copy) are invisible to vLLM's detection.",
    ]
    if found.degenerate == found.streams:
        notes.append("No output is healthy: what a setting does to healthy text cannot be measured here.")
    if 0 < found.loops < FEW_LOOPS:
        notes.append(
            f"{found.loops} loops are few: which setting is best is hardly known, only whom it stops. "
            "Replay more outputs."
        )
    if found.scale != IDS:
        notes.append(
            f"Not every output has token ids: patterns are counted in {found.scale}. Give --tokenizer, or "
            "replay a run."
        )
    if found.masked:
        notes.append(
            f"{found.masked} outputs had already been stopped by the server's own repetition detection."
        )
    if found.aborted:
        notes.append(
            f"{found.aborted} of the {found.degenerate} degenerate outputs had been aborted by us: what a "
            "stop saves is a lower bound for them."
        )
    return notes


def print_audit(console: Console, found: Audited) -> None:
    """The table, the request body to send, and the tax of each policy."""
    from rich.table import Table
    from rich.text import Text

    chosen = found.chosen
    console.print(
        Text(
            f"{count(found.streams)} outputs, {found.degenerate} degenerate, {found.loops} of them looping",
            style="bold",
        )
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stopped by")
    for name in _columns(chosen.detector):
        table.add_column(name, justify="right")
    for name, told in _rows(chosen):
        table.add_row(Text(name), *(Text(cell) for cell in _columns(told).values()))
    console.print(table)
    good = found.usable is not None and chosen.bounded
    console.print(Text(verdict(found), style="bold" if good else "yellow"))
    if found.usable is not None:
        body = json.dumps({"repetition_detection": found.usable.body()})
        console.print(Text(f"  {body}"), soft_wrap=True)
    print_deliveries(console, found.taxes)
    for remark in remarks(found):
        console.print(Text(remark, style="dim"))


def print_deliveries(console: Console, found: Sequence[Delivery]) -> None:
    """A sentence for each policy."""
    from rich.text import Text

    for each in found:
        interval = f"({each.lo:,.0f}–{each.hi:,.0f})"
        console.print(Text(f"{each.tokens:,.0f} tokens for a delivered answer {interval}: {each.policy}"))


def _columns(told: Audit) -> dict[str, str]:
    """One stopper's cells by column; other failures only where there are any."""
    share = percent(told.saved / told.tokens if told.tokens else None)
    return {
        "loops caught": _shown(told.caught),
        **({"other failures": _shown(told.other)} if told.other.n else {}),
        "healthy stopped": _shown(told.stopped),
        "before onset": _shown(told.early),
        "tokens saved": f"{count(told.saved)} ({share})",
        "lost": count(told.lost),
    }


def _rows(chosen: Chosen) -> list[tuple[str, Audit]]:
    rows = [(f"vLLM {_words(setting)}", told) for setting, told in chosen.usual]
    if chosen.setting is not None and chosen.audit is not None:
        name = "best" if chosen.bounded else "candidate"
        rows.append((f"vLLM {_words(chosen.setting)} ({name})", chosen.audit))
    return [*rows, ("our detector, online", chosen.detector)]


def _words(setting: Setting) -> str:
    return f"{setting.min_pattern_size}–{setting.max_pattern_size} × {setting.min_count}"


def _shown(share: Share) -> str:
    if not share.n:
        return "none seen"
    digits = 2 if share.hi < 0.05 else 0
    return f"{share.k}/{share.n} ({100 * share.lo:.{digits}f}–{percent(share.hi, digits)})"
