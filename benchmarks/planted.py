"""What our detectors find of failures planted into healthy real text, by kind: how often, where, how late.

    python -m benchmarks.planted --corpus PATH [--kinds loop …] [--texts 300] [--write docs/detectors.md]

Hosts are the outputs of the corpus that carry no label and the answers of its `language` folder labelled
good, several of one language joined; every language equally often. The failure begins 120 to 500 words into a
host. The whole suite judges, told the language. Found is a confirmed symptom that begins in the failure, or
at most `EARLY` words before it; one that begins earlier is counted as a false alarm on the host.
"""

from __future__ import annotations

import argparse
import json
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from statistics import median

from benchmarks import planting
from benchmarks.detectors import LABELS, outputs
from benchmarks.language import answers, digest, read_again
from benchmarks.planting import Host, Plant, Planted, Source, Speech
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.suite import detect_tokens
from stresstest.detectors.text.tokens import text_tokens
from stresstest.detectors.verdict import WARNING_LOOKBACK

EARLY = WARNING_LOOKBACK
"""Words before the failure at which a symptom still counts as having found it."""
NEAR = 5
"""Words within which an onset is counted as right."""
FIRST, LAST = 120, 500
"""Words of a host before the failure."""
LONG = 800
"""Words of a near-loop with edits, far below what a model writes that goes on to its cap."""
DEEP = 1300
"""The same for what is long itself."""
ENDS = ".!?。।！？؟"


@dataclass(slots=True)
class Cell:
    """What became of the plants of one kind. errors: onset − truth; delays: alarm − truth, in words."""

    planted: int = 0
    before: int = 0
    errors: list[int] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    symptoms: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    languages: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))

    @property
    def found(self) -> int:
        """How many were found."""
        return len(self.errors)


