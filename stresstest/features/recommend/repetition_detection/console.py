"""The audit of early stops on the terminal and as JSON. Computes nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stresstest.economics.check_cost import SOURCE, check_microseconds
from stresstest.economics.mitigation import (
    MAX_FALSE_STOP_RATE,
    BinomialShare,
    ChosenSetting,
    MitigationAudit,
    RepetitionSetting,
)
from stresstest.economics.retry import IDS, WORDS, AuditResult
from stresstest.model.percent import percent
from stresstest.render.cap_cost import delivery_document, print_deliveries
from stresstest.render.text import format_count

if TYPE_CHECKING:
    from rich.console import Console

RUNNING_REQUESTS = 64
"""Requests in one step of the server that the sentence on the check's cost assumes."""
MAX_LITTLE_MS = 2.0
"""Milliseconds a step up to which the check counts as little: a tenth of a usual decoding step."""
MIN_LOOPS = 10
"""With fewer loops, the choice of a setting is unreliable."""


def audit_document(found: AuditResult) -> dict[str, Any]:
    """The audit as JSON. `repetition_detection` is null if no setting can be sent to a server."""
    chosen = found.chosen
    return {
        "repetition_detection": None if found.usable is None else found.usable.to_body(),
        "false_stops_bounded": chosen.bounded,
        "setting": None if chosen.setting is None else chosen.setting.to_body(),
        "scheduler_us_per_token": None if chosen.setting is None else check_microseconds(chosen.setting),
        "verdict": verdict(found),
        "conclusion": conclusion(found),
        "streams": found.streams,
        "loops": found.loops,
        "degenerate": found.degenerate,
        "unseen": found.unseen,
        "copies": found.copies,
        "prompts": found.prompts,
        "left_aside": found.left_aside,
        "loops_aside": found.loops_aside,
        "scale": found.scale,
        "chosen_on": chosen.chosen_on,
        "told_on": chosen.told_on,
        "settings_tried": chosen.tried,
        "audit": None if chosen.audit is None else _audit(chosen.audit),
        "online_detector": _audit(chosen.detector),
        "others": [
            {
                "setting": setting.to_body(),
                "scheduler_us_per_token": check_microseconds(setting),
                **_audit(audit),
            }
            for setting, audit in chosen.usual
        ],
        "tokens_per_delivered_answer": [delivery_document(each) for each in found.taxes],
        "notes": remarks(found),
    }


def _audit(audit: MitigationAudit) -> dict[str, Any]:
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


def _share(share: BinomialShare) -> dict[str, Any]:
    known = share.n > 0
    return {
        "k": share.k,
        "n": share.n,
        "share": share.k / share.n if known else None,
        "ci": [share.lo, share.hi] if known else None,
    }


def _unseen_words(found: AuditResult) -> str:
    if found.unseen == 1:
        return "1 more output was given up before it failed, or is not whole in the log"
    return (
        f"{format_count(found.unseen)} more outputs were given up before they failed, or are not whole in "
        "the log"
    )


def verdict(found: AuditResult) -> str:
    """One sentence on whether the chosen setting can be used."""
    chosen = found.chosen
    if found.loops == 0 and found.unseen:
        return f"Whether outputs loop is not known: {_unseen_words(found)}, and none of the others loops."
    if found.loops == 0 and found.loops_aside:
        return (
            f"No setting is recommended: {found.loops_aside} of the {format_count(found.left_aside)} outputs "
            f"left aside loop, but none of the {format_count(found.streams)} that were replayed. "
            "Replay a part of them."
        )
    if found.loops == 0:
        return "No output loops, so there is nothing for repetition_detection to stop."
    if chosen.setting is None or chosen.audit is None:
        return "No setting is recommended: every setting that saves tokens also stops healthy text."
    if found.scale == WORDS:
        return (
            "No request body is given: vLLM counts tokens, but patterns are counted in words here. "
            "Give --tokenizer, or replay a run."
        )
    if chosen.bounded:
        return "Best request body:"
    healthy = chosen.audit.stopped.n
    if not found.streams - found.degenerate:
        why = "there is no healthy output, so the effect on healthy text cannot be measured"
    else:
        count = (
            f"{chosen.audit.false_stops} false stops in {healthy} healthy outputs are compatible "
            f"with a rate of up to"
        )
        why = (
            f"{count} {percent(chosen.audit.most_false)}; at most {percent(MAX_FALSE_STOP_RATE)} is "
            f"acceptable"
        )
    of_others = "" if found.prompts >= found.streams else ", of other prompts"
    return f"This setting is a candidate only: {why}. Replay more healthy outputs{of_others}."


def conclusion(found: AuditResult) -> str:
    """What the setting stops and what its check costs the server, in one sentence."""
    chosen = found.chosen
    if found.usable is None or chosen.audit is None:
        return "Leave repetition_detection off as long as no setting is known to help."
    audit, cost = chosen.audit, check_microseconds(found.usable)
    wrong = "no healthy answer" if not audit.false_stops else f"wrongly {audit.false_stops} answers"
    step = cost * RUNNING_REQUESTS / 1_000
    effect = "little beside a decoding step of 10 to 30 ms"
    if step > MAX_LITTLE_MS:
        effect = "which every request waits for: a smaller max_pattern_size costs less"
    return (
        f"{_words(found.usable)} stops {audit.caught.k} of {audit.caught.n} loops and {wrong}; its check "
        f"takes vLLM's scheduler up to {_microseconds(cost)} a token, with {RUNNING_REQUESTS} running "
        f"requests {step:.1f} ms a step, {effect}."
    )


