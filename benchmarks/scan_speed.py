"""How fast `scan` is: MB of response text a second and core, beside the panel alone and Gopher's rules.

Same outputs, one run, CPU time of this process; the cheapest of several rounds counts, since other load on
the machine only ever adds. Gopher's rules twice: in datatrove's shape with words split at white space, and
with `--datatrove` datatrove's own filter, words cut by spaCy, run by an interpreter that has both. Then wall
time with one worker and with two, and the peak memory over a corpus repeated to two sizes: its slope is what
a larger file would add.

    python benchmarks/scan_speed.py --corpus DIR [--datatrove OTHER/bin/python] [--big 300]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from stresstest.detectors import PanelSpec, judge_text, warm_up
from stresstest.detectors.recorded import Recorded, judge_many
from stresstest.model import Verdict
from stresstest.records import Mapped, chunks, records

MB = 1e6
_TOP = {2: 0.20, 3: 0.18, 4: 0.16}
_DUPLICATE = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
_MEASURE = """
import os, sys, threading, time
from pathlib import Path
from stresstest.cli.main import main

def resident(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)

def family():
    group = os.getpgid(0)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == group:
                    yield int(entry.name)
            except OSError:
                pass

peak = [0, 0]

def watch():
    while True:
        sizes = {pid: resident(pid) for pid in family()}
        peak[0] = max(peak[0], sizes.pop(os.getpid(), 0))
        peak[1] = max(peak[1], max(sizes.values(), default=0))
        time.sleep(0.1)

if __name__ == "__main__":
    os.setpgid(0, 0)
    threading.Thread(target=watch, daemon=True).start()
    try:
        main()
    except SystemExit:
        pass
    print(*peak, file=sys.stderr)
"""


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
        for chunk in chunks(str(file)):
            for line, raw in chunk.items:
                found += [record.text for record in records(raw, chunk.source, line, Mapped())]
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


def memory(files: Sequence[Path], workers: int) -> tuple[int, int, float]:
    """(peak MB of the parent, of its largest child, wall seconds) of a scan of these files."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "measure.py"
        script.write_text(_MEASURE, encoding="utf-8")
        options = ["--lang", "en", "--json", "--workers", str(workers)]
        command = [sys.executable, str(script), "--display", "none", "scan", *map(str, files), *options]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    parent, child = (int(size) for size in done.stderr.split()[-2:])
    return parent, child, time.monotonic() - began


def repeated(files: Sequence[Path], megabytes: int, folder: Path) -> Path:
    """The corpus again and again in one file, every id its own."""
    target = folder / f"{megabytes}.jsonl"
    rows = [raw for file in files for chunk in chunks(str(file)) for _, raw in chunk.items]
    written = n = 0
    with target.open("wb") as out:
        while written < megabytes * MB:
            for raw in rows:
                row = json.loads(raw) if isinstance(raw, bytes) else raw
                n += 1
                written += out.write(json.dumps({**row, "id": f"{row.get('id')}/{n}"}).encode() + b"\n")
                if written >= megabytes * MB:
                    break
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of *.jsonl.gz")
    parser.add_argument("--every", type=int, default=1, help="take every n-th output only")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--big", type=int, default=0, help="MB of the larger file for the memory slope")
    parser.add_argument("--datatrove", help="python that has datatrove and spaCy")
    options = parser.parse_args()
    files = sorted(options.corpus.glob("*.jsonl.gz"))
    texts = corpus_texts(files)[:: options.every]
    spec = PanelSpec(language="en")
    warm_up("en")

    def ours(texts: Sequence[str]) -> list[Verdict]:
        return judge_many([Recorded(text, spec) for text in texts])

    flagged = [verdict.degenerate for verdict in ours(texts)]
    healthy = [text for text, bad in zip(texts, flagged, strict=True) if not bad]
    scan = speed("scan: screen and panel, all detectors", ours, texts, options.rounds)
    speed("the same, outputs without a symptom", ours, healthy, options.rounds)
    rival = speed("Gopher's rules, words at white space", gophers, texts, options.rounds)
    print(f"scan ÷ Gopher at white space: {scan / rival:.1f}")
    if options.datatrove:
        theirs = datatrove(options.datatrove, texts[::4])
        print(f"scan ÷ datatrove: {scan / theirs:.1f} (on every fourth output)")
    speed("the panel alone", lambda t: [judge_text(text, spec) for text in t], texts[::20], 1)
    print(f"{sum(flagged)} of {len(texts)} outputs degenerate")
    if options.big:
        with tempfile.TemporaryDirectory() as folder:
            small, big = (repeated(files, n, Path(folder)) for n in (options.big // 4, options.big))
            for file, workers in ((small, 1), (small, 2), (big, 2)):
                parent, child, wall = memory([file], workers)
                print(f"{file.stem:>5} MB, {workers} workers: peak {parent} + {child} MB, {wall:.1f} s")


if __name__ == "__main__":
    main()
