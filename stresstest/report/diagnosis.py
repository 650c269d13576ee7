"""A diagnosis on the terminal, as JSON and as Markdown. Computes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.diagnosis.wording import decoding_words, split_sentence
from stresstest.model import ArmResult, Change, Diagnosis, Link, Remedy, RunResult
from stresstest.report.document import empty_document, run_document
from stresstest.report.markdown import bullets, grid, inline
from stresstest.report.text import NOT_MEASURED, SIMULATED_WARNING, clean, count

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = ("changed", "n", "failed", "p", "clears", "symptoms")


def diagnosis_document(found: Diagnosis, result: RunResult) -> dict[str, Any]:
    """DESIGN's ``diagnose --json``: run's keys, the chain, and what it recommends. The verdict is the chain's
    first link."""
    document = run_document(result)
    if found.chain:
        first = found.chain[0]
        document["verdict"] |= {
            "plane": first.plane and str(first.plane),
            "basis": first.basis and str(first.basis),
            "sentence": found.sentence,
        }
    return document | chain_keys(found)


def empty_diagnosis_document() -> dict[str, Any]:
    """``diagnose --json`` when it was interrupted before there was a run."""
    return empty_document() | {
        "chain": [],
        "recommended_decoding": None,
        "recommended_concurrency": None,
        "recommended_max_tokens": None,
        "complete": False,
        "diagnosis_tokens": None,
        "notes": [],
    }


def chain_keys(found: Diagnosis) -> dict[str, Any]:
    """The keys that a diagnosis adds to those of its run."""
    recommended = found.recommended
    return {
        "chain": [_link(link) for link in found.chain],
        "recommended_decoding": None if recommended is None else recommended.given(),
        "recommended_concurrency": found.concurrency,
        "recommended_max_tokens": found.safe_max_tokens,
        "complete": found.complete,
        "diagnosis_tokens": {
            "arms": found.arm_tokens,
            "unmasking": found.child_tokens,
            "run": found.run_tokens,
        },
        "notes": list(found.notes),
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "plane": link.plane and str(link.plane),
        "basis": link.basis and str(link.basis),
        "symptom": link.symptom and str(link.symptom),
        "median_onset": link.median_onset,
        "cleared_by": link.cleared_by,
        "arms": [_arm(arm) for arm in link.arms],
        "run_id": link.run_id,
        "n": link.n,
        "symptoms": dict(link.kinds),
        "lacking": link.lacking,
        "sentence": link.sentence,
        "position_in_context": link.position,
        "from_scratch": link.from_scratch,
        "why": None if link.why is None else asdict(link.why),
        "ablations": [asdict(ablation) for ablation in link.ablations],
        "remedy": None if link.remedy is None else _remedy(link.remedy),
        "notes": list(link.notes),
    }


def _remedy(remedy: Remedy) -> dict[str, Any]:
    """The sentence anew: one that an earlier version stored may claim more than its counts show."""
    return asdict(remedy) | {"sentence": split_sentence(remedy)}


def _arm(arm: ArmResult) -> dict[str, Any]:
    return {
        "name": arm.name,
        "plane": arm.plane and str(arm.plane),
        "changed": arm.changed,
        "n": arm.n,
        "failed": arm.failed,
        "p": None if arm.plane is None else arm.p,
        "clears": arm.clears,
        "failed_unchanged": arm.unchanged_failed,
        "decided_early": arm.decided_early,
        "symptoms": dict(arm.symptoms),
        "median_onset": arm.median_onset,
        "lost": arm.lost,
        "ended_short": arm.short,
        "tokens": arm.tokens,
        "effects": [asdict(effect) for effect in arm.effects],
    }


def recommendation(found: Diagnosis) -> list[str]:
    """What to do, one line each."""
    lines = []
    if found.recommended is not None:
        lines.append(f"decoding: {decoding_words(found.recommended)}")
    if found.concurrency is not None:
        lines.append(
            f"requests in flight: {found.concurrency} (what was shown to clear, not the most possible)"
        )
    if found.safe_max_tokens is not None:
        lines.append(
            f"max_tokens under it: {count(found.safe_max_tokens)} (run {found.safe_run}, rigor quick)"
        )
    remedies = [link.remedy for link in found.chain if link.remedy is not None]
    return [*lines, *(f"for longer outputs: {split_sentence(remedy)}" for remedy in remedies)]


def cost_line(found: Diagnosis) -> str:
    """Tokens, beside those of the run."""
    run = found.run_tokens
    ratio = f" ({found.arm_tokens / run:.1f} times the run's)" if run else ""
    climbing = f", {count(found.child_tokens)} for climbing on" if found.child_tokens else ""
    return (
        f"{count(found.arm_tokens + found.child_tokens)} output tokens beside the run's {count(run)}: "
        f"{count(found.arm_tokens)} for interventions{ratio}{climbing}"
    )


def effect_words(change: Change) -> str:
    """ "entropy (nats): 0.78 → 0.79 (p = 0.11, n = 23)"; not measured is –."""
    if change.before is None or change.after is None:
        return f"{change.what}: {NOT_MEASURED}"
    p = NOT_MEASURED if change.p is None else f"{change.p:.2g}"
    return f"{change.what}: {change.before:.2f} → {change.after:.2f} (p = {p}, n = {change.n})"


def details(link: Link) -> list[str]:
    """What is known of a link beside its arms: why, ablations, side effects, notes."""
    lines = [link.why.sentence] if link.why is not None else []
    lines += [ablation.sentence for ablation in link.ablations]
    for arm in link.arms:
        if arm.clears and arm.effects:
            lines.append(f"under {arm.changed}: " + "; ".join(effect_words(e) for e in arm.effects))
    if link.position is not None:
        lines.append(f"median place in the context (prompt + onset): {count(link.position)} tokens")
    return [*lines, *link.notes]


def print_diagnosis(console: Console, found: Diagnosis, result: RunResult) -> None:
    """The chain, then each link's arms, why, what to do, and what it cost."""
    from rich.panel import Panel
    from rich.text import Text

    if result.run.profile.simulated:
        console.print(Text(SIMULATED_WARNING, style="bold yellow"))
    good = found.conclusive and bool(found.chain)
    title = "diagnosis" if found.complete else "diagnosis, not complete"
    body = Text(
        "\n→ ".join(clean(link.sentence) for link in found.chain) or clean(found.sentence), style="bold"
    )
    console.print(Panel(body, title=title, border_style="green" if good else "yellow"))
    for number, link in enumerate(found.chain, 1):
        _print_link(console, number, link)
    for line in recommendation(found):
        console.print(Text(f" → {clean(line)}", style="cyan"))
    for note in found.notes:
        console.print(Text(f"note: {clean(note)}", style="yellow"))
    console.print(Text(cost_line(found), style="dim"))


