"""docs/results/leaderboard.md and its picture, from verdicts, AlpacaEval's win rates and readers' labels."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from scipy.stats import fisher_exact, spearmanr

from benchmarks.leaderboard import Judged, Model
from benchmarks.leaderboard_reading import Precision, kept_models, read_labels
from benchmarks.pages import DOCS, table, write_section
from stresstest.detectors.registry import symptom_info

PAGE = "results/leaderboard.md"
PICTURE = (DOCS / PAGE).with_suffix(".png")
LEVEL = 0.01
SHOWN_PAIRS = 25
GROUPS = {
    "all": "",
    "of the twenty worst models": "worst",
    "of twenty random others": "random",
    "of twenty more, read later": "later",
    "of all the rest, read last": "rest",
}
"""Rows of the table of precision, and the group of `models.json` that each is of."""
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models of equal quality. p: Fisher's, two-sided, after Holm's correction for all such pairs."""

    calm: Model
    loose: Model
    p: float


def equal_pairs(ranked: Sequence[Model]) -> tuple[list[Pair], int]:
    """(pairs of equal quality whose rates differ, all pairs of equal quality).

    Equal: the 95 % intervals of the win rates overlap. (Most length-controlled ones are published without an
    error.)
    """
    rated = [model for model in ranked if _spread(model) is not None]
    found = []
    for one, other in combinations(rated, 2):
        (low, high), (low2, high2) = _spread(one) or (0, 0), _spread(other) or (0, 0)
        if low <= high2 and low2 <= high:
            calm, loose = sorted((one, other), key=lambda model: model.rate)
            counts = [[m.degenerate, m.outputs - m.degenerate] for m in (calm, loose)]
            found.append((float(fisher_exact(counts).pvalue), calm, loose))
    found.sort(key=lambda entry: entry[0])
    kept, worst = [], 0.0
    for n, (p, calm, loose) in enumerate(found):
        worst = max(worst, min(1.0, p * (len(found) - n)))
        if worst >= LEVEL:
            break
        kept.append(Pair(calm, loose, worst))
    return kept, len(found)


def _spread(model: Model) -> tuple[float, float] | None:
    quality = model.quality
    if quality is None:
        return None
    around = 1.96 * quality.win_error
    return quality.win_rate - around, quality.win_rate + around


def size(name: str) -> float | None:
    """Billions of parameters, where the name tells just one size."""
    found = set(_SIZE.findall(name))
    return float(found.pop()) if len(found) == 1 else None


def families(ranked: Iterable[Model]) -> list[list[tuple[float, Model]]]:
    """Models whose names differ in the size alone, from small to large."""
    of = defaultdict[str, list[tuple[float, Model]]](list)
    for model in ranked:
        parameters = size(model.name)
        if parameters is not None:
            of[_SIZE.sub("#", model.name).lower()].append((parameters, model))
    return [sorted(found, key=lambda entry: entry[0]) for _, found in sorted(of.items()) if len(found) > 1]


def share(model: Model) -> str:
    low, high = model.interval
    return f"{100 * model.rate:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def precision_rows(judged: Sequence[Judged]) -> str:
    """Precision by reader: of all outputs that were flagged and read, by symptom, and of random models."""
    chosen = kept_models()
    of_model = {name: group for group, names in chosen.items() for name in names}
    flagged = [each for each in judged if each.symptom is not None and each.model in of_model]
    a, b, third = read_labels("a"), read_labels("b"), read_labels("c")
    agreed = {key: a[key] for key in a.keys() & b.keys() if a[key] == b[key]}
    settled = agreed | {key: third[key] for key in third if key not in agreed}
    parts = {
        title: [e for e in flagged if group in ("", of_model[e.model])] for title, group in GROUPS.items()
    }
    symptoms = Counter(each.symptom for each in flagged)
    for symptom, _ in symptoms.most_common():
        if symptom is not None:
            parts[symptom_info(symptom).label] = [e for e in flagged if e.symptom == symptom]
    readers = {"reader a": a, **({"reader b": b, "settled": settled} if b else {})}
    rows = [
        [name, *(str(Precision.of([e.key for e in of], labels)) for labels in readers.values())]
        for name, of in parts.items()
    ]
    text = table(["flagged outputs", *(f"right, {name}" for name in readers)], rows)
    healthy = {each.key for each in judged if each.symptom is None}
    missed = [key for key in a if key in healthy and a[key]]
    controls = sum(key in healthy for key in a)
    said = f"Of the {controls} controls that nothing was found in, reader a calls {len(missed)} degenerate."
    return f"{text}\n\n{said}"


