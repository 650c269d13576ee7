"""Draws the live view: lines of text that fit the terminal, from one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.model import Rigor, Threshold
from stresstest.model.percent import percent
from stresstest.render.glyphs import Glyphs, allocate_cells, sparkline
from stresstest.render.live.snapshot import LiveSnapshot, OnsetExcerpt, RecentValues, RungProgress
from stresstest.render.text import duration, format_count, single_line

if TYPE_CHECKING:
    from rich.text import Text

_LABEL = 10
_TARGET = 13
_FEWEST_RUNGS = 2
_NARROW = 72
_STRIP = 16
_MAX_WIDTH = 110
"""Maximum columns; longer lines are hard to read."""


def live_view_lines(
    picture: LiveSnapshot, sample: tuple[Rigor, Threshold] | None, width: int, height: int, glyphs: Glyphs
) -> list[Text]:
    """The lines of the view: ladder, latest onsets, server, sample, time. They fit the terminal.

    sample: rigor and provisional threshold of a growing certifying sample. width, height: columns and
    lines of the terminal.
    """
    from rich.text import Text

    # A truncated line ends in an ellipsis, which takes three columns in ASCII.
    width = max(10, min(width - len(glyphs.more), _MAX_WIDTH))
    onsets = _onsets(picture.onsets, width, glyphs)
    below = [*_server(picture, width, glyphs), *_sample(picture, sample, width), *_time(picture, width)]
    room = height - 3 - len(below)
    if room < len(onsets) + _FEWEST_RUNGS:
        # On a short terminal, omit the onsets: their text is in the report.
        onsets = []
    ladder = _ladder(picture, width, max(room - len(onsets), 1), glyphs)
    # A blank line separates the view from the messages above it.
    return [Text(), *ladder, *onsets, *below][-max(height - 1, 1) :]


def _ladder(picture: LiveSnapshot, width: int, room: int, glyphs: Glyphs) -> list[Text]:
    """One line per rung; if they do not fit, the first line summarises the earlier ones."""
    from rich.text import Text

    rows = picture.rows
    if not rows:
        return [Text(f"querying the server {glyphs.more}", style="dim")]
    ahead = _upcoming_line(picture.upcoming_targets, width, glyphs) if room > 1 else []
    room -= len(ahead)
    hidden, shown = (rows[: 1 - room], rows[1 - room :]) if len(rows) > room > 1 else ((), rows[-room:])
    lines = _rungs(shown, width, glyphs)
    if hidden:
        done, failed = sum(row.done for row in hidden), sum(row.degenerate for row in hidden)
        said = f"{len(hidden)} earlier: {done} answers, {failed} degenerate"
        lines.insert(0, _cut(Text(f"{glyphs.more:<{_LABEL}}{said}", style="dim"), width))
    return [*lines, *ahead]


def _upcoming_line(targets: Sequence[int], width: int, glyphs: Glyphs) -> list[Text]:
    """The lengths of the climb's remaining rungs, on one line."""
    from rich.text import Text

    if not targets:
        return []
    counts = [format_count(target) for target in targets]
    ways = (
        f"then {', '.join(counts)} tokens, as long as answers stay healthy",
        f"then {', '.join(counts)} tokens while healthy",
        f"then up to {counts[-1]} tokens while healthy",
    )
    said = next((way for way in ways if len(way) <= width - _LABEL), ways[-1])
    return [_cut(Text(f"{glyphs.more:<{_LABEL}}{said}", style="dim"), width)]


def _rungs(rows: Sequence[RungProgress], width: int, glyphs: Glyphs) -> list[Text]:
    """Name, length, bar and counts of each rung; the longest counts determine the length of the bars."""
    from rich.text import Text

    counts = [_counts(row, narrow=width < _NARROW) for row in rows]
    bar = width - _LABEL - _TARGET - 2 - max(said.cell_len for said in counts)
    lines = []
    for row, said in zip(rows, counts, strict=True):
        room = _LABEL if row.target is not None else _LABEL + _TARGET
        line = Text(f"{single_line(row.name)[: room - 1]:<{room}}")
        if row.target is not None:
            line.append(f"{format_count(row.target):>7} tok  ", style="dim")
        line.append_text(_bar(row, max(4, min(bar, 40)), glyphs)).append("  ").append_text(said)
        lines.append(_cut(line, width))
    return lines


def _counts(row: RungProgress, *, narrow: bool) -> Text:
    from rich.text import Text

    said = Text(f"{row.done}/{row.total}", style="bold" if row.done < row.total else "")
    healthy = row.done - row.degenerate - row.lost
    if healthy and not (narrow and row.degenerate):
        said.append(f"  {healthy} healthy", style="green")
    if row.degenerate:
        said.append(f"  {row.degenerate} degenerate from {format_count(row.earliest)}", style="red")
    if row.lost:
        said.append(f"  {row.lost} lost", style="yellow")
    return said


def _bar(row: RungProgress, width: int, glyphs: Glyphs) -> Text:
    from rich.text import Text

    pieces = (
        (row.degenerate, glyphs.degenerate, "red"),
        (row.done - row.degenerate - row.lost, glyphs.healthy, "green"),
        (row.lost, glyphs.lost, "yellow"),
    )
    cells = allocate_cells([n for n, _, _ in pieces], row.total, width)
    bar = Text()
    for many, (_, sign, style) in zip(cells, pieces, strict=True):
        bar.append(sign * many, style=style)
    return bar.append(glyphs.pending * (width - sum(cells)), style="dim")


