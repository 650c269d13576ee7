"""What stopping loops early would have done: a table, the request body, JSON. Computes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.economics.mitigation import Audit, Chosen, Setting, Share
from stresstest.economics.retry import IDS, Audited, Delivery
from stresstest.report.text import count, percent

if TYPE_CHECKING:
    from rich.console import Console

FEW_LOOPS = 10
"""Below it the choice of a setting is hardly better than a guess."""


def audit_document(found: Audited) -> dict[str, Any]:
    """Everything as JSON; `repetition_detection` is null where no setting is worth its risk."""
    chosen = found.chosen
    return {
        "repetition_detection": None if chosen.setting is None else chosen.setting.body(),
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


def remarks(found: Audited) -> list[str]:
    """Sentences that the numbers need."""
    chosen = found.chosen
    notes = [
        f"Chosen among {chosen.tried} settings on {chosen.chosen_on} outputs; the table is of the other "
        f"{chosen.told_on}. Intervals are exact, 95 %.",
        "The online detector stops no healthy output here because it says which ones are healthy; its own "
        "false alarms are in docs/detectors.md. It stops at the client, as abort-and-retry does.",
        "Exact repetition only: near-repeats (a counter in each copy) are invisible to vLLM's detection.",
    ]
    if found.loops < FEW_LOOPS:
        notes.append(
            f"{found.loops} loops are few: which setting is best is hardly known, only whom it stops. "
            "Replay more outputs."
        )
    if found.scale != IDS:
        notes.append(
            f"The outputs have no token ids: patterns are counted in {found.scale}. Give --tokenizer, or "
            "replay a run."
        )
    if found.masked:
        notes.append(
            f"{found.masked} outputs had already been stopped by the server's own repetition detection."
        )
    if found.aborted:
        notes.append(
            f"{found.aborted} loops had been aborted by us: what a stop saves is a lower bound for them."
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
    for column in ("stopped by", "loops caught", "other failures", "healthy stopped", "tokens saved", "lost"):
        table.add_column(column, justify="left" if column == "stopped by" else "right")
    for name, told in _rows(chosen):
        table.add_row(
            Text(name),
            Text(_shown(told.caught)),
            Text(_shown(told.other)),
            Text(_shown(told.stopped)),
            Text(f"{count(told.saved)} ({percent(told.saved / told.tokens if told.tokens else None)})"),
            Text(count(told.lost)),
        )
    console.print(table)
    if chosen.setting is None:
        console.print(Text("No setting saves more than it costs: repetition_detection is not worth it here."))
    else:
        console.print(Text("Best request body:", style="bold"))
        body = json.dumps({"repetition_detection": chosen.setting.body()})
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


def _rows(chosen: Chosen) -> list[tuple[str, Audit]]:
    rows = [(f"vLLM {_words(setting)}", told) for setting, told in chosen.usual]
    if chosen.setting is not None and chosen.audit is not None:
        rows.append((f"vLLM {_words(chosen.setting)} (best)", chosen.audit))
    return [*rows, ("our detector, online", chosen.detector)]


def _words(setting: Setting) -> str:
    return f"{setting.min_pattern_size}–{setting.max_pattern_size} × {setting.min_count}"


def _shown(share: Share) -> str:
    if not share.n:
        return "none seen"
    digits = 2 if share.hi < 0.05 else 0
    return f"{share.k}/{share.n} ({100 * share.lo:.{digits}f}–{percent(share.hi, digits)})"
