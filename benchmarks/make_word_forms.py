"""Make the lists of word forms (`stresstest/detectors/languages/*.forms`) from plain lists, one word a line.

    python -m benchmarks.make_word_forms it 280000_parole_italiane.txt coniugazione_verbi.txt

Names and figures in the lists do no harm. The sources are named in `stresstest/detectors/languages/FORMS.md`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from stresstest.detectors.languages import word_forms

_WORD = re.compile(r"[^\W\d_]+")


def main() -> None:
    """Read the lists and write the file of one language."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", help="its code, such as it")
    parser.add_argument("lists", type=Path, nargs="+")
    args = parser.parse_args()
    words = (word for path in args.lists for word in _WORD.findall(path.read_text(encoding="utf-8")))
    found = word_forms.WordForms.of(words)
    path = Path(word_forms.__file__).with_name(f"{args.language}.forms")
    path.write_bytes(found.data)
    print(f"{path}: {len(found.data):,} bytes")


if __name__ == "__main__":
    main()
