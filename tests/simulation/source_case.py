"""The source case's table, row by row: what is run on which scenario, and what must come out."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.campaigns import Campaign, campaign

QWEN = "qwen2.5-7b-awq-it"
TOPICS = (
    "un faro abbandonato", "la mappa della nonna", "un treno che non arriva", "il mercato del sabato",
    "una lettera senza mittente", "la bottega del liutaio", "una valle sommersa", "il custode del museo",
    "un inverno in montagna", "la casa sul fiume",
)  # fmt: skip
_MANNERS = ("", ", ricca di dialoghi", ", in tono ironico", ", al tempo presente")
_TASK = """\
name = "source"
summary = "The source case's own prompts"
units = "paragraphs"
[languages.it]
instruction = "Scrivi una storia in {{topic}}."
unit_pattern = '^Paragrafo (\\d+)'
tokens_per_unit = 90
topics = {topics}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A setting of the source case.

    source: what was seen there. symptoms: the first ones that may come out. onset: where, in output tokens.
    None: healthy. asked: paragraphs of the source's own prompts, empty for the shipped task's. as_task: they
    are given as a task file, not as prompts: structure is judged only where a task says what a unit is.
    """

    name: str
    source: str
    scenario: str
    options: tuple[str, ...]
    symptoms: frozenset[str]
    onset: tuple[int, int] | None
    asked: tuple[int, ...] = ()
    as_task: bool = False

    def run(self, folder: Path) -> Campaign:
        """The row's campaign, observed to the end (`--no-abort`)."""
        options = ["--no-abort", "--concurrency", "6", *self.options]
        if self.asked and self.as_task:
            path = folder / "source.toml"
            path.write_text(self._task(), encoding="utf-8")
            options += ["--task", str(path)]
        elif self.asked:
            path = folder / "prompts.jsonl"
            path.write_text(self._prompts(), encoding="utf-8")
            options += ["--prompts", str(path)]
        return campaign(self.scenario, folder, *options)

    def _wishes(self) -> list[str]:
        """The source's prompts as it wrote them, forty, lengths and topics in turn."""
        return [
            f"{units} paragrafi numerati (Paragrafo 1, Paragrafo 2, …) su {topic}{manner}"
            for manner in _MANNERS[: 4 // len(self.asked)]
            for topic in TOPICS
            for units in self.asked
        ]

    def _prompts(self) -> str:
        said = [[{"role": "user", "content": f"Scrivi una storia in {wish}."}] for wish in self._wishes()]
        return "\n".join(json.dumps({"messages": each}) for each in said)

    def _task(self) -> str:
        """The same prompts as a task of the user's own, which may say how its units are numbered."""
        topics = json.dumps(self._wishes(), ensure_ascii=False)
        return _TASK.format(topics=topics)


def asked_units(prompt_text: str) -> int:
    """The paragraphs that one of the source's prompts asked for."""
    found = re.search(r"in (\d+) paragrafi", prompt_text)
    assert found is not None
    return int(found[1])


_ITALIAN = ("--lang", "it", "--horizon", "8192")
_PENALTY = ("--repetition-penalty", "1.2")

LOOP = Row(
    "Qwen, Italian, 75 paragraphs, penalty 1.0",
    "loop at paragraph 16, ~800–1,000 tokens, never ends",
    QWEN,
    (*_ITALIAN, "--repetition-penalty", "1.0", "--horizon", "2048"),
    frozenset({"loop"}),
    (800, 1000),
    asked=(75,),
)
DRIFT = Row(
    "Qwen, Italian, 75 paragraphs, penalty 1.2",
    "no loop, 75 reached, Italian → English from ~§66",
    QWEN,
    (*_ITALIAN, *_PENALTY),
    frozenset({"language_drift"}),
    (5000, 5500),
    asked=(75,),
)
CONSTRAINED = Row(
    "Qwen, 75 to 200 paragraphs, penalty 1.2, only Italian",
    "stable 1–63, drift 64–83, collapse and flooding 84–86; the same whatever is asked",
    QWEN,
    (*_ITALIAN, *_PENALTY, "--system-prompt", "Rispondi solo in italiano."),
    frozenset({"structure_break"}),
    (5000, 5500),
    asked=(75, 100, 150, 200),
    as_task=True,
)
MISTRAL_IT = Row(
    "Mistral, Italian, 75 paragraphs, penalty 1.2",
    "collapse at §3–4, ~200 tokens",
    "mistral-7b-fp8-it",
    ("--lang", "it", "--horizon", "1024", *_PENALTY),
    frozenset({"gibberish"}),
    (170, 260),
    asked=(75,),
)
MISTRAL_FR = Row(
    "Mistral, French, penalty 1.2",
    "collapse at §4, ~300 tokens",
    "mistral-7b-fp8-fr",
    ("--lang", "fr", "--horizon", "1024", *_PENALTY),
    frozenset({"gibberish"}),
    (250, 350),
)
MISTRAL_TECHNICAL = Row(
    "Mistral, technical, ~400 tokens",
    "coherent",
    "mistral-7b-fp8-it",
    ("--lang", "it", "--task", "technical", "--horizon", "512", *_PENALTY),
    frozenset(),
    None,
)
ROWS = (LOOP, DRIFT, CONSTRAINED, MISTRAL_IT, MISTRAL_FR, MISTRAL_TECHNICAL)
