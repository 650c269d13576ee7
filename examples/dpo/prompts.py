"""Prints story prompts as a --prompts file: `python prompts.py held-out`, or `train`, or `technical`.

64 stories each, or more with --count. The two parts have neither a character nor an event in common.
`technical` is another task: 24 explanations.
"""

from __future__ import annotations

import argparse
import json
import sys

TECHNICAL = "technical"
WHO = {
    "held-out": (
        "a lighthouse keeper, a night nurse, a clockmaker, a young postman, a violin maker, a "
        "ferry captain, a school librarian, a beekeeper, a retired detective, a mountain guide, a "
        "piano tuner, a baker, a street photographer, a ship's cook, a map collector, a theatre "
        "cleaner"
    ),
    "train": (
        "a train driver, a glassblower, a cave diver, a toy repairer, a village doctor, a radio "
        "operator, a shepherd, a circus acrobat, a bridge engineer, a perfume maker, a "
        "fisherman's daughter, a watchman, a botanist, a chess teacher, a translator, a "
        "bookbinder"
    ),
}
WHAT = {
    "held-out": (
        "who finds a letter with no address; who hears music in an empty house; who must cross a "
        "frozen river at night; who keeps a promise made long ago; who is given the wrong "
        "suitcase; who meets a stranger in the fog; who gets lost in a market; who repairs what "
        "nobody wanted repaired; who waits for the last boat; who discovers a hidden garden; who "
        "loses a key before the storm; who teaches a child to read the stars; who returns to a "
        "village that has changed; who is mistaken for somebody famous; who finds a map inside a "
        "violin; who saves an old theatre"
    ),
    "train": (
        "who follows a trail of blue paint; who finds a door behind a waterfall; who inherits a "
        "broken telescope; who is asked to guard a box; who misses a train and makes a friend; "
        "who writes to the sea every week; who shelters a runaway horse; who solves a quarrel "
        "between neighbours; who wakes up in the wrong season; who builds a boat in the attic; "
        "who hears a voice on the telephone; who wins a race by accident; who plants a tree in "
        "the snow; who searches for a missing bell; who spends a night in a museum; who gives "
        "away a secret"
    ),
}
EXPLAINED = (
    "how a bicycle stays upright; how a refrigerator cools; how a lock on a canal works; why the "
    "sky is blue; how a vaccine works; how a compass finds north; how bread dough rises; what a "
    "transistor does; how sonar measures depth; why metals conduct electricity; how a search engine "
    "ranks pages; how a microwave oven heats food; what causes the tides; how a jet engine produces "
    "thrust; how soap removes grease; what a database index is for; how a battery stores energy; "
    "why ships of steel float; how a lens forms an image; how noise-cancelling headphones work; how "
    "a suspension bridge carries its load; what a compiler does; how a touch screen feels a finger; "
    "how photosynthesis works"
)


def prompts(part: str, count: int = 64) -> list[dict[str, object]]:
    """Every character four times, with another event each time; or what is to be explained."""
    if part == TECHNICAL:
        asked = [f"Explain in about 150 words {topic}." for topic in EXPLAINED.split("; ")]
        return [
            {"id": f"{part}-{number}", "messages": [{"role": "user", "content": text}]}
            for number, text in enumerate(asked[:count])
        ]
    who, what = WHO[part].split(", "), WHAT[part].split("; ")
    topics = [f"{who[i % 16]} {what[(i + 5 * (i // 16)) % 16]}" for i in range(count)]
    return [
        {
            "id": f"{part}-{number}",
            "messages": [{"role": "user", "content": f"Write a story of about 200 words about {topic}."}],
        }
        for number, topic in enumerate(topics)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=[*WHO, TECHNICAL])
    parser.add_argument("--count", type=int, default=64)
    asked = parser.parse_args()
    for row in prompts(asked.part, asked.count):
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
