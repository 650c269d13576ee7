"""Failures of structured answers: what is found of planted ones, and what is flagged of healthy documents.

    python -m benchmarks.structure [--also FOLDER …] [--texts 100] [--healthy 2500] [--write FILE]

Healthy documents are real ones: modules of the standard library and of the packages installed beside it,
their JSON, CSV and Markdown files, and records of the standard library's own tables (Unicode, HTML entities,
time zones, HTTP, errors, functions with their arguments), written as JSON, CSV and Markdown tables. Every
document is judged by all detectors as the answer to a task of its kind (`unit`; code without a language, the
rest as English): one that ended by itself, or that its cap ended where it is longer. A failure is planted
behind 3 to 20 healthy records, rows or functions and goes on to the cap. Found is a confirmed symptom that
begins at most one unit from the planted place; the unit is the record, row or function there.
"""

from __future__ import annotations

import argparse
import ast
import csv
import errno
import html.entities
import http
import io
import json
import random
import sysconfig
import unicodedata
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_text
from stresstest.detectors.text.tokens import split_pieces

MOST_CHARS = 16_000
"""Characters of a healthy document: about 4,000 tokens."""
CAP_CHARS = 9_000
"""Characters that a planted failure goes on for."""
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Document:
    kind: str
    source: str
    licence: str
    text: str

    @property
    def finish_reason(self) -> str:
        """It ended by itself, unless it was cut."""
        return "stop" if len(self.text) < MOST_CHARS else "length"

    @property
    def spec(self) -> DetectorSpec:
        """What a task of its kind would say."""
        return spec_of(self.kind)


def spec_of(kind: str) -> DetectorSpec:
    """The specification of a task with answers of this kind."""
    if kind == "code":
        return DetectorSpec(unit="function")
    unit = "json_record" if kind.startswith("JSON") else "numbered" if kind == "Markdown" else "row"
    return DetectorSpec(language="en", unit=unit)


def healthy_documents(also: Sequence[Path]) -> Iterator[Document]:
    """Real code, JSON and tables, in turn by source."""
    library = Path(sysconfig.get_paths()["stdlib"])
    packages = library / "site-packages"
    installed = Path(sysconfig.get_paths()["purelib"])
    sources = [
        _files(library, "standard library", "PSF-2.0", without=packages),
        _packaged(installed),
        _tables(library),
        *(_files(folder, folder.name, "see its files") for folder in also),
    ]
    while sources:
        for each in list(sources):
            found = next(each, None)
            if found is None:
                sources.remove(each)
            else:
                yield found


def _files(folder: Path, source: str, licence: str, without: Path | None = None) -> Iterator[Document]:
    kinds = {".py": "code", ".js": "code", ".json": "JSON", ".csv": "table", ".md": "Markdown"}
    paths = [path for path in folder.rglob("*") if path.suffix in kinds and path.is_file()]
    random.Random(5).shuffle(paths)
    for path in paths:
        if without is not None and without in path.parents:
            continue
        text = _read(path)
        if text is not None:
            yield Document(kinds[path.suffix], source, licence, text)


