"""Pictures of what loops cost, PNG or SVG: the timeline of requests, and healthy durations with and without.

matplotlib draws them; it is an extra. Colours are Okabe and Ito's, apart for every kind of colour vision;
what is red is hatched too. Names of files and models come from elsewhere: nothing in them is mathematics.
"""

from __future__ import annotations

import importlib.util
import statistics
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stresstest.economics.timeline import batches, loop_interval
from stresstest.errors import UsageError
from stresstest.model.cost import Cost, CostArm, Span
from stresstest.report.text import clean, duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".png", ".svg")
HEALTHY, LOOPING, BROKEN, UNKNOWN, CAPPED = "#56B4E9", "#D55E00", "#E69F00", "#BBBBBB", "#009E73"
DARK, PALE = "#222222", "#E6E6E6"
_MOST_BARS = 600
"""Requests that are drawn one by one; of more, the first batch is enough to see."""
_THICK = 0.78
_THIN_FROM = 150
"""Requests from which on their bars are too thin to be hatched."""
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": DARK,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "stresstest",
    "hatch.linewidth": 0.6,
}


def require_pictures(path: str) -> Path:
    """Where a picture is to be written. UsageError for another kind of file, or without matplotlib."""
    target = Path(path)
    if target.suffix.lower() not in KINDS:
        raise UsageError(f"--picture {path}: its name must end in {' or '.join(KINDS)}.")
    if not target.parent.is_dir():
        raise UsageError(f"--picture {path}: there is no folder {target.parent}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            "--picture needs the library matplotlib, which is not installed.",
            hint="Install it with: pip install 'stresstest[pictures]'",
        )
    return target


def write_picture(cost: Cost, path: Path) -> None:
    """Draw the account of requests: timeline above, healthy durations below. UsageError when nothing can be
    written there, or nothing was seen."""
    import matplotlib as mpl

    shown = first_batch(cost.spans)
    if not shown:
        raise UsageError("There is no request to draw.")
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a name in a script that the font has not
        figure = _figure(cost, shown)
        try:
            figure.savefig(path, dpi=144, metadata=_metadata(path))
        except OSError as error:
            raise UsageError(f"--picture {path} cannot be written: {error.strerror or error}.") from None


def first_batch(spans: Sequence[Span]) -> list[Span]:
    """The requests of the first batch in which loops ran on, in the order of their sending."""
    running_on = [span for span in spans if span.arm != CostArm.CAPPED]
    groups = list(batches(running_on).values())
    first = next(
        (group for group in groups if any(loop_interval(s) for s in group)), groups[0] if groups else []
    )
    return sorted(first, key=lambda span: span.submitted)[:_MOST_BARS]


def _figure(cost: Cost, shown: Sequence[Span]) -> Figure:
    # The figure is made without pyplot: no window, no global state.
    from matplotlib.figure import Figure

    groups = box_groups(cost.spans)
    height = min(11.0, max(3.4, 1.4 + 0.08 * len(shown)))
    below = 1.3 + 0.62 * len(groups) if groups else 0.0
    figure = Figure(figsize=(9.6, height + below), layout="constrained")
    ratios = [height, below] if groups else [height]
    axes = figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0]
    figure.suptitle(_title(cost), fontsize=13, fontweight="bold", x=0.01, ha="left", color=DARK)
    _timeline(axes[0], shown, cost)
    if groups:
        _boxes(axes[1], groups, cost)
    return figure


def _title(cost: Cost) -> str:
    what = str(cost.subject) if cost.subject is not None else cost.source or "requests"
    simulated = " (simulated)" if cost.simulated else ""
    return _short(f"What loops cost: {what}", 88) + simulated


def _timeline(axes: Axes, shown: Sequence[Span], cost: Cost) -> None:
    first = shown[0].submitted
    thick = max(_THICK, len(shown) / _THIN_FROM)  # where bars get thin, loops must still be seen
    for n, span in enumerate(shown):
        axes.barh(
            n, span.duration, left=span.submitted - first, height=_THICK, color=_colour(span), linewidth=0
        )
        found = loop_interval(span)
        if found is not None:
            left, seconds = found[0] - first, found[1] - found[0]
            look: dict[str, Any] = {"color": LOOPING, "linewidth": 0, "zorder": 3}
            if thick == _THICK:
                look |= {"hatch": "////", "edgecolor": "white"}
            axes.barh(n, seconds, left=left, height=thick, **look)
    degenerate = sum(span.degenerate is True for span in shown)
    planted = sum(span.planted for span in shown)
    stand_ins = f", {planted} stand-ins for loops" if planted else ""
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, max(span.end for span in shown) - first)
    axes.set_xlabel("seconds since the batch began")
    axes.set_ylabel("requests, in order of sending")
    axes.margins(x=0)
    last = max(s.end for s in shown) - first
    of = f" (batch 1 of {cost.batches})" if cost.batches > 1 else ""
    axes.set_title(
        f"{len(shown)} requests in {duration(last)}{of}, {degenerate} degenerate{stand_ins}",
        fontsize=10,
        loc="left",
        color=DARK,
    )
    _legend(axes, shown)


