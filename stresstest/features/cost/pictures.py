"""Pictures of the cost of loops, PNG or SVG: a timeline of requests, and box plots of healthy durations.

They need matplotlib, an optional dependency. The colours are those of Okabe and Ito, distinct for every kind
of colour vision; loops are hatched as well. Math text is off, since names of files and models may
contain "$".
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stresstest.economics.timeline import group_spans_by_batch, loop_interval
from stresstest.errors import UsageError
from stresstest.model.cost import Cost, CostArm, RequestSpan
from stresstest.output_file import refuse_overwriting
from stresstest.own_process import outside_folder
from stresstest.render.text import duration, single_line, subject_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE_SUFFIXES = (".png", ".svg")
HEALTHY, LOOPING, BROKEN, UNKNOWN, CAPPED = "#56B4E9", "#D55E00", "#E69F00", "#BBBBBB", "#009E73"
DARK, PALE = "#222222", "#E6E6E6"
_MOST_BARS = 600
"""Most requests that are drawn."""
_THICK = 0.78
_TITLE_LENGTH = 88
_THIN_FROM = 150
"""Number of requests above which the bars are too thin for hatching."""
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


def require_picture_support(path: str) -> Path:
    """The path of the picture. Raises UsageError for another file type, or without matplotlib."""
    target = Path(path)
    if target.suffix.lower() not in PICTURE_SUFFIXES:
        raise UsageError(f"--picture {path}: its name must end in {' or '.join(PICTURE_SUFFIXES)}.")
    if not target.parent.is_dir():
        raise UsageError(f"--picture {path}: the folder {target.parent} does not exist.")
    refuse_overwriting(target)
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            "--picture needs the library matplotlib, which is not installed.",
            hint="Install it with: pip install matplotlib",
        )
    return target


def write_picture(cost: Cost, path: Path) -> None:
    """Draw the timeline above, the healthy durations below. Raises UsageError when the file cannot be written
    or there is no request."""
    mpl = import_matplotlib()
    shown = first_batch(cost.spans)
    if not shown:
        raise UsageError("No request to draw.")
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # for scripts that the font lacks
        mpl.rcdefaults()  # a program that has the library loaded may want LaTeX for its own
        mpl.rcParams.update(_STYLE)
        figure = _figure(cost, shown)
        try:
            figure.savefig(path, dpi=144, metadata=_metadata(path))
        except OSError as error:
            raise UsageError(f"--picture {path} cannot be written: {error.strerror or error}.") from None


def import_matplotlib() -> Any:
    """The library, with its own settings, not those of the current folder, which are partly code, or of the
    user, who may want LaTeX that is not there. A backend that the environment names (Jupyter's) may not be
    there either, and is not used: nothing is shown."""
    spec = importlib.util.find_spec("matplotlib")
    own = None if spec is None or spec.origin is None else Path(spec.origin).parent / "mpl-data/matplotlibrc"
    settings = {"MPLBACKEND": None, "MATPLOTLIBRC": None if own is None else str(own)}
    with _environment(settings), outside_folder():
        import matplotlib as mpl
    return mpl


@contextmanager
def _environment(settings: Mapping[str, str | None]) -> Iterator[None]:
    """The environment with other settings meanwhile; None: without one."""
    before = {name: os.environ.pop(name, None) for name in settings}
    os.environ |= {name: value for name, value in settings.items() if value is not None}
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def first_batch(spans: Sequence[RequestSpan]) -> list[RequestSpan]:
    """The requests of the first batch with running loops, in the order they were sent."""
    running_on = [span for span in spans if span.arm != CostArm.CAPPED]
    groups = list(group_spans_by_batch(running_on).values())
    first = next(
        (group for group in groups if any(loop_interval(s) for s in group)), groups[0] if groups else []
    )
    return sorted(first, key=lambda span: span.submitted)[:_MOST_BARS]


def _figure(cost: Cost, shown: Sequence[RequestSpan]) -> Figure:
    # Without pyplot: no window, no global state.
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
        _draw_boxes(axes[1], groups, cost)
    return figure


def _title(cost: Cost) -> str:
    what = subject_name(cost.subject) if cost.subject is not None else cost.source or "requests"
    text = single_line(f"What loops cost: {what}")
    simulated = " (simulated)" if cost.simulated else ""
    return (text if len(text) <= _TITLE_LENGTH else text[: _TITLE_LENGTH - 1] + "…") + simulated


def _timeline(axes: Axes, shown: Sequence[RequestSpan], cost: Cost) -> None:
    first = shown[0].submitted
    thick = max(_THICK, len(shown) / _THIN_FROM)  # loops must stay visible between thin bars
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
    axes.set_xlim(0, max(span.end for span in shown) - first or 1)  # a log may give all the same time
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


def _legend(axes: Axes, shown: Sequence[RequestSpan]) -> None:
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


def _colour(span: RequestSpan) -> str:
    if span.failure is not None:
        return BROKEN
    if span.degenerate is True or span.planted:
        return HEALTHY if loop_interval(span) is not None else BROKEN
    return UNKNOWN if span.degenerate is None else HEALTHY


Group = tuple[str, list[float], str]
"""Name, seconds of healthy requests, colour."""


def box_groups(spans: Sequence[RequestSpan]) -> list[Group]:
    """Durations in seconds of two comparable groups of healthy requests; [] when one of them is empty.

    Pairs of batches: the same requests in both arms. One batch: requests that overlapped a loop and those
    that did not, which proves no causation.
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


def _draw_boxes(axes: Axes, groups: Sequence[Group], cost: Cost) -> None:
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
    """Metadata without date and machine, so that the same account gives the same file."""
    return {"Date": None, "Creator": None} if path.suffix.lower() == ".svg" else {"Software": "stresstest"}