def _read(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")[:MOST_CHARS]
    except (OSError, UnicodeDecodeError):
        return None
    if len(text) < 1_000 or max(map(len, text.splitlines())) > 4_000:
        return None  # trifles; minified or generated data
    return text


def _packaged(folder: Path) -> Iterator[Document]:
    distributions = sorted(metadata.distributions(path=[str(folder)]), key=lambda each: each.name)
    streams = []
    for each in distributions:
        fields = [each.metadata.get_all(name) for name in ("License-Expression", "License")]
        said = next((values[0] for values in fields if values), "")
        classified = [
            c.rpartition(" :: ")[2] for c in each.metadata.get_all("Classifier") or () if "Licen" in c
        ]
        licence = said.splitlines()[0][:40] if said else ", ".join(classified)
        paths = [folder / str(file) for file in each.files or () if ".." not in str(file)]
        streams.append(_package_files(each.name, licence or "unknown", paths))
    while streams:
        for stream in list(streams):
            found = next(stream, None)
            if found is None:
                streams.remove(stream)
            else:
                yield found


def _package_files(name: str, licence: str, paths: list[Path]) -> Iterator[Document]:
    kinds = {".py": "code", ".pyi": "code", ".json": "JSON", ".csv": "table", ".md": "Markdown"}
    for path in paths:
        text = _read(path) if path.suffix in kinds else None
        if text is not None:
            yield Document(kinds[path.suffix], name, licence, text)


def real_records(library: Path) -> dict[str, list[Record]]:
    """Tables of the standard library."""
    named = [
        {"code": f"U+{c:04X}", "name": unicodedata.name(chr(c)), "category": unicodedata.category(chr(c))}
        for c in range(0x20, 0x2FFF)
        if unicodedata.name(chr(c), "")
    ]
    entities = [
        {"entity": name, "text": text, "points": [ord(ch) for ch in text]}
        for name, text in html.entities.html5.items()
    ]
    zones = [
        {"id": i, "zone": zone, "area": zone.partition("/")[0]}
        for i, zone in enumerate(sorted(zoneinfo.available_timezones()), 1)
    ]
    statuses = [{"code": s.value, "phrase": s.phrase, "description": s.description} for s in http.HTTPStatus]
    errors = [{"number": n, "name": name} for n, name in sorted(errno.errorcode.items())]
    return {
        "Unicode": named,
        "entities": entities,
        "time zones": zones,
        "HTTP": statuses,
        "errors": errors,
        "functions": [record for record, _ in real_functions(library)],
    }


def real_functions(library: Path) -> list[tuple[Record, str]]:
    """(description, source) of the functions at the top of the standard library's modules."""
    found: list[tuple[Record, str]] = []
    for path in sorted(library.glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and 3 <= (node.end_lineno or 0) - node.lineno < 40:
                doc = (ast.get_docstring(node) or "").partition("\n")[0]
                arguments = [each.arg for each in node.args.args]
                record: Record = {
                    "module": path.stem,
                    "function": node.name,
                    "arguments": arguments,
                    "summary": doc,
                }
                found.append((record, ast.get_source_segment(text, node) or ""))
    return found


def as_json(records: Iterable[Record]) -> str:
    return json.dumps(list(records), indent=2, ensure_ascii=False)


def as_lines(records: Iterable[Record]) -> str:
    return "\n".join(json.dumps(record, ensure_ascii=False) for record in records)


def as_markdown(records: Sequence[Record]) -> str:
    names = list(records[0])
    rows = ["| " + " | ".join(str(record[name]) for name in names) + " |" for record in records]
    return "\n".join(["| " + " | ".join(names) + " |", "|" + " --- |" * len(names), *rows])


def as_csv(records: Sequence[Record]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue().rstrip("\n")


WRITERS: Mapping[str, Callable[[Sequence[Record]], str]] = {
    "JSON": as_json,
    "JSON lines": as_lines,
    "Markdown table": as_markdown,
    "CSV": as_csv,
}


def _tables(library: Path) -> Iterator[Document]:
    streams = []
    for name, records in real_records(library).items():
        pieces = (records[i : i + n] for n in (25, 60, 150) for i in range(0, len(records) - 2, n))
        streams.append((name, pieces))
    for turn in count():
        found = False
        for name, pieces in streams:
            piece = next(pieces, None)
            if piece is not None:
                found = True
                kind = list(WRITERS)[turn % len(WRITERS)]
                yield Document(
                    kind, f"standard library: {name}", "PSF-2.0", WRITERS[kind](piece)[:MOST_CHARS]
                )
        if not found:
            return


@dataclass(frozen=True, slots=True)
class Plant:
    """A failing answer: `at` is the character where it begins, `unit` how long a unit is there."""

    text: str
    at: int
    unit: int


def plants(rng: random.Random, records: Sequence[Record], functions: Sequence[str]) -> dict[str, Plant]:
    """One failing answer of every kind, with healthy units before it."""
    start, before = rng.randrange(len(records) - 60), rng.randint(3, 20)
    healthy = [dict(record) for record in records[start : start + before]]
    for i, record in enumerate(healthy, 1):
        record["id"] = i
    last = dict(healthy[-1])
    unit = json.dumps(last, indent=2, ensure_ascii=False)
    head = as_json(healthy)[:-2] + ",\n"
    size = len(unit)

    def grown(make: Callable[[int], str], opening: str, unit_size: int) -> Plant:
        """The first of the same units stands for healthy; the failure begins with its first copy."""
        text = opening + make(0)
        at = len(text)
        for i in count(1):
            if len(text) - at > CAP_CHARS:
                break
            text += make(i)
        return Plant(text, at, unit_size)

    def copies(turn: Sequence[Record], number: bool) -> Plant:
        def make(i: int) -> str:
            group = [
                json.dumps(
                    record | ({"id": before + 1 + i * len(turn) + k} if number else {}),
                    indent=2,
                    ensure_ascii=False,
                )
                for k, record in enumerate(turn)
            ]
            return ",\n".join(group) + ",\n"

        return grown(make, head, size * len(turn))

    turn = [dict(record) for record in records[start + before : start + before + 3]]
    word = rng.choice(["null", "N/A", "data", "value", "x", "lorem ipsum"])
    opened = head + f'{{\n  "id": {before + 1},\n  "name": "'
    blank = rng.choice(["\n", "\t", "    ", " ", "\n\n", "\n    ", " \n"])
    cut = head + "{" if rng.random() < 0.5 else head
    flood = (word + rng.choice([" ", "", ", "])) * (CAP_CHARS // (len(word) + 1))
    body = rng.choice([f for f in functions if 5 <= f.count("\n") <= 20])
    name = body[4 : body.index("(")]
    whole = [functions[(start + i) % len(functions)] for i in range(before)]
    code = "\n\n\n".join(whole) + "\n\n\n"
    verbs = [
        "load",
        "save",
        "send",
        "read",
        "write",
        "parse",
        "check",
        "build",
        "merge",
        "split",
        "count",
        "clean",
    ]
    nouns = [
        "file",
        "user",
        "order",
        "image",
        "page",
        "token",
        "record",
        "table",
        "event",
        "message",
        "result",
    ]
    fresh = [f"{verb}_{noun}" for verb in verbs for noun in nouns]
    rng.shuffle(fresh)
    row = "| " + " | ".join(str(v) for v in turn[0].values())
    table = as_markdown([{k: v for k, v in r.items() if k != "id"} for r in healthy]) + "\n"
    line = as_csv([turn[0]]).partition("\n")[2] + "\n"
    keys = grown(lambda i: f'  "field_{i + 1}": "{word}",\n', head + "{\n", size)
    tags = f'{{\n  "id": {before + 1},\n  "tags": ["'
    nested = head + f'{{\n  "id": {before + 1},\n  "items": '
    return {
        "blanks without end between records": Plant(cut + blank * (CAP_CHARS // len(blank)), len(cut), size),
        "indentation that only grows": Plant(
            cut + "".join("\n" + " " * i for i in range(130)), len(cut), max(size, 200)
        ),
        "the same record with a counter": replace(copies([last], True), at=len(head)),
        "the same record": copies([{k: v for k, v in last.items() if k != "id"}], False),
        "three records in turn with a counter": copies(turn, True),
        "a value that floods": Plant(opened + flood, len(opened), size),
        "keys without end": keys,
        "an array of the same words that never closes": Plant(
            head + tags + f'{word}", "' * (CAP_CHARS // (len(word) + 4)),
            len(head + tags) + len(word) + 4,
            size,
        ),
        "brackets that only open": Plant(nested + "[" * 1500, len(nested), size),
        "one function under counted names": grown(
            lambda i: body.replace(name, f"{name}_{i + 2}") + "\n\n\n", code, len(body)
        ),
        "one function under new names": grown(
            lambda i: body.replace(name, fresh[i % len(fresh)]) + "\n\n\n", code, len(body)
        ),
        "the same row with a counter": grown(lambda i: f"{row} | {i + 1} |\n", table, len(row) + 6),
        "the same row of a CSV": grown(lambda _: line, as_csv(healthy) + "\n", max(len(line), 40)),
    }


@dataclass(slots=True)
class Cell:
    planted: int = 0
    found: int = 0
    errors: list[float] = field(default_factory=list)
    called: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)


def measure_plants(texts: int) -> dict[str, Cell]:
    library = Path(sysconfig.get_paths()["stdlib"])
    pool, functions = real_records(library), [source for _, source in real_functions(library)]
    names = [name for name in pool if len(pool[name]) > 80]
    cells: dict[str, Cell] = {}
    for n in range(texts):
        rng = random.Random(n)
        for kind, plant in plants(rng, pool[names[n % len(names)]], functions).items():
            cell = cells.setdefault(kind, Cell())
            cell.planted += 1
            form = "code" if "function" in kind else "CSV" if "row" in kind else "JSON"
            verdict = detect_text(plant.text, spec_of(form), "length")
            if verdict.onset is None:
                cell.misses.append(f"{n}: not seen")
                continue
            begun = len("".join(split_pieces(plant.text)[: verdict.onset - 1]))
            error = (begun - plant.at) / plant.unit
            cell.errors.append(error)
            cell.called[str(verdict.symptom)] += 1
            if abs(error) <= 1:
                cell.found += 1
            else:
                cell.misses.append(f"{n}: {error:+.1f} units ({verdict.symptom})")
    return cells


def measure_healthy(
    also: Sequence[Path], most: int
) -> tuple[Counter[str], list[tuple[Document, str]], Counter[str]]:
    """(documents by kind, false alarms, documents by source and licence)."""
    kinds: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    wrong = []
    for document in islice(healthy_documents(also), most):
        kinds[document.kind] += 1
        sources[f"{document.source} ({document.licence})"] += 1
        verdict = detect_text(document.text, document.spec, document.finish_reason)
        if verdict.onset is not None:
            first = next(s for s in verdict.symptoms if s.confirmed)
            place = len("".join(split_pieces(document.text)[: verdict.onset - 1]))
            wrong.append((document, f"{first.kind}: {document.text[place : place + 160]!r}"))
    return kinds, wrong, sources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--also", type=Path, nargs="*", default=[])
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--healthy", type=int, default=2500)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    lines = []
    if args.texts:
        lines += [
            "| planted | n | within one unit | median error, units | called |",
            "| --- | --- | --- | --- | --- |",
        ]
        for kind, cell in measure_plants(args.texts).items():
            error = f"{median(cell.errors):+.2f}" if cell.errors else "–"
            called = ", ".join(f"{name} {n}" for name, n in cell.called.most_common(3))
            share = f"{cell.found} ({100 * cell.found / cell.planted:.0f} %)"
            lines.append(f"| {kind} | {cell.planted} | {share} | {error} | {called} |")
            if args.verbose:
                print(kind, cell.misses[:6])
    if args.healthy:
        kinds, wrong, sources = measure_healthy(args.also, args.healthy)
        total = sum(kinds.values())
        flagged = Counter(document.kind for document, _ in wrong)
        lines += ["", "| healthy | documents | flagged |", "| --- | --- | --- |"]
        lines += [f"| {kind} | {n} | {flagged[kind]} |" for kind, n in kinds.most_common()]
        lines += [f"| all | {total} | {len(wrong)} ({100 * len(wrong) / total:.2f} %) |", "", "Sources:", ""]
        lines += [f"- {source}: {n}" for source, n in sources.most_common()]
        if args.verbose:
            for document, words in wrong:
                print(document.kind, document.source, words)
    print("\n".join(lines))
    if args.write is not None:
        args.write.write_text(
            f"# Structured answers\n\n{__doc__}\n" + "\n".join(lines) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
