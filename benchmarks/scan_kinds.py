"""How a scan's time grows with the length of one answer, for thirty kinds of text.

python -m benchmarks.scan_kinds [--largest 200_000] [--times 3] [--write] [KIND…]

CPU seconds at two lengths, one twice the other, the least of several times. Time at twice the length: 2
where it is linear. Against prose: the ratio to English prose of the same length in the same run.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.input_kinds import KINDS, text_of
from benchmarks.pages import table, write_section
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.screening.recorded import detect_recorded

PAGE = "results/reliability.md"


def seconds(kind: str, characters: int) -> float:
    """CPU seconds to detect in one answer of this kind and length."""
    text = text_of(kind, characters)
    began = time.process_time()
    detect_recorded(text, DetectorSpec("en"), "length")
    return time.process_time() - began


def least(kind: str, characters: int, times: int) -> float:
    """The least of several measurements: other programs only add to one."""
    return min(seconds(kind, characters) for _ in range(times))


def main() -> None:
    """Print a Markdown table, the dearest kind first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--largest", type=int, default=100_000, help="characters of the longest answer")
    parser.add_argument("--times", type=int, default=3, help="measurements of each kind and length")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE}")
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    asked = parser.parse_args()
    for kind in ("prose", "unique words", "random letters"):
        seconds(kind, 20_000)  # loads what all share
    prose = least("prose", asked.largest, 2 * asked.times)
    rows = []
    for kind in asked.kinds:
        half, whole = (least(kind, n, asked.times) for n in (asked.largest // 2, asked.largest))
        rows.append((whole / prose, [kind, f"{whole / max(half, 1e-3):.1f}", f"{whole / prose:.1f}"]))
        print(*rows[-1][1], sep="  ", flush=True)
    head = ["kind of text", "time at twice the length", "against prose"]
    text = table(head, [row for _, row in sorted(rows, key=lambda row: row[0], reverse=True)])
    within = sum(ratio <= 3 for ratio, _ in rows)
    text = (
        f"Answers of {asked.largest:,} characters, scanned for English, the least of {asked.times} "
        f"measurements.\n{within} of {len(rows)} kinds cost at most three times what prose costs.\n\n{text}"
    )
    print(f"\n{text}")
    if asked.write:
        write_section(PAGE, "kinds", text)


if __name__ == "__main__":
    main()