def _microseconds(cost: float) -> str:
    return f"{cost:.1f} µs" if cost < 10 else f"{cost:.0f} µs"


def _usual_costs(chosen: ChosenSetting) -> str:
    costs = [(_words(setting), check_microseconds(setting)) for setting, _ in chosen.usual]
    return ", ".join(f"{name}: {_microseconds(cost)}" for name, cost in costs)


def remarks(found: AuditResult) -> list[str]:
    """Sentences needed to interpret the numbers."""
    chosen = found.chosen
    notes = [
        f"Chosen among {chosen.tried} settings on {chosen.chosen_on} outputs; the table shows the "
        f"other {chosen.told_on}. {_interval_words(found)} A stop before the onset cuts healthy "
        f"text: it catches nothing and saves nothing.",
        "The online detector stops no healthy output here because it decides which outputs are "
        "healthy; its own false alarm rate is in docs/detectors.md. It stops at the client, like "
        "abort-and-retry.",
        f"Time that the check takes in vLLM's scheduler, for each token of a request: "
        f"{_usual_costs(chosen)} (measured: {SOURCE}).",
        "Exact repetition only: vLLM's detection cannot see near-repeats (a counter in each copy).",
    ]
    if found.degenerate == found.streams:
        notes.append(
            "No output is healthy, so the effect of a setting on healthy text cannot be measured here."
        )
    if 0 < found.loops < MIN_LOOPS:
        notes.append(
            f"{found.loops} loops are too few to tell which setting is best; they only show which "
            f"outputs each one stops. Replay more outputs."
        )
    if found.scale != IDS:
        notes.append(
            f"Not every output has token ids, so patterns are counted in {found.scale}. Give "
            f"--tokenizer, or replay a run."
        )
    if found.left_aside:
        notes.append(
            f"The {format_count(found.streams)} outputs are a random sample: "
            f"{format_count(found.left_aside)} more, of which "
            f"{found.loops_aside} loop, are in no number."
        )
    if found.copies == 1:
        notes.append("1 more output is a copy of one of these, word for word: it is in no number.")
    elif found.copies:
        notes.append(
            f"{format_count(found.copies)} more outputs are copies of these, word for word: they are in no "
            "number."
        )
    if found.unseen:
        notes.append(f"In no number: {_unseen_words(found)}.")
    if found.masked:
        notes.append(
            f"{found.masked} outputs had already been stopped by the server's own repetition detection."
        )
    if found.aborted:
        notes.append(
            f"stresstest had aborted {found.aborted} of the {found.degenerate} degenerate outputs; for "
            f"them, the saving is a lower bound."
        )
    return notes


def _interval_words(found: AuditResult) -> str:
    if found.prompts >= found.streams:
        return "Intervals are exact, 95 %."
    return (
        f"The outputs are of {format_count(found.prompts)} prompts, each in one half alone; the 95 % "
        "intervals take outputs of one prompt as a cluster."
    )


def print_audit(console: Console, found: AuditResult) -> None:
    """Print the table, the request body to send, and the tokens per delivered answer of each policy."""
    from rich.table import Table
    from rich.text import Text

    chosen = found.chosen
    console.print(
        Text(
            f"{format_count(found.streams)} outputs, {found.degenerate} degenerate, {found.loops} of them "
            "looping",
            style="bold",
        )
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stopped by")
    for name in _columns(chosen.detector):
        table.add_column(name, justify="right")
    for name, audit in _rows(chosen):
        table.add_row(Text(name), *(Text(cell) for cell in _columns(audit).values()))
    console.print(table)
    good = found.usable is not None and chosen.bounded
    console.print(Text(verdict(found), style="bold" if good else "yellow"))
    if found.usable is not None:
        body = json.dumps({"repetition_detection": found.usable.to_body()})
        console.print(Text(f"  {body}"), soft_wrap=True)
    print_deliveries(console, found.taxes)
    for remark in remarks(found):
        console.print(Text(remark, style="dim"))
    console.print(Text(conclusion(found), style="bold"))


def _columns(audit: MitigationAudit) -> dict[str, str]:
    """The cells of one policy by column; other failures only if there are any."""
    share = percent(audit.saved / audit.tokens if audit.tokens else None)
    return {
        "loops caught": _share_words(audit.caught),
        **({"other failures": _share_words(audit.other)} if audit.other.n else {}),
        "healthy stopped": _share_words(audit.stopped),
        "before onset": _share_words(audit.early),
        "tokens saved": f"{format_count(audit.saved)} ({share})",
        "lost": format_count(audit.lost),
    }


def _rows(chosen: ChosenSetting) -> list[tuple[str, MitigationAudit]]:
    rows = [(f"vLLM {_words(setting)}", audit) for setting, audit in chosen.usual]
    if chosen.setting is not None and chosen.audit is not None:
        name = "best" if chosen.bounded else "candidate"
        rows.append((f"vLLM {_words(chosen.setting)} ({name})", chosen.audit))
    return [*rows, ("stresstest's detector, online", chosen.detector)]


def _words(setting: RepetitionSetting) -> str:
    return f"{setting.min_pattern_size}–{setting.max_pattern_size} × {setting.min_count}"


def _share_words(share: BinomialShare) -> str:
    if not share.n:
        return "none seen"
    digits = 2 if share.hi < 0.05 else 0
    return f"{share.k}/{share.n} ({100 * share.lo:.{digits}f}–{percent(share.hi, digits)})"
