"""`runs list --json`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from stresstest.store import RunSummary


def runs_document(
    rows: Sequence[RunSummary], refused: Collection[str], overruling: Mapping[str, str]
) -> dict[str, Any]:
    """``runs list --json``. refused: ids of runs that a check has refused. overruling: by the ids of runs
    whose limits are not in force, the run that speaks against each."""
    return {
        "runs": [
            {
                "run_id": row.id,
                "subject": asdict(row.subject),
                "simulated": row.simulated,
                "rigor": row.rigor,
                "status": str(row.status),
                "refused": row.id in refused,
                "created": row.created,
                "generations": row.generations,
                "onsets": row.degenerate,
                "lost": row.lost,
                "tokens_spent": row.output_tokens,
                "seconds": row.seconds,
                "safe_max_tokens": None if row.id in overruling else row.safe_max_tokens,
                "overruled_by": overruling.get(row.id),
                "concurrency": row.concurrency,
                "holds_up_to": row.holds_up_to,
                "unfit": row.threshold is not None and row.threshold.unfit,
                "note": row.note,
                "decoding": row.decoding.given(),
                "parent": row.parent,
                "sweep": row.sweep,
            }
            for row in rows
        ]
    }