def _print_link(console: Console, number: int, link: Link) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(Text(f"\n{number}. {clean(link.sentence)}", style="bold"))
    if link.arms:
        rows = Table(box=None, padding=(0, 1), header_style="bold")
        for name in _COLUMNS:
            rows.add_column(name, justify="right" if name in ("n", "failed", "p") else "left")
        for arm in link.arms:
            rows.add_row(*(Text(clean(cell)) for cell in arm_row(arm)), style="green" if arm.clears else "")
        console.print(rows)
    for line in details(link):
        console.print(Text(f"   {clean(line)}", style="dim"))


def arm_row(arm: ArmResult) -> tuple[str, ...]:
    """One line of the table of arms."""
    kinds = [f"{kind.replace('_', ' ')} {n}" for kind, n in arm.symptoms.items()]
    kinds += [f"(ended short {arm.short})"] if arm.short else []
    what = ", ".join(kinds) or NOT_MEASURED
    if arm.plane is None:
        return f"{arm.changed} (unchanged)", str(arm.n), str(arm.failed), NOT_MEASURED, NOT_MEASURED, what
    clears = "clears" if arm.clears else "no, stopped early" if arm.decided_early else "no"
    return arm.changed, str(arm.n), str(arm.failed), f"{arm.p:.2g}", clears, what


def diagnosis_markdown(found: Diagnosis) -> str:
    """The diagnosis as a section of a run's report."""
    parts = ["## Diagnosis", f"**{inline(found.sentence)}**"]
    if not found.complete:
        parts.append("The diagnosis is not complete; `stresstest diagnose` goes on with it.")
    for number, link in enumerate(found.chain, 1):
        parts.append(f"### {number}. {inline(link.sentence)}")
        if link.arms:
            parts.append(grid(_COLUMNS, [tuple(inline(cell) for cell in arm_row(arm)) for arm in link.arms]))
        parts.append(bullets(details(link)))
    advice = recommendation(found)
    if advice:
        parts += ["### What to do", bullets(advice)]
    parts.append(inline(cost_line(found)) + ".")
    return "\n\n".join(part for part in parts if part)
