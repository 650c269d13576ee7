"""Blind readers over the leaderboard: sheets of excerpts, and what the labels say of precision.

Every degenerate output of the models that `leaderboard.read_models` names (kept in `models.json` as they
were then, with others that were read later), shuffled with controls that
nothing was found in. An excerpt surrounds the onset; a control's surrounds a random place of an output of the
same models, so that nothing tells the two apart. The sheets hold texts that stay out of the repository; the
labels in `leaderboard_labels/` name outputs by model and number.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.leaderboard import SEED, Judged
from stresstest.statistics.certify import clopper_pearson

LABELS = Path(__file__).parent / "leaderboard_labels"
PER_SHEET = 100
CONTROLS = 4
"""One control for so many degenerate outputs."""
BEFORE, AFTER, MOST = 150, 420, 900
"""Characters of an excerpt: before the onset, after it at least, and after it where the alarm comes late."""
INSTRUCTIONS = """\
Each item shows the beginning of a prompt (P), then an excerpt (A) of a model's answer. «…» stands where text
is left out; [end] where the answer ends. `full/NNNN.txt` holds the whole prompt and answer, for cases of
doubt. You are not told what a detector says of an item; some items are controls.

Write one JSON object a line into `labels-YOURNAME.jsonl`, for every item:
{"n": 17, "degenerate": true, "symptom": "loop", "remark": ""}

degenerate: the answer fails as text somewhere in the excerpt: it repeats itself (loop; near_loop with small
changes; two copies and then normal text are healthy), one word or sign takes over (flooding), it leaves the
language that the prompt wants without having been asked to (language_drift), it is no language any more,
words run together or chained without sentences (gibberish), it gives the prompt back in place of an answer
(prompt_echo), or it continues past the end of its turn, as the user or with the marks of a template
(extra_turns). Wrong facts, bad style, missed instructions, repetition that the prompt asks for, translations
that were asked for, code and tables are healthy.
remark: a few words of your own where you call it healthy or hesitate.
"""


def write_sheets(
    judged: Sequence[Judged],
    chosen: Sequence[str],
    texts: Mapping[str, Sequence[tuple[str, str]]],
    folder: Path,
    read: Collection[str] = (),
) -> int:
    """Write sheets, whole texts and the key. texts: model → (prompt, answer) by line. read: outputs that need
    no second reading. Returns the items."""
    rng = random.Random(SEED)
    of = [each for each in judged if each.model in set(chosen) and each.key not in read]
    failing = [each for each in of if each.symptom is not None]
    healthy = [each for each in of if each.symptom is None and each.words >= 40]
    items = failing + rng.sample(healthy, len(failing) // CONTROLS)
    rng.shuffle(items)
    extents = [_reach(each) for each in failing]
    sheet: list[str] = []
    (folder / "full").mkdir(parents=True, exist_ok=True)
    for n, each in enumerate(items, 1):
        prompt, answer = texts[each.model][each.line - 1]
        if each.onset_char is None:
            at, reach = rng.randrange(max(len(answer) - 60, 1)), rng.choice(extents)
        else:
            at, reach = each.onset_char, _reach(each)
        sheet.append(f"#{n}\nP: {_line(prompt)[:160]}\nA: {_excerpt(answer, at, reach)}\n")
        (folder / "full" / f"{n:04}.txt").write_text(f"{prompt}\n\n=== ANSWER ===\n{answer}\n", "utf-8")
    for start in range(0, len(sheet), PER_SHEET):
        name = f"sheet-{start // PER_SHEET + 1:02}.txt"
        (folder / name).write_text("\n".join(sheet[start : start + PER_SHEET]), "utf-8")
    (folder / "INSTRUCTIONS.md").write_text(INSTRUCTIONS, "utf-8")
    keys = {n: each.key for n, each in enumerate(items, 1)}
    (folder / "key.json").write_text(json.dumps(keys), "utf-8")
    return len(items)


def _reach(each: Judged) -> int:
    late = (each.alarm_char or 0) - (each.onset_char or 0) + 100
    return min(max(AFTER, late), MOST)


def _excerpt(answer: str, at: int, reach: int) -> str:
    start, end = max(at - BEFORE, 0), at + reach
    before, after = ("«…»" if start else ""), (" [end]" if end >= len(answer) else "«…»")
    return before + _line(answer[start:end]) + after


def _line(text: str) -> str:
    return text.replace("\n", " ⏎ ")


def keep_labels(lines: Path, key: Path, reader: str) -> int:
    """A reader's numbered lines as labels by output, beside those that are in the repository."""
    names, target = json.loads(key.read_text("utf-8")), LABELS / f"{reader}.jsonl"
    before = target.read_text("utf-8").splitlines() if target.exists() else []
    kept = {row["key"]: row for row in map(json.loads, before)}
    for row in map(json.loads, lines.read_text("utf-8").splitlines()):
        name = names[str(row["n"])]
        remark = {"remark": row["remark"]} if row.get("remark") else {}
        kept[name] = {"key": name, "degenerate": row["degenerate"], **remark}
    text = "".join(json.dumps(kept[name], ensure_ascii=False) + "\n" for name in sorted(kept))
    target.write_text(text, "utf-8")
    return len(kept)


def kept_models() -> dict[str, list[str]]:
    """The models whose outputs were read, by group: the worst then, random others, others read later, and the
    rest, read last."""
    return {
        group: list(names) for group, names in json.loads((LABELS / "models.json").read_text("utf-8")).items()
    }


def read_labels(reader: str) -> dict[str, bool]:
    """Output → degenerate or not; empty where the reader has no file."""
    path = LABELS / f"{reader}.jsonl"
    if not path.exists():
        return {}
    return {row["key"]: row["degenerate"] for row in map(json.loads, path.read_text("utf-8").splitlines())}


@dataclass(frozen=True, slots=True)
class Precision:
    """Of the outputs that were flagged and read: how many a reader calls degenerate."""

    right: int
    read: int

    @classmethod
    def of(cls, flagged: Sequence[str], labels: Mapping[str, bool]) -> Precision:
        seen = [labels[key] for key in flagged if key in labels]
        return cls(sum(seen), len(seen))

    def __str__(self) -> str:
        if not self.read:
            return "–"
        low, high = clopper_pearson(self.right, self.read)
        share = 100 * self.right / self.read
        return f"{self.right} of {self.read}, {share:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reader", choices=["a", "b", "c"])
    parser.add_argument("lines", type=Path)
    parser.add_argument("key", type=Path)
    args = parser.parse_args()
    print(keep_labels(args.lines, args.key, args.reader), "labels")


if __name__ == "__main__":
    main()
