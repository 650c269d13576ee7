"""How many requests degenerate: both definitions, with exact intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stresstest.model.cost import Ratio, Span
from stresstest.threshold.proportion import clustered_interval, effective_size


def degeneration_rate(spans: Iterable[Span]) -> Ratio | None:
    """Share of the judged requests with an onset; None where none was judged. Stand-ins are left out."""
    return _share(spans, lambda span: span.degenerate)


def dharma_rate(spans: Iterable[Span]) -> Ratio | None:
    """The same by the source's production definition: ended by the cap, and repetition at the tail."""
    return _share(spans, lambda span: span.dharma)


def _share(spans: Iterable[Span], of: Callable[[Span], bool | None]) -> Ratio | None:
    """Clopper-Pearson over requests; over distinct prompts where some were sent several times."""
    judged = [s for s in spans if not s.planted and s.failure is None and of(s) is not None]
    if not judged:
        return None
    hits = sum(of(s) is True for s in judged)
    size, n = effective_size(_clusters(judged, of))
    lo, hi = clustered_interval(hits, n, size / n)
    how = "Clopper-Pearson" if size == n else f"Clopper-Pearson at the effective size {size:.0f}"
    return Ratio(hits / n, lo, hi, n, how)


def _clusters(spans: Sequence[Span], of: Callable[[Span], bool | None]) -> list[tuple[int, int]]:
    found: dict[str, list[int]] = {}
    for number, span in enumerate(spans):
        group = found.setdefault(span.cluster or f"#{number}", [0, 0])
        group[0] += of(span) is True
        group[1] += 1
    return [(hits, size) for hits, size in found.values()]
