"""Draws the live view: lines of text that fit the terminal, from one picture of the board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stresstest.model import Rigor, Threshold
from stresstest.report.glyphs import Glyphs, shares, strip
from stresstest.report.picture import Onset, Picture, Row, Strip
from stresstest.report.text import NOT_MEASURED, count, duration, flat, percent

if TYPE_CHECKING:
    from rich.text import Text

_LABEL = 10
_TARGET = 13
_FEWEST_RUNGS = 2
_NARROW = 72
_STRIP = 16
_WIDEST = 110
"""Longer lines are hard to read, however wide the terminal is."""


def board_lines(
    picture: Picture, sample: tuple[Rigor, Threshold] | None, width: int, height: int, glyphs: Glyphs
) -> list[Text]:
    """The view, top line first: ladder, latest onsets, server, sample, time; never wider, never higher.

    sample: the provisional threshold while a certifying sample grows. width, height: columns and lines of
    the terminal.
    """
    from rich.text import Text

    # A cut line ends in an ellipsis, which is three columns where it is written in ASCII.
    width = max(10, min(width - len(glyphs.more), _WIDEST))
    onsets = _onsets(picture.onsets, width, glyphs)
    below = [*_server(picture, width, glyphs), *_sample(picture, sample, width), *_time(picture, width)]
    room = height - 3 - len(below)
    if room < len(onsets) + _FEWEST_RUNGS:
        # A low terminal: the text of an onset is what can be read later.
        onsets = []
    ladder = _ladder(picture, width, max(room - len(onsets), 1), glyphs)
    # Nothing stands out from what has scrolled by without a blank line before it.
    return [Text(), *ladder, *onsets, *below][-max(height - 1, 1) :]


def _ladder(picture: Picture, width: int, room: int, glyphs: Glyphs) -> list[Text]:
    """A line a rung, the last ones; what does not fit is summed up in the first line."""
    from rich.text import Text

    rows = picture.rows
    if not rows:
        return [Text(f"asking the endpoint {glyphs.more}", style="dim")]
    ahead = _ahead(picture.ahead, width, glyphs) if room > 1 else []
    room -= len(ahead)
    hidden, shown = (rows[: 1 - room], rows[1 - room :]) if len(rows) > room > 1 else ((), rows[-room:])
    lines = _rungs(shown, width, glyphs)
    if hidden:
        done, failed = sum(row.done for row in hidden), sum(row.degenerate for row in hidden)
        said = f"{len(hidden)} earlier: {done} answers, {failed} degenerate"
        lines.insert(0, _cut(Text(f"{glyphs.more:<{_LABEL}}{said}", style="dim"), width))
    return [*lines, *ahead]


def _ahead(targets: Sequence[int], width: int, glyphs: Glyphs) -> list[Text]:
    """The rungs that the climb still has before it, on a line."""
    from rich.text import Text

    if not targets:
        return []
    listed = ", ".join(count(target) for target in targets)
    said = f"{glyphs.more:<{_LABEL}}then {listed} tokens while healthy"
    return [_cut(Text(said, style="dim"), width)]


def _rungs(rows: Sequence[Row], width: int, glyphs: Glyphs) -> list[Text]:
    """Name, length, bar, counts; the bars as long as the longest counts allow."""
    from rich.text import Text

    counts = [_counts(row, narrow=width < _NARROW) for row in rows]
    bar = width - _LABEL - _TARGET - 2 - max(said.cell_len for said in counts)
    lines = []
    for row, said in zip(rows, counts, strict=True):
        room = _LABEL if row.target is not None else _LABEL + _TARGET
        line = Text(f"{flat(row.name)[: room - 1]:<{room}}")
        if row.target is not None:
            line.append(f"{count(row.target):>7} tok  ", style="dim")
        line.append_text(_bar(row, max(4, min(bar, 40)), glyphs)).append("  ").append_text(said)
        lines.append(_cut(line, width))
    return lines


def _counts(row: Row, *, narrow: bool) -> Text:
    from rich.text import Text

    said = Text(f"{row.done}/{row.total}", style="bold" if row.done < row.total else "")
    healthy = row.done - row.degenerate - row.lost
    if healthy and not (narrow and row.degenerate):
        said.append(f"  {healthy} healthy", style="green")
    if row.degenerate:
        said.append(f"  {row.degenerate} degenerate from {count(row.earliest)}", style="red")
    if row.lost:
        said.append(f"  {row.lost} lost", style="yellow")
    return said


def _bar(row: Row, width: int, glyphs: Glyphs) -> Text:
    from rich.text import Text

    pieces = (
        (row.degenerate, glyphs.degenerate, "red"),
        (row.done - row.degenerate - row.lost, glyphs.healthy, "green"),
        (row.lost, glyphs.lost, "yellow"),
    )
    cells = shares([n for n, _, _ in pieces], row.total, width)
    bar = Text()
    for many, (_, sign, style) in zip(cells, pieces, strict=True):
        bar.append(sign * many, style=style)
    return bar.append(glyphs.pending * (width - sum(cells)), style="dim")


def _onsets(onsets: Sequence[Onset], width: int, glyphs: Glyphs) -> list[Text]:
    """The latest onset with its text; the ones before it in a line each."""
    from rich.text import Text

    lines = []
    for n, onset in enumerate(reversed(onsets)):
        line = Text(f"{'onset' if n == 0 else '':<{_LABEL}}")
        line.append(f"{onset.symptom} from token {count(onset.token)}", style="red")
        line.append(f"  {flat(onset.key)}", style="dim")
        lines.append(_cut(line, width))
        if n == 0:
            lines.append(_quoted(onset, width, glyphs))
    return lines


def _quoted(onset: Onset, width: int, glyphs: Glyphs) -> Text:
    """The text around an onset on one line: a third of it before, the mark, and what is degenerate."""
    from rich.text import Text

    room = width - _LABEL - 2 * len(glyphs.more) - len(glyphs.here) - 4
    before = last_cells(flat(onset.before), room // 3)
    after = Text(flat(onset.after), style="red")
    after.truncate(max(room - len(before), 0), overflow="crop")
    line = Text(" " * _LABEL + f"{glyphs.more} {before} ", style="dim")
    line.append(f"{glyphs.here} ", style="bold red")
    line.append_text(after)
    return _cut(line.append(f" {glyphs.more}", style="dim"), width)


def last_cells(text: str, room: int) -> str:
    """The end of `text` that takes at most `room` columns."""
    from rich.cells import cell_len

    text = text[-room:] if room > 0 else ""
    while text and cell_len(text) > room:
        text = text[1:]
    return text


def _server(picture: Picture, width: int, glyphs: Glyphs) -> list[Text]:
    """Throughput, KV cache and GPU with their last half minute; then what is in flight."""
    speed = picture.speed
    measured = [
        ("", f"{count(speed.now)} tokens/s", _strip(speed, glyphs, None)),
        ("KV ", percent(picture.kv.now), _strip(picture.kv, glyphs, 1.0)),
        ("GPU ", percent(picture.gpu.now), _strip(picture.gpu, glyphs, 1.0)),
    ]
    pieces = [f"{name}{now} {line}".rstrip() for name, now, line in measured]
    if picture.gpu_memory is not None:
        pieces.append(f"GPU memory {percent(picture.gpu_memory)}")
    server = picture.server
    in_flight = [f"{picture.running} running"]
    if picture.certain:
        in_flight.append(f"{picture.certain} of them already degenerate")
    if server is not None:
        in_flight.append(f"on the server {count(server.running)} running, {count(server.waiting)} waiting")
    return [*_flow("server", pieces, width), *_flow("", in_flight, width)]


def _strip(values: Strip, glyphs: Glyphs, top: float | None) -> str:
    return strip(values.values[-_STRIP:], glyphs, top=top)


def _sample(picture: Picture, sample: tuple[Rigor, Threshold] | None, width: int) -> list[Text]:
    """How far the certifying sample is. Whatever is computed from a part of it is called provisional."""
    if sample is None or picture.sample_size is None:
        return []
    rigor, now = sample
    pieces = [f"{now.n} of {picture.planned_at_risk} planned at risk"]
    if now.certified and now.tokens is not None:
        pieces.append(f"{now.onsets} degenerate by then")
        verdict = [f"T {count(now.tokens)} so far, provisional", "moves both ways, no result"]
    elif now.n < rigor.floor:
        verdict = [f"none so far ({rigor.floor} at risk are the least)"]
    else:
        verdict = ["none so far, provisional: too many degenerate early"]
    last = f"certified once, from all {picture.sample_size} answers"
    return [*_flow("sample", pieces, width), *_flow("bound", [*verdict, last], width)]


def _time(picture: Picture, width: int) -> list[Text]:
    elapsed = duration(picture.elapsed)
    if picture.budget_seconds is not None:
        elapsed += f" of {duration(picture.budget_seconds)}"
    tokens = f"{count(picture.tokens)} tokens"
    if picture.budget_tokens is not None:
        tokens = f"{count(picture.tokens)} of {count(picture.budget_tokens)} tokens"
    left = f"ends in ≈ {duration(picture.eta)}" if picture.eta is not None else f"ends in {NOT_MEASURED}"
    if picture.eta is not None and picture.eta < 1.5:
        left = "ends in a moment"
    what = (
        "the sample" if picture.sample_size is not None else picture.rows[-1].name if picture.rows else "it"
    )
    return _flow("time", [elapsed, tokens, f"{flat(what)} {left}"], width)


def _flow(label: str, pieces: Sequence[str], width: int) -> list[Text]:
    """`pieces` with dots between them, on as many lines as they need; no piece is broken."""
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
