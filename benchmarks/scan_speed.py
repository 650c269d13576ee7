"""How fast `scan` is: MB of response text a second and core, beside the suite alone and Gopher's rules.

Same outputs, one run, CPU time of this process; the cheapest of several rounds counts, since other load on
the machine only ever adds. Gopher's rules twice: in datatrove's shape with words split at white space, and
with `--datatrove` datatrove's own filter, words cut by spaCy, run by an interpreter that has both. With
`--big` wall time with one worker and with two, by turns, and the memory of all processes together over the
corpus repeated to a size and to a quarter of it.

    python benchmarks/scan_speed.py --corpus DIR [--datatrove OTHER/bin/python] [--big 300]
    python benchmarks/scan_speed.py --languages DIR
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.votes import warm_up
from stresstest.detectors.screening.recorded import RecordedText, detect_many
from stresstest.detectors.suite import detect_text
from stresstest.model import GenerationVerdict
from stresstest.records import FieldMapping, parse_line, read_chunks
from stresstest.scanning.answer.languages import infer_languages
from stresstest.scanning.detect_chunk import detect_chunk, parse_chunk
from stresstest.scanning.job import GroupKey, ScanJob

MB = 1e6
_TOP = {2: 0.20, 3: 0.18, 4: 0.16}
_DUPLICATE = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
_SAMPLED_S = 0.2


@dataclass(slots=True)
class Family:
    """A command and all processes that it started. rss, pss: peaks of their sums, MB; parent, child: of one
    process's resident memory. cpu: seconds of all. late: the sum's peak in the last quarter over the one in
    the second: what does not settle grows."""

    wall: float = 0.0
    cpu: float = 0.0
    rss: float = 0.0
    pss: float = 0.0
    parent: float = 0.0
    child: float = 0.0
    late: float = 1.0

    def __str__(self) -> str:
        return (
            f"{self.wall:6.1f} s, {self.cpu:6.1f} CPU s; peak {self.rss:.0f} MB resident in all "
            f"({self.pss:.0f} MB counting shared pages once), parent {self.parent:.0f}, largest other "
            f"{self.child:.0f}; late ÷ early {self.late:.2f}"
        )


def watched(command: Sequence[str]) -> Family:
    """Run a command to its end. Linux only: /proc tells what every process holds."""
    began = time.monotonic()
    found, cpu, sums = Family(), dict[int, float](), list[float]()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None:
            sizes = {pid: size for pid in _session(process.pid) if (size := _held(pid))}
            cpu.update((pid, size[2]) for pid, size in sizes.items())
            sums.append(sum(size[0] for size in sizes.values()))
            found.pss = max(found.pss, sum(size[1] for size in sizes.values()))
            found.parent = max(found.parent, sizes.pop(process.pid, (0.0,))[0])
            found.child = max(found.child, max((size[0] for size in sizes.values()), default=0.0))
            time.sleep(_SAMPLED_S)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    quarter = max(len(sums) // 4, 1)
    found.late = max(sums[-quarter:]) / max(sums[quarter : 2 * quarter] or sums)
    found.wall, found.cpu, found.rss = time.monotonic() - began, sum(cpu.values()), max(sums)
    return found


def _session(leader: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(entry.name)) == leader:
                    yield int(entry.name)


def _held(pid: int) -> tuple[float, float, float] | None:
    """(MB resident, MB with shared pages divided by their users, CPU seconds) of a process that is there."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    sizes = {row.split()[0]: int(row.split()[1]) / 1024 for row in rows}
    ticks = int(stat[11]) + int(stat[12])
    return sizes.get("Rss:", 0.0), sizes.get("Pss:", 0.0), ticks / os.sysconf("SC_CLK_TCK")


def gopher(text: str) -> bool:
    """Gopher's repetition rules (Rae et al. 2021, table A1) in the shape in which datatrove's filter has
    them: n-grams joined to strings, counted and looked up one by one. Whether the text is filtered.

    Words are split at white space; datatrove's word tokenizer costs several times as much.
    """
    size = len(text) or 1
    for separator in ("\n\n", "\n"):
        pieces = [piece.strip() for piece in text.split(separator) if piece.strip()]
        seen = Counter(pieces)
        again = sum(len(piece) * (count - 1) for piece, count in seen.items())
        if pieces and (1 - len(seen) / len(pieces) > 0.30 or again / size > 0.20):
            return True
    words = text.split()
    for n, most in _TOP.items():
        grams = Counter(" ".join(words[i : i + n]) for i in range(len(words) - n + 1))
        if grams:
            gram, count = grams.most_common(1)[0]
            if count > 1 and len(gram) * count / size > most:
                return True
    return any(_duplicate(words, n) / size > most for n, most in _DUPLICATE.items())