def _legend(axes: Axes, shown: Sequence[Span]) -> None:
    from matplotlib.patches import Patch

    entries: list[Any] = [Patch(color=HEALTHY, label="healthy")]
    if any(loop_interval(span) for span in shown):
        name = "stand-in for a loop" if all(s.planted for s in shown if loop_interval(s)) else "looping"
        entries.append(
            Patch(facecolor=LOOPING, hatch="////", edgecolor="white", label=f"{name}, from the onset")
        )
    for colour, label in ((BROKEN, "degenerate otherwise, or lost"), (UNKNOWN, "not judged")):
        if any(_colour(span) == colour for span in shown):
            entries.append(Patch(color=colour, label=label))
    axes.legend(handles=entries, loc="upper right", frameon=True, framealpha=0.9, edgecolor=PALE, fontsize=9)


def _bad(span: Span) -> bool:
    return span.degenerate is True or span.planted


def _colour(span: Span) -> str:
    if span.failure is not None:
        return BROKEN
    if _bad(span):
        return HEALTHY if loop_interval(span) is not None else BROKEN
    return UNKNOWN if span.degenerate is None else HEALTHY


Group = tuple[str, list[float], str]
"""Name, seconds of healthy requests, colour."""


def box_groups(spans: Sequence[Span]) -> list[Group]:
    """Durations of healthy requests that are worth comparing, in seconds.

    Pairs of batches: the very same requests in both arms. One batch: those that met a live loop and those
    that met none, which proves nothing by itself. [] when one side is empty.
    """
    arms = {arm: {(s.pair, s.id): s for s in spans if s.arm == arm and s.healthy} for arm in CostArm}
    both = arms[CostArm.LOOPS].keys() & arms[CostArm.CAPPED].keys()
    if both:
        keys = sorted(both, key=str)
        with_loops = [arms[CostArm.LOOPS][key].duration for key in keys]
        without = [arms[CostArm.CAPPED][key].duration for key in keys]
        return [("loops run on", with_loops, LOOPING), ("the same, loops cut short", without, CAPPED)]
    loops = [found for s in spans if (found := loop_interval(s)) is not None]
    met: list[float] = []
    none: list[float] = []
    for span in spans:
        if span.healthy:
            live = any(begin < span.end and span.submitted < end for begin, end in loops)
            (met if live else none).append(span.duration)
    if not met or not none:
        return []
    return [("met a live loop", met, LOOPING), ("met none", none, CAPPED)]


def _boxes(axes: Axes, groups: Sequence[Group], cost: Cost) -> None:
    drawn = axes.boxplot(
        [seconds for _, seconds, _ in groups],
        orientation="horizontal",
        widths=0.55,
        patch_artist=True,
        tick_labels=[f"{name}\nn = {len(seconds)}" for name, seconds, _ in groups],
        medianprops={"color": DARK, "linewidth": 1.6},
        flierprops={"marker": "o", "markersize": 3, "markerfacecolor": "none", "markeredgecolor": "#777777"},
    )
    for box, (_, _, colour) in zip(drawn["boxes"], groups, strict=True):
        box.set(facecolor=colour, alpha=0.75, edgecolor=DARK)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds of a healthy request")
    axes.grid(axis="x", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_title(_boxes_title(groups, cost), fontsize=10, loc="left", color=DARK)


def _boxes_title(groups: Sequence[Group], cost: Cost) -> str:
    ratio = cost.healthy_slowdown
    if ratio is not None and ratio.lo is not None and ratio.hi is not None:
        return (
            f"Healthy requests take {ratio.value:.2f} times as long (95 %: {ratio.lo:.2f} to {ratio.hi:.2f})"
        )
    one, other = (statistics.median(seconds) for _, seconds, _ in groups)
    return (
        f"Healthy requests: median {one:.2f} s against {other:.2f} s. "
        "Long ones meet a loop because they are long: no cause is shown"
    )


def _metadata(path: Path) -> dict[str, str | None]:
    """Nothing of the machine or the hour, so that the same account gives the same file."""
    return {"Date": None, "Creator": None} if path.suffix.lower() == ".svg" else {"Software": "stresstest"}


def _short(text: str, most: int) -> str:
    text = " ".join(clean(text).split())
    return text if len(text) <= most else text[: most - 1] + "…"
