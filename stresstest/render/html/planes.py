"""The measurements of the three planes as tables: what is clean, what is not, what was not measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stresstest.diagnosis.evidence.server import KV_FULL
from stresstest.diagnosis.measured import BeforeAfter, PlaneMeasurements
from stresstest.model import GPU_READINGS, Plane, RunResult
from stresstest.model.percent import percent, percent_at_most
from stresstest.render.sentences import decoding_words, symptom_rows
from stresstest.render.text import NOT_MEASURED, format_count, format_threshold

CLEAN, TROUBLE, NEUTRAL, UNKNOWN = "clean", "not clean", "", "not measured"


@dataclass(frozen=True, slots=True)
class PlaneRow:
    """One measurement. state: clean, not clean, not measured, or empty if neutral. why: not measured."""

    what: str
    value: str
    state: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlaneRows:
    """One plane. facts: the verdict's evidence as (for, against or not measured; source; sentence)."""

    plane: str
    rows: tuple[PlaneRow, ...]
    facts: tuple[tuple[str, str, str], ...]


def plane_rows(result: RunResult, measured: PlaneMeasurements) -> tuple[PlaneRows, ...]:
    """The rows of every plane, in the order in which the planes mask each other."""
    rows = {
        Plane.SYSTEM: [*_gpu(result), *_server(result, measured), *_wire(measured)],
        Plane.DECODING: _decoding(result, measured),
        Plane.CONTEXT: _context(result, measured),
    }
    evidence = result.verdict.evidence
    return tuple(
        PlaneRows(
            str(plane),
            tuple(rows[plane]),
            tuple((e.stance, e.source, e.fact) for e in evidence if e.plane is plane),
        )
        for plane in Plane
    )


def _row(what: str, value: str | None, state: str = NEUTRAL, why: str = "") -> PlaneRow:
    return PlaneRow(what, NOT_MEASURED, UNKNOWN, why) if value is None else PlaneRow(what, value, state, why)


def _gpu(result: RunResult) -> Iterable[PlaneRow]:
    if not result.gpus:
        gap = result.run.profile.gap(GPU_READINGS)
        yield _row("GPU utilisation", None, why="" if gap is None else gap.remedy or gap.cost)
        return
    for gpu in result.gpus:
        name = f"GPU {gpu.gpu}" + (f", {gpu.name}" if gpu.name else "")
        busy = None if gpu.utilisation is None else f"{percent(gpu.utilisation)} mean"
        memory = None if gpu.memory_peak is None else f"memory {percent(gpu.memory_peak)} at most"
        warm = None if gpu.temperature_max is None else f"{gpu.temperature_max:.0f} °C at most"
        said = ", ".join(part for part in (busy, memory, warm) if part)
        yield _row(f"GPU utilisation ({name})", said or None, why=gpu.missing.get("utilisation", ""))
        if gpu.throttled is not None:
            slowed = "; ".join(f"{why} {s:.1f} s" for why, s in gpu.throttled.items())
            yield PlaneRow(f"GPU clocks ({name})", slowed or "never slowed", TROUBLE if slowed else CLEAN)
        if gpu.xids is not None or gpu.lost:
            errors = gpu.lost or ", ".join(f"XID {x}" for x in gpu.xids or ())
            yield PlaneRow(f"GPU errors ({name})", errors or "none", TROUBLE if errors else CLEAN)


def _server(result: RunResult, measured: PlaneMeasurements) -> Iterable[PlaneRow]:
    server = result.server
    why = "the server has no /metrics"
    if server is None:
        for what in ("KV cache", "scheduler", "throughput"):
            yield _row(what, None, why=why)
        return
    peak = server.kv_peak
    full = peak is not None and peak >= KV_FULL
    said = None if peak is None else f"{percent_at_most(peak)} full at most"
    yield _row("KV cache", said, TROUBLE if full else CLEAN, why)
    preempted = server.preemptions
    queue = (
        f"{format_count(server.running_peak)} running, {format_count(server.waiting_peak)} waiting at most"
    )
    state = NEUTRAL if preempted is None else TROUBLE if preempted else CLEAN
    yield PlaneRow("scheduler", f"{queue}; {format_count(preempted)} preemptions", state)
    speed = measured.throughput
    yield _row("throughput", None if speed is None else f"{speed:,.0f} tokens/s, all clients", NEUTRAL, why)