def gophers(texts: Sequence[str]) -> list[bool]:
    return [gopher(text) for text in texts]


def _duplicate(words: Sequence[str], n: int) -> int:
    seen: set[str] = set()
    characters = at = 0
    while at + n <= len(words):
        gram = "".join(words[at : at + n])
        if gram in seen:
            characters += len(gram)
            at += n
        else:
            seen.add(gram)
            at += 1
    return characters


_DATATROVE = """
import json, sys, time
from datatrove.data import Document
from datatrove.pipeline.filters import GopherRepetitionFilter

rules = GopherRepetitionFilter()
texts = [json.loads(line) for line in sys.stdin]
rules.filter(Document(text="Some words, to load the tokenizer.", id="0"))
began = time.process_time()
kept = sum(rules.filter(Document(text=text, id="1")) is True for text in texts)
print(time.process_time() - began, kept)
"""


def datatrove(python: str, texts: Sequence[str]) -> float:
    """MB of text (UTF-8) a CPU second of datatrove's own filter, tokenizer loaded; printed."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    command = [python, "-c", _DATATROVE]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    seconds, kept = done.stdout.split()[-2:]
    found = sum(len(text.encode()) for text in texts) / MB / float(seconds)
    print(f"{'Gopher: datatrove itself, with spaCy':44} {found:8.2f} MB/s a core   ({kept} outputs pass)")
    return found


def corpus_texts(files: Sequence[Path]) -> list[str]:
    found = []
    for file in files:
        for chunk in read_chunks(str(file)):
            for line, raw in chunk.items:
                found += [record.text for record in parse_line(raw, chunk.source, line, FieldMapping())]
    return found


def worked(files: Sequence[Path], every: int) -> int:
    """Answers that a worker judges: lines unpacked, mapped, judged and placed, in their groups' languages."""
    job, known = ScanJob(keys=("model",)), dict[GroupKey, str]()
    found = 0
    for file in files:
        for n, chunk in enumerate(read_chunks(str(file))):
            part = parse_chunk(replace(chunk, items=chunk.items[::every]), job)
            if n == 0:
                known = {**infer_languages(part.records, job, known), **known}
            found += len(detect_chunk(part, job, known).judged)
    return found


def speed(name: str, judge: Callable[[Sequence[str]], object], texts: Sequence[str], rounds: int) -> float:
    """MB of text (UTF-8) a CPU second, the best of the rounds; printed."""
    size = sum(len(text.encode()) for text in texts)
    best = 0.0
    for _ in range(rounds):
        began = time.process_time()
        judge(texts)
        best = max(best, size / MB / (time.process_time() - began))
    print(f"{name:44} {best:8.2f} MB/s a core   ({size / MB:.1f} MB)", flush=True)
    return best


def scanned(file: Path, workers: int, *options: str) -> Family:
    """A scan of this file, watched."""
    scan = [sys.executable, "-m", "stresstest", "--display", "none", "scan", str(file), "--json"]
    return watched([*scan, "--workers", str(workers), *options])


def repeated(files: Sequence[Path], megabytes: int, folder: Path) -> Path:
    """The corpus again and again in one file, every id its own."""
    target = folder / f"{megabytes}.jsonl"
    rows = [raw for file in files for chunk in read_chunks(str(file)) for _, raw in chunk.items]
    written = n = 0
    with target.open("wb") as out:
        while written < megabytes * MB:
            for raw in rows:
                row = raw if isinstance(raw, dict) else json.loads(raw)
                n += 1
                written += out.write(json.dumps({**row, "id": f"{row.get('id')}/{n}"}).encode() + b"\n")
                if written >= megabytes * MB:
                    break
    return target


