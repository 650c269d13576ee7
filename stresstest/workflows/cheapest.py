"""The cheapest cap beside the certified one: from the latest `cost` of the same subject, if any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stresstest.economics.optimum import Attempt, Cheapest, ending_of, optimum
from stresstest.model import DocumentKind, Subject
from stresstest.model.cost import CostArm
from stresstest.store import StoredThreshold
from stresstest.store.repository import Store


def cheapest_caps(store: Store, rows: Sequence[StoredThreshold]) -> list[Cheapest]:
    """One for each subject of the rows that has a stored cost with enough healthy answers: its newest."""
    wanted = {(row.subject, row.simulated) for row in rows}
    found: list[Cheapest] = []
    for stored in store.documents(kind=DocumentKind.COST) if wanted else []:
        subject = _subject(stored.body)
        if subject is None or (subject, stored.simulated) not in wanted:
            continue
        best = optimum(list(attempts_of_document(stored.body)))
        if best is not None:
            wanted.discard((subject, stored.simulated))
            safe = _safe(rows, subject, stored.simulated)
            found.append(Cheapest(subject, best, stored.id, stored.simulated, safe))
    return found


def _safe(rows: Sequence[StoredThreshold], subject: Subject, simulated: bool) -> int | None:
    """The smallest certified limit of a subject, whatever its decoding: a cost does not say which it had."""
    own = (row.safe_max_tokens for row in rows if (row.subject, row.simulated) == (subject, simulated))
    return min((limit for limit in own if limit is not None), default=None)


def attempts_of_document(body: Mapping[str, Any]) -> Iterator[Attempt]:
    """The requests of a stored `cost --json` as attempts: natural ones, judged and not lost, uncapped arm."""
    for row in body.get("timeline") or ():
        natural = row["arm"] != CostArm.CAPPED and not row["planted"]
        if natural and row["failure"] is None and row["degenerate"] is not None and row["output_tokens"]:
            ending = ending_of(degenerate=row["degenerate"], capped=row["capped"])
            yield Attempt(row["output_tokens"], ending)


def _subject(body: Mapping[str, Any]) -> Subject | None:
    found = body.get("subject")
    return Subject(found["model"], found["task"], found["language"]) if found else None