def kinds() -> dict[str, dict[str, Plant]]:
    """Group → cell → plant."""
    p = planting
    periods = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1200)
    loops = {f"period {n}": p.loop(n, max(3 * n, n + 80, 300 if n < 3 else 60)) for n in periods}
    loops["period 40, just three copies"] = p.loop(40, 80)
    loops["period 300, third copy begun"] = p.loop(300, 365)
    loops["period 6, healthy again"] = p.loop(6, 90, back=True)
    loops["period 60, healthy again"] = p.loop(60, 300, back=True)
    near = {f"counter, {n} words": p.counting(n, 3 + 240 // n) for n in (8, 20, 50, 120)}
    near["counter, 30 words, healthy again"] = p.counting(30, 9, back=True)
    for size in (15, 40, 100):
        near[f"one word changed, {size} words"] = p.edited(size, LONG, 0, one=True)
    for percent in (1, 2, 3, 5, 7, 10):
        near[f"{percent} % of words edited"] = p.edited(40, LONG, percent / 100)
    for percent in (3, 5, 10):
        near[f"{percent} % edited, each copy of the last"] = p.edited(40, LONG, percent / 100, onward=True)
    near["5 % edited, 150 words"] = p.edited(150, LONG, 0.05)
    near["two templates in turn"] = p.alternating(LONG)
    near["two templates in turn, 1,600 words"] = p.alternating(2 * LONG)
    near["3 sentences in changing order"] = p.circling(3, LONG)
    near["6 sentences in changing order"] = p.circling(6, LONG)
    near["8 short sentences drawn at random"] = p.drawn(8, LONG)
    floods = {f"{n} word{'s' * (n > 1)}": p.flood(n, 120) for n in (1, 2, 3, 4)}
    writers: dict[str, planting.Writer] = {
        "random letters": p.letters,
        "invented words": p.invented,
        "invented among function words": p.jabber,
        "fragments of words": p.fragments,
        "words of all languages": p.scripts,
        "mojibake": p.mojibake,
        "replacement characters": p.replaced,
        "words from the vocabulary": p.salad,
        "words as often as used": p.frequent,
        "three letters only": p.dead,
        "signs and letters": p.noise,
    }
    gibberish = {f"{name}": p.gibberish(writer, 100) for name, writer in writers.items()}
    gibberish["invented words, no stops"] = p.gibberish(p.invented, 100, punctuated=False)
    gibberish["fragments, no stops"] = p.gibberish(p.fragments, 100, punctuated=False)
    gibberish["random letters, 30 words"] = p.gibberish(p.letters, 30, back=True)
    return {
        "Exact loops": loops,
        "Near-loops": near,
        "Flooding": floods,
        "Gibberish": gibberish,
        "Truncation": {"in mid-sentence": truncated},
    }


def truncated(host: Host, at: int, rng: random.Random, source: Source) -> Planted | None:
    """The model stops by itself in the middle of a sentence, four words or more into it."""
    del source
    first = at
    while first > 0 and host.pieces[first - 1].strip() not in ENDS:
        first -= 1
    end = first
    while end < len(host.pieces) and host.pieces[end].strip() not in ENDS and "\n" not in host.pieces[end]:
        end += 1
    words = [i for i in range(first, end) if host.pieces[i].strip()[:1].isalpha()]
    if len(words) < 8 or first < 40 or "\n" in "".join(host.pieces[at - 3 : at]):
        return None
    cut = rng.choice(words[4:-1])
    before = "".join(host.pieces[:first])
    text = "".join(host.pieces[:cut])
    return Planted(text, host.language, len(before), len(text), "stop")


def hosts(corpus: Path) -> dict[str, list[Host]]:
    """Healthy texts by language, each long enough."""
    labelled = {json.loads(line)["id"] for line in LABELS.read_text("utf-8").splitlines()}
    found: dict[str, list[Host]] = defaultdict(list)
    found["en"] = [
        Host(text, "en") for key, text in outputs(corpus) if key not in labelled and len(text) > 2000
    ]
    parts: dict[str, list[str]] = defaultdict(list)
    right = read_again()
    for row in answers(corpus / "language"):
        text, language = row["response"] or "", row["language"]
        label = right.get((row["model"], language, digest(text)), row["label"])
        end = max(text.rfind(mark) for mark in ENDS) + 1
        if label == "good" and end > 60 and "```" not in text:
            parts[language].append(text[:end])
    for language, texts in sorted(parts.items()):
        random.Random(language).shuffle(texts)
        joined: list[str] = []
        for text in texts:
            joined.append(text)
            if sum(map(len, joined)) > (1200 if language in planting.DENSE else 3000):
                found[language].append(Host("\n\n".join(joined), language))
                joined = []
    return dict(found)


def speech(found: dict[str, list[Host]]) -> Source:
    """The words of every language, as the hosts use them."""
    return Source({code: Speech(code, [host.text for host in some[:600]]) for code, some in found.items()})


def plants(
    plant: Plant, found: dict[str, list[Host]], source: Source, count: int, seed: str
) -> Iterator[Planted]:
    """So many planted texts, of every language in turn where it can stand."""
    rng = random.Random(seed)
    languages = sorted(found)
    for number in range(20 * count):
        host = rng.choice(found[languages[number % len(languages)]])
        last = min(LAST, len(host.pieces) - 20)
        at = rng.randint(min(FIRST, last), last)
        planted = plant(host, at, rng, source)
        if planted is None and len(host.pieces) > DEEP:
            planted = plant(host, DEEP, rng, source)
        if planted is not None:
            yield planted
            count -= 1
            if not count:
                return


def measure(cell: Cell, planted: Planted) -> None:
    """Judge one text and count what came of it."""
    tokens = text_tokens(planted.text)
    starts = list(accumulate((len(token.text) for token in tokens), initial=0))
    truth = bisect_right(starts, planted.first)
    verdict = detect_tokens(tokens, DetectorSpec(language=planted.language), planted.finish_reason)
    cell.planted += 1
    tally = cell.languages[planted.language]
    tally[1] += 1
    if verdict.onset is None or verdict.alarm is None:
        return
    if verdict.onset < truth - EARLY:
        cell.before += 1
        return
    tally[0] += 1
    cell.errors.append(verdict.onset - truth)
    cell.delays.append(verdict.alarm - truth)
    cell.symptoms[str(verdict.symptom)] += 1


def table(cells: dict[str, Cell]) -> str:
    """One group's rows."""
    lines = [
        "| planted | n | found | onset within 5 words | error: median | 90 % within | alarm after (median) "
        "| called | false before it |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, cell in cells.items():
        if not cell.planted:
            continue
        share = f"{100 * cell.found / cell.planted:.1f} %"
        row = [name, str(cell.planted), f"{cell.found} ({share})"]
        if cell.found:
            errors = sorted(map(abs, cell.errors))
            called = max(cell.symptoms, key=lambda kind: cell.symptoms[kind])
            near = sum(error <= NEAR for error in errors)
            row += [
                f"{100 * near / cell.found:.0f} %",
                f"{median(cell.errors):+.0f}",
                str(errors[int(0.9 * (len(errors) - 1))]),
                f"{median(cell.delays):.0f}",
                f"{called} {100 * cell.symptoms[called] / cell.found:.0f} %",
            ]
        else:
            row += ["–"] * 5
        lines.append(f"| {' | '.join([*row, str(cell.before)])} |")
    return "\n".join(lines)


HEAD = """
From `python -m benchmarks.planted --corpus PATH --write docs/detectors.md`: a failure is planted 120 to 500
words into a healthy text (1,300 where the failure is longer than that), in each of 15 languages in turn
where that kind of failure is possible. The English texts are the corpus's unlabelled outputs; the others
are answers of its `language` folder labelled good, joined. The whole suite judges, and knows the language.
*Found*: a confirmed symptom of any kind begins in the failure or at most 64 words before it, which is as
far back as the suite dates an onset. *False before it*: one begins earlier. Words are the pieces of
`text_tokens`: characters in Chinese, Japanese and Korean. Edited passages are repeated for 800 words; in
each copy a share of the words is changed, omitted or followed by another word.
"""
TAIL = """
### Missed, and why

- *10 % of words edited*, *one word in 15 changed*: close to lists of similar items, in which one word in
  six differs. Most of these failures are found later: a model that continues to its cap writes more than
  the 800 words planted here.
- *Two templates in turn*: contracts, recipes and counting songs also fill a slot with new words each time,
  so templates need 1,024 words.
- *Words as often as used*: every word exists and is as frequent as it should be; only the order is wrong,
  and it takes a language model to see that. *Invented among function words*: in English, French and
  Italian, lists of word forms reveal them; elsewhere only a lack of function words does, which says little
  where a language has few of them (Arabic, Russian, Turkish, Vietnamese).
- *Fragments of words* in Russian and Arabic: letter statistics cannot distinguish them from rare words of
  healthy prose.
- *Signs and letters*: nothing here distinguishes them from code, formulas and keys.
- *Truncation* is reported only where the text ends its other sentences with a full stop; many of these
  texts are lists, letters and verse. There, a miss is better than a false alarm.
"""
TITLE = "## Planted failures"


def write(page: Path, groups: dict[str, str]) -> None:
    """Replace these groups' tables in the page's section, and keep all else."""
    whole = page.read_text(encoding="utf-8")
    before, title, rest = whole.partition(f"\n{TITLE}\n")
    section, following, after = rest.partition("\n## ")
    section = section.partition(TAIL.splitlines()[1])[0]
    known = dict(part.split("\n", 1) for part in section.split("\n### ")[1:])
    known.update({name: f"\n{text}\n" for name, text in groups.items()})
    body = "".join(f"\n### {name}\n{known[name].rstrip()}\n" for name in kinds() if name in known)
    before = before if title else before.rstrip("\n") + "\n"
    page.write_text(f"{before}\n{TITLE}\n{HEAD}{body}{TAIL}{following}{after}", encoding="utf-8")


def main() -> None:
    """Plant, judge, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument(
        "--kinds", nargs="*", default=[], help="only cells whose group or name holds one of these"
    )
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--by-language", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    found = hosts(options.corpus)
    source = speech(found)
    page: dict[str, str] = {}
    for group, cells in kinds().items():
        done: dict[str, Cell] = {}
        for name, plant in cells.items():
            if options.kinds and not any(
                part.lower() in f"{group}: {name}".lower() for part in options.kinds
            ):
                continue
            done[name] = cell = Cell()
            for planted in plants(plant, found, source, options.texts, f"{group}: {name}"):
                measure(cell, planted)
            if options.by_language:
                shares = (f"{code} {hit}/{n}" for code, (hit, n) in sorted(cell.languages.items()))
                print(f"{name}: {', '.join(shares)}", flush=True)
        if done:
            page[group] = table(done)
            print(f"### {group}\n\n{page[group]}\n", flush=True)
    if options.write:
        write(options.write, page)


if __name__ == "__main__":
    main()