def by_language(files: Sequence[Path], rounds: int) -> None:
    """The same for the coherent answers of each language, and how fast that is against English."""
    texts: dict[str, list[RecordedText]] = defaultdict(list)
    for file in files:
        for chunk in read_chunks(str(file)):
            for line, raw in chunk.items:
                for record in parse_line(raw, chunk.source, line, FieldMapping()):
                    spec = DetectorSpec(language=record.language or "en")
                    texts[record.language or "en"].append(RecordedText(record.text, spec))
    found: dict[str, float] = {}
    for language in ("en", *sorted(texts.keys() - {"en"})):
        warm_up(language)
        answers = texts[language]
        sound = [a for a, v in zip(answers, detect_many(answers), strict=True) if not v.degenerate]
        judge = partial(_judge_all, sound)
        found[language] = speed(language, judge, [answer.text for answer in sound], rounds)
        print(f"  {found[language] / found['en']:.2f} × English")


def _judge_all(answers: Sequence[RecordedText], _: Sequence[str]) -> object:
    return detect_many(answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, default=Path(), help="folder of *.jsonl.gz")
    parser.add_argument("--every", type=int, default=1, help="take every n-th output only")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--big", type=int, default=0, help="MB of the larger file for time and memory of all processes"
    )
    parser.add_argument("--datatrove", help="python that has datatrove and spaCy")
    parser.add_argument(
        "--languages", type=Path, help="folder of *.jsonl.gz in several languages: only these"
    )
    options = parser.parse_args()
    if options.languages:
        by_language(sorted(options.languages.glob("*.jsonl.gz")), options.rounds)
        return
    files = sorted(options.corpus.glob("*.jsonl.gz"))
    every = options.every
    texts = corpus_texts(files)[::every]
    spec = DetectorSpec(language="en")
    warm_up("en")

    def ours(texts: Sequence[str]) -> list[GenerationVerdict]:
        return detect_many([RecordedText(text, spec) for text in texts])

    flagged = [verdict.degenerate for verdict in ours(texts)]
    gc.collect()
    gc.freeze()  # as a worker of scan does: the texts themselves are none of its garbage
    healthy = [text for text, bad in zip(texts, flagged, strict=True) if not bad]
    scan = speed("scan: screen and suite, all detectors", ours, texts, options.rounds)
    speed("the same, outputs without a symptom", ours, healthy, options.rounds)
    speed(
        "a worker of scan: records to verdicts", lambda _: worked(files, options.every), texts, options.rounds
    )
    rival = speed("Gopher's rules, words at white space", gophers, texts, options.rounds)
    print(f"scan ÷ Gopher at white space: {scan / rival:.1f}")
    if options.datatrove:
        theirs = datatrove(options.datatrove, texts)
        print(f"scan ÷ datatrove: {scan / theirs:.1f}")
    speed("the suite alone", lambda t: [detect_text(text, spec) for text in t], texts[::20], 1)
    print(f"{sum(flagged)} of {len(texts)} outputs degenerate")
    if options.big:
        with tempfile.TemporaryDirectory() as folder:
            processes(files, options.big, Path(folder))


def processes(files: Sequence[Path], big: int, folder: Path) -> None:
    """One worker and two over one file, by turns; then what a larger file and other containers need."""
    small = repeated(files, big // 4, folder)
    runs: dict[int, list[Family]] = {1: [], 2: []}
    for workers in (1, 2, 1, 2):
        runs[workers].append(scanned(small, workers))
    walls = {workers: min(run.wall for run in found) for workers, found in runs.items()}
    for workers, found in runs.items():
        print(f"{big // 4} MB, {workers} workers: {min(found, key=lambda run: run.wall)}", flush=True)
    print(f"two workers ÷ one: {walls[1] / walls[2]:.2f} times as fast")
    out = str(folder / "verdicts.jsonl")
    print(f"{big} MB, 2 workers: {scanned(repeated(files, big, folder), 2, '--out', out)}", flush=True)
    zipped = folder / "small.jsonl.gz"
    with small.open("rb") as plain, gzip.open(zipped, "wb", 6) as packed:
        shutil.copyfileobj(plain, packed)
    print(f"{big // 4} MB gzipped, 2 workers: {scanned(zipped, 2)}")


if __name__ == "__main__":
    main()