def _wire(measured: PlaneMeasurements) -> Iterable[PlaneRow]:
    first, each = measured.first_token, measured.token_time
    said = [f"first token after {1000 * first:,.0f} ms"] if first is not None else []
    said += [f"{1000 * each:,.1f} ms a token"] if each is not None else []
    yield _row("latency", ", ".join(said) + " (medians)" if said else None)
    lost = measured.lost
    yield PlaneRow(
        "service failures", f"{lost} requests lost" if lost else "none", TROUBLE if lost else CLEAN
    )


def _decoding(result: RunResult, measured: PlaneMeasurements) -> list[PlaneRow]:
    repetition, entropy = measured.repetition, measured.entropy
    jump = repetition.after is not None and repetition.before is not None
    worse = jump and (repetition.after or 0.0) > (repetition.before or 0.0) + 0.2
    drift = [n for n in symptom_rows(result.generations) if n[0] == "language drift"]
    turned = _pair(measured.diversity, "share of distinct words {}")
    foreign = f"; language drift in {drift[0][1]}" if drift else ""
    return [
        _row(
            "repetition rate",
            _pair(repetition, "{} of tokens repeat", share=True),
            TROUBLE if worse else CLEAN,
        ),
        _row("token entropy", _pair(entropy, "{} nats"), why="no logprobs"),
        _row(
            "narrative divergence",
            None if turned is None else turned + foreign,
            TROUBLE if drift else NEUTRAL,
        ),
        PlaneRow("sampling parameters", decoding_words(result), NEUTRAL),
    ]


def _context(result: RunResult, measured: PlaneMeasurements) -> list[PlaneRow]:
    window = result.run.profile.max_model_len
    place = None
    if measured.position is not None:
        share = f", {percent(measured.position / window)} of the window" if window else ""
        place = f"failures start at {format_count(measured.position)} tokens in the context (median){share}"
    lengths = measured.lengths
    ratio = None
    if lengths is not None:
        ratio = (
            f"onset {lengths.ratio:.2f} times as late when longer answers are requested "
            f"({lengths.lo:.2f}–{lengths.hi:.2f})"
        )
        ratio += ": independent of the requested length" if lengths.independent else ""
    elif measured.failing == 0 and measured.longest is not None:
        ratio = f"healthy up to {format_count(measured.longest)} tokens, the longest answer seen"
    kinds = ", ".join(f"{kind} {n}" for kind, n, *_ in symptom_rows(result.generations))
    reach = result.threshold.tokens
    effective = None
    if reach is not None:
        share = f" of {format_count(window)} ({percent(reach / window, 1)})" if window else ""
        effective = f"{format_threshold(result.threshold)} tokens{share}"
    return [
        _row("position in context", place, why="no failure, or the prompt's tokens were not counted"),
        _row("long-sequence behaviour", ratio, why="needs onsets at two lengths, five each"),
        PlaneRow("type of degradation", kinds or "none seen", NEUTRAL if kinds else CLEAN),
        _row("effective length", effective, why=result.threshold.lacking or ""),
    ]


def _pair(values: BeforeAfter, words: str, *, share: bool = False) -> str | None:
    if values.before is None and values.after is None:
        return None

    def number(value: float | None) -> str:
        return percent(value) if share else NOT_MEASURED if value is None else f"{value:.2f}"

    if values.after is None:
        return words.format(number(values.before)) + f" (n = {values.n})"
    before, after = words.format(number(values.before)), number(values.after)
    return f"{before} before the onset, {after} after (medians, n = {values.n})"
