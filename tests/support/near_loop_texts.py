"""Texts for the near-loop tests: healthy prose from the lab's grammars, and false friends."""

from __future__ import annotations

import random

from tests.lab.grammar import StoryWriter, numbered


def prose(seed: int, units: int = 12, language: str = "en", task: str = "narrative") -> str:
    """Healthy text of numbered units, no sentence twice."""
    return numbered(language, task, StoryWriter(language, task, random.Random(seed)).units(units))


_KEYS = ["Ada", "Bo", "Cleo", "Dag", "Eva", "Finn", "Gus", "Hal", "Ida", "Jon", "Kai", "Lea", "Max", "Nia"]
_TOWNS = ["Rome", "Oslo", "Lyon", "Bern", "Kiel", "Graz", "Nice", "Bari", "Metz", "Ulm", "Cork", "Bath"]
_GOODS = ["apples", "bricks", "candles", "drums", "envelopes", "flutes", "gloves", "hats", "inks", "jars"]
_VERBS = ["carries", "paints", "counts", "sells", "hides", "mends", "weighs", "packs", "sorts", "burns"]


def _facts(seed: int) -> list[tuple[str, str, str, str]]:
    rng = random.Random(seed)
    return [
        (rng.choice(_KEYS), rng.choice(_TOWNS), rng.choice(_GOODS), rng.choice(_VERBS)) for _ in range(60)
    ]


def false_friends(seed: int = 1) -> dict[str, str]:
    """Healthy text that repeats by its nature, long enough to be accused; by name."""
    facts = _facts(seed)
    rng = random.Random(seed)
    refrain = "And the river goes down to the sea, my love, the river goes down to the sea."
    verses = [line for line in prose(seed, 16).splitlines() if line]
    clause = (
        "Nothing in this section shall limit the liability of either party for fraud, wilful misconduct or"
        " any other liability that cannot be excluded under the applicable law."
    )
    return {
        "list with parallel wording": "\n".join(
            f"- {who} of {town} {verb} {goods} for the market, because {town} needs {goods} in winter."
            for who, town, goods, verb in facts
        ),
        "table": "\n".join(
            f"| {n} | {who} | {town} | {rng.randint(1, 999)} | ok |"
            for n, (who, town, *_) in enumerate(facts)
        ),
        "ruler": "Name  Value\n" + ("=" * 70 + "\n" + "- " * 40 + "\n") * 12,
        "multiple choice": "\n\n".join(
            f"{n}. Which town {verb} {goods}, according to {who}?\na) {town}\nb) {a}\nc) {b}\n"
            f"d) None of these\nAnswer: a) {town}"
            for n, ((who, town, goods, verb), a, b) in enumerate(
                zip(facts, rng.choices(_TOWNS, k=60), rng.choices(_TOWNS, k=60), strict=True), 1
            )
        ),
        "citations": "\n".join(
            f"[{n}] {who}, {who[0]}. ({rng.randint(1950, 2023)}). On {goods}. {town} University"
            f" Press, {rng.randint(1, 40)}({rng.randint(1, 9)}), {rng.randint(1, 99)}-{rng.randint(301, 600)}"
            for n, (who, town, goods, _) in enumerate(facts, 1)
        ),
        "timestamps": "\n".join(
            f"2026-03-{rng.randint(1, 28):02} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:"
            f"{rng.randint(0, 59):02} INFO worker {rng.randint(1, 9)} request {rng.randint(1000, 9999)} done"
            for _ in range(120)
        ),
        "JSON array of alike objects": "[\n"
        + ",\n".join(
            f'  {{"id": {n}, "name": "{who}", "state": "on", "type": "user", "score": {rng.random():.2f}}}'
            for n, (who, *_) in enumerate(facts, 1)
        )
        + "\n]",
        "JSON array of numbers": "["
        + ", ".join(
            f'{{"x": {rng.randint(0, 99)}, "y": {rng.randint(0, 99)}, "ok": true}}' for _ in range(80)
        )
        + "]",
        "code": "\n\n".join(
            f"    def {verb}_{goods}(self, {who.lower()}: int) -> int:\n"
            f'        """{verb.title()} the {goods} of {town}."""\n'
            f"        total = self.{goods} + {who.lower()} * {rng.randint(2, 90)}\n        return total"
            for who, town, goods, verb in facts
        ),
        "screenplay": "\n\n".join(
            f"{who.upper()}\n({rng.choice(['quietly', 'laughing', 'to the door', 'after a pause'])})\n{line}"
            for (who, *_), line in zip(facts, verses, strict=False)
        ),
        "poem with a refrain": "\n\n".join(f"{verse}\n{refrain}\n{refrain}" for verse in verses),
        "legal boilerplate": "\n\n".join(f"{n}. {verse}\n{clause}" for n, verse in enumerate(verses, 1)),
        "multiplication table": "\n".join(
            f"{a} times {b} equals {a * b}." for a in range(2, 10) for b in range(1, 11)
        ),
        "recipe steps": "\n".join(
            f"Step {n}: add {rng.randint(10, 400)} g of {goods}, stir for {rng.randint(2, 30)} minutes."
            for n, (_, _, goods, _) in enumerate(facts, 1)
        ),
    }