def _onsets(onsets: Sequence[OnsetExcerpt], width: int, glyphs: Glyphs) -> list[Text]:
    """The latest onset with its text, then earlier ones with one line each."""
    from rich.text import Text

    lines = []
    for n, onset in enumerate(reversed(onsets)):
        line = Text(f"{'onset' if n == 0 else '':<{_LABEL}}")
        line.append(f"{onset.symptom} from token {format_count(onset.token)}", style="red")
        line.append(f"  {single_line(onset.name)}", style="dim")
        lines.append(_cut(line, width))
        if n == 0:
            lines.append(_quoted(onset, width, glyphs))
    return lines


def _quoted(onset: OnsetExcerpt, width: int, glyphs: Glyphs) -> Text:
    """The text around an onset on one line: at most a third before the mark, the rest after it."""
    from rich.text import Text

    room = width - _LABEL - 2 * len(glyphs.more) - len(glyphs.here) - 4
    before = tail_cells(single_line(onset.before), room // 3)
    after = Text(single_line(onset.after), style="red")
    after.truncate(max(room - len(before), 0), overflow="crop")
    line = Text(" " * _LABEL + f"{glyphs.more} {before} ", style="dim")
    line.append(f"{glyphs.here} ", style="bold red")
    line.append_text(after)
    return _cut(line.append(f" {glyphs.more}", style="dim"), width)


def tail_cells(text: str, room: int) -> str:
    """The longest end of `text` that fits into `room` columns."""
    from rich.cells import cell_len

    text = text[-room:] if room > 0 else ""
    while text and cell_len(text) > room:
        text = text[1:]
    return text


def _server(picture: LiveSnapshot, width: int, glyphs: Glyphs) -> list[Text]:
    """Throughput, KV cache and GPU with their last half minute; then the requests in flight."""
    speed = picture.speed
    measured = [
        ("", f"{format_count(speed.now)} tokens/s", _sparkline(speed, glyphs, None)),
        ("KV ", percent(picture.kv.now), _sparkline(picture.kv, glyphs, 1.0)),
        ("GPU ", percent(picture.gpu.now), _sparkline(picture.gpu, glyphs, 1.0)),
    ]
    pieces = [f"{name}{now} {line}".rstrip() for name, now, line in measured]
    if picture.gpu_memory is not None:
        pieces.append(f"GPU memory {percent(picture.gpu_memory)}")
    server = picture.server
    in_flight = [f"{picture.running} running"]
    if picture.certain:
        in_flight.append(f"{picture.certain} of them already degenerate")
    if server is not None:
        in_flight.append(
            f"on the server {format_count(server.running)} running, {format_count(server.waiting)} waiting"
        )
    return [*_wrap_pieces("server", pieces, width), *_wrap_pieces("", in_flight, width)]


def _sparkline(values: RecentValues, glyphs: Glyphs, top: float | None) -> str:
    return sparkline(values.values[-_STRIP:], glyphs, top=top)


def _sample(picture: LiveSnapshot, sample: tuple[Rigor, Threshold] | None, width: int) -> list[Text]:
    """Progress of the certifying sample; a threshold from a part of it is labelled provisional."""
    if sample is None or picture.sample_size is None:
        return []
    rigor, now = sample
    pieces = [f"{now.n} of {picture.planned_at_risk} planned answers count for T"]
    if now.certified and now.tokens is not None:
        pieces.append(f"{now.onsets or 'none'} of them degenerate by T")
        verdict = [f"T {format_count(now.tokens)} so far, provisional", "may go up or down"]
    elif now.n < rigor.floor:
        verdict = [f"none so far (needs at least {rigor.floor} answers)"]
    else:
        verdict = ["none so far, provisional: too many degenerate early"]
    last = f"the final T is computed when all {picture.sample_size} answers are in"
    return [*_wrap_pieces("sample", pieces, width), *_wrap_pieces("bound", [*verdict, last], width)]


def _time(picture: LiveSnapshot, width: int) -> list[Text]:
    elapsed = duration(picture.elapsed)
    if picture.budget_seconds is not None:
        elapsed += f" of {duration(picture.budget_seconds)}"
    tokens = f"{format_count(picture.tokens)} tokens"
    if picture.budget_tokens is not None:
        tokens = f"{format_count(picture.tokens)} of {format_count(picture.budget_tokens)} tokens"
    left = f"ends in ≈ {duration(picture.eta)}" if picture.eta is not None else "is running"
    if picture.eta is not None and picture.eta < 1.5:
        left = "ends in a moment"
    stage = []
    if picture.rows:
        last = picture.rows[-1]
        if last.done >= last.total and not picture.running:
            left = "is complete"
        what = "the sample" if picture.sample_size is not None else single_line(last.name)
        stage = [f"{what} {left}"]
    lines = _wrap_pieces("time", [elapsed, tokens, *stage], width)
    if picture.run_eta is not None:
        whole = (
            f"≈ {duration(picture.run_eta)} more and {format_count(picture.expected_tokens)} tokens in all"
        )
        lines += _wrap_pieces("run", [f"{whole} if nothing fails"], width)
    return lines


def _wrap_pieces(label: str, pieces: Sequence[str], width: int) -> list[Text]:
    """`pieces` separated by dots, wrapped between pieces."""
    from rich.cells import cell_len
    from rich.text import Text

    rows = [""]
    for piece in pieces:
        joined = f"{rows[-1]} · {piece}" if rows[-1] else piece
        if rows[-1] and cell_len(joined) > width - _LABEL:
            rows.append(piece)
        else:
            rows[-1] = joined
    labels = [label] + [""] * (len(rows) - 1)
    return [
        _cut(Text.assemble((f"{name:<{_LABEL}}", "dim"), row), width)
        for name, row in zip(labels, rows, strict=True)
    ]


def _cut(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line