def correlation(ranked: Sequence[Model]) -> str:
    rated = [(model, model.quality) for model in ranked if model.quality is not None]
    by_quality = spearmanr([m.rate for m, _ in rated], [q.controlled for _, q in rated])
    by_length = spearmanr([m.rate for m in ranked], [m.characters for m in ranked])
    sized = [(m, s) for m in ranked if (s := size(m.name)) is not None]
    by_size = spearmanr([m.rate for m, _ in sized], [s for _, s in sized])
    clean = sum(model.degenerate == 0 for model in ranked)
    total, failing = sum(m.outputs for m in ranked), sum(m.degenerate for m in ranked)
    half = next(n for n in range(len(ranked)) if sum(m.degenerate for m in ranked[: n + 1]) >= failing / 2)
    return (
        f"{failing:,} of {total:,} outputs of {len(ranked)} models degenerate; half of them come from "
        f"{half + 1} models, and {clean} models have none. Rank correlation of the rate with the "
        f"length-controlled win rate: ρ = {by_quality.statistic:+.2f} (p = {by_quality.pvalue:.1g}, "
        f"{len(rated)} models); with the mean length: ρ = {by_length.statistic:+.2f} "
        f"(p = {by_length.pvalue:.1g}); with the size, where the name tells it: ρ = {by_size.statistic:+.2f} "
        f"(p = {by_size.pvalue:.1g}, {len(sized)} models)."
    )


def pair_rows(ranked: Sequence[Model]) -> str:
    pairs, tested = equal_pairs(ranked)
    pairs.sort(key=lambda pair: (-(pair.loose.degenerate + 0.5) / (pair.calm.degenerate + 0.5), pair.p))
    rows: list[list[str]] = []
    seen = Counter[str]()
    for pair in pairs:
        if seen[pair.loose.name] < 2 and seen[pair.calm.name] < 2 and len(rows) < SHOWN_PAIRS:
            seen.update((pair.loose.name, pair.calm.name))
            rows.append([*_side(pair.calm), *_side(pair.loose), f"{pair.p:.1g}"])
    many = sum(pair.loose.rate >= 10 * pair.calm.rate for pair in pairs)
    return (
        f"Of {tested:,} pairs of equal quality (the 95 % intervals of their win rates overlap) "
        f"{len(pairs):,} differ in their rates with p < {LEVEL} (Fisher's exact test, two-sided, Holm's "
        f"correction for all {tested:,}); in {many:,} of those the one degenerates at least ten times as "
        "often as the other. Some of them, no model more than twice:\n\n"
        + table(["model", "win rate (l. c.)", "rate", "model", "win rate (l. c.)", "rate", "p"], rows)
    )


def _side(model: Model) -> list[str]:
    quality = model.quality
    wins = "–" if quality is None else f"{quality.win_rate:.1f} ({quality.controlled:.1f})"
    return [model.name, wins, f"{100 * model.rate:.1f} %"]


def family_rows(ranked: Sequence[Model]) -> str:
    rows = [
        [_SIZE.sub("…", found[0][1].name), ", ".join(f"{s:g}B {100 * m.rate:.1f} %" for s, m in found)]
        for found in families(ranked)
    ]
    return table(["family", "rate by size"], rows)


def model_rows(ranked: Sequence[Model]) -> str:
    rows = []
    for model in ranked:
        quality, found = model.quality, model.symptoms
        drift = found.get("language_drift", 0)
        rest = ", ".join(
            f"{symptom_info(kind).label} {n}" for kind, n in found.most_common() if kind != "language_drift"
        )
        rows.append(
            [
                model.name,
                f"{model.degenerate} of {model.outputs}",
                share(model),
                str(drift or "0"),
                rest or "–",
                f"{model.characters:,.0f}",
                "–" if quality is None else f"{quality.win_rate:.1f}",
                "–" if quality is None else f"{quality.controlled:.1f}",
            ]
        )
    head = [
        "model",
        "degenerate",
        "rate (95 %)",
        "drift",
        "other symptoms",
        "characters",
        "win rate",
        "l. c.",
    ]
    return table(head, rows)


def draw(ranked: Sequence[Model]) -> None:
    """The scatter of quality against rate; models without any stand at the bottom."""
    from matplotlib import pyplot

    rated = [(model, model.quality) for model in ranked if model.quality is not None]
    figure, axes = pyplot.subplots(figsize=(8, 5))
    floor = 0.06
    axes.scatter(
        [q.controlled for _, q in rated],
        [max(100 * m.rate, floor) for m, _ in rated],
        s=[8 + m.characters / 80 for m, _ in rated],
        alpha=0.5,
        linewidths=0,
    )
    for model, quality in sorted(rated, key=lambda entry: -entry[0].rate)[:8]:
        axes.annotate(
            model.name,
            (quality.controlled, 100 * model.rate),
            fontsize=7,
            xytext=(5, 3),
            textcoords="offset points",
        )
    axes.set_yscale("log")
    axes.set_yticks([floor, 0.1, 0.3, 1, 3, 10, 30], ["0", "0.1", "0.3", "1", "3", "10", "30"])
    axes.minorticks_off()
    axes.set_xlabel("length-controlled win rate of AlpacaEval 2, %")
    axes.set_ylabel("degenerate outputs, %")
    axes.set_title("The size of a dot: mean length of the outputs", fontsize=9)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=100)
    pyplot.close(figure)


def write_page(judged: Sequence[Judged], ranked: Sequence[Model]) -> None:
    """Draw the picture and write the sections of the page."""
    draw(ranked)
    sections = {
        "precision": precision_rows(judged),
        "overview": correlation(ranked),
        "pairs": pair_rows(ranked),
        "families": family_rows(ranked),
        "models": model_rows(ranked),
    }
    for name, text in sections.items():
        write_section(PAGE, name, text)
