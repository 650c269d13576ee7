"""Renders recorded answers for blind reading: `python -m tests.real.reading RAW --folder DIR --key KEY`.

Each answer becomes a numbered text file with its prompt and nothing of how it was made or judged. Which
answers are read, and under which number, is settled by the plan, not by what was recorded: one of every cell
of the grid, a second one of half the cells, and the mild plan. Running it again adds what has been recorded
since.
"""

from __future__ import annotations

import argparse
import json
import random
from itertools import islice
from pathlib import Path

from tests.real.cells import mild_plan, plan
from tests.real.recordings import Recording, read_raw

READ = 216
"""Answers of the grid."""
ORDER_SEED = 216
EVERY = 10
INSTRUCTIONS = Path(__file__).with_name("INSTRUCTIONS.md")


def chosen() -> dict[int, str]:
    """Number to key of the answers that are read: the grid's, shuffled, then the mild ones, shuffled."""
    order = random.Random(ORDER_SEED)
    keys = [planned.key for planned in islice(plan(), READ)]
    mild = [planned.key for planned in mild_plan()]
    order.shuffle(keys)
    order.shuffle(mild)
    return dict(enumerate([*keys, *mild], 1))


def render(number: int, recording: Recording) -> str:
    """One answer as its readers see it. One that we closed is told like one that reached the cap."""
    ended = recording.finish_reason == "stop"
    ending = (
        "[the model ended the answer here by itself]"
        if ended
        else "[the answer was cut off here from outside]"
    )
    return (
        f"ANSWER {number:03d}\n\n=== PROMPT ===\n{recording.prompt}\n\n=== ANSWER ===\n"
        f"{numbered(recording.text)}\n\n{ending}\n"
    )


def numbered(text: str) -> str:
    """The text with a mark before word 1, 11, 21, …; words are counted at white space."""
    parts: list[str] = []
    count, inside = 0, False
    for ch in text:
        if not ch.isspace() and not inside:
            if count % EVERY == 0:
                parts.append(f"‹{count + 1}› ")
            count += 1
        inside = not ch.isspace()
        parts.append(ch)
    return "".join(parts).rstrip() + f"\n\n[{count} words]"


def main() -> None:
    """Write the files that can be written."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True, help="which number is which; not for the readers")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    found = {recording.key: recording for path in args.raw for recording in read_raw(path)}
    written = 0
    for number, key in chosen().items():
        if key in found:
            (args.folder / f"{number:03d}.txt").write_text(render(number, found[key]), "utf-8")
            written += 1
    (args.folder / "INSTRUCTIONS.md").write_text(INSTRUCTIONS.read_text("utf-8"), "utf-8")
    args.key.write_text(json.dumps(chosen(), indent=1) + "\n", "utf-8")
    print(f"{written} of {len(chosen())} answers in {args.folder}")


if __name__ == "__main__":
    main()
