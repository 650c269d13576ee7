"""The cheapest cap beside the certified one, from the latest `cost` of the same subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stresstest.economics.optimum import CheapestCap, CostAttempt, attempts_from_spans, find_cheapest_cap
from stresstest.model import DocumentKind, Subject
from stresstest.model.cost import CostArm, RequestSpan
from stresstest.model.percent import percent
from stresstest.render.cap_cost import optimum_document
from stresstest.render.text import single_line, subject_name
from stresstest.store import StoredThreshold
from stresstest.store.repository import Store

if TYPE_CHECKING:
    from rich.console import Console


def find_cheapest_caps(store: Store, rows: Sequence[StoredThreshold]) -> list[CheapestCap]:
    """The cheapest cap of each subject, from its newest stored cost with enough healthy answers, under a
    decoding of the rows. Costs of earlier versions do not name theirs."""
    pending = {(row.subject, row.simulated) for row in rows}
    decodings = [(row.subject, row.decoding.given()) for row in rows]
    found: list[CheapestCap] = []
    for stored in store.documents(kind=DocumentKind.COST) if pending else []:
        with stored.reading() as body:
            subject = _subject(body)
            if subject is None or (subject, stored.simulated) not in pending:
                continue
            if body.get("decoding") is not None and (subject, body["decoding"]) not in decodings:
                continue
            attempts = attempts_from_document(body)
        best = find_cheapest_cap(attempts)
        if best is not None:
            pending.discard((subject, stored.simulated))
            safe = _smallest_certified(rows, subject, stored.simulated)
            found.append(CheapestCap(subject, best, stored.id, stored.simulated, safe))
    return found


def _smallest_certified(rows: Sequence[StoredThreshold], subject: Subject, simulated: bool) -> int | None:
    """The smallest certified limit of a subject, under any decoding of the rows."""
    own = (row.limit for row in rows if (row.subject, row.simulated) == (subject, simulated))
    return min((limit for limit in own if limit is not None), default=None)


def attempts_from_document(body: Mapping[str, Any]) -> list[CostAttempt]:
    """The requests of a stored cost as attempts: uncapped, not planted, with a known outcome."""
    natural = (
        RequestSpan(
            id="",
            submitted=0.0,
            end=0.0,
            output_tokens=row["output_tokens"],
            degenerate=row["degenerate"],
            capped=row["capped"],
            failure=row["failure"],
            cluster=row.get("cluster") or "",
        )
        for row in body.get("timeline") or ()
        if row["arm"] != CostArm.CAPPED and not row["planted"]
    )
    return attempts_from_spans(natural)


def _subject(body: Mapping[str, Any]) -> Subject | None:
    found = body.get("subject")
    return Subject(found["model"], found["task"], found["language"]) if found else None


def cheapest_documents(found: Sequence[CheapestCap]) -> list[dict[str, Any]]:
    """One document per subject, with the curve and the id of the stored cost."""
    return [
        {
            "subject": asdict(each.subject),
            "simulated": each.simulated,
            "cost": each.document,
            "optimum": optimum_document(each.optimum),
            "safe_max_tokens": each.safe,
            "above_safe": each.above_safe,
        }
        for each in found
    ]


def print_cheapest(console: Console, found: Sequence[CheapestCap]) -> None:
    """Print one sentence per subject."""
    from rich.text import Text

    for each in found:
        source = f"(cost {single_line(each.document)}{', simulated' if each.simulated else ''})"
        console.print(
            Text(f"{single_line(subject_name(each.subject))}: {_sentence(each)} {source}", style="dim")
        )


def _sentence(each: CheapestCap) -> str:
    best = each.optimum
    if best.lacking is not None:
        return best.lacking
    prompts = f" of {best.prompts:,} prompts" if best.prompts < best.n else ""
    words = (
        f"cheapest max_tokens {best.cap:,} ({best.lo:,}–{best.hi:,} in 95 % of resamples{prompts}): "
        f"{best.best.tokens:,.0f} tokens per useful answer, {percent(best.saved, 1)} less than at "
        f"{best.uncapped.cap:,}. It is modelled, not certified."
    )
    if each.above_safe and each.safe is not None:
        words += f" It is above the safe max_tokens, {each.safe:,}, which stays the limit."
    return words
