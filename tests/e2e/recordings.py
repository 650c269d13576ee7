"""The recordings of the lab models that the measurements and tests stand on: which, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stresstest.model import Decoding
from stresstest.render.limits import decoding_words
from tests.e2e.records import RECORDED

UNITS = 60
CAP = 960


@dataclass(frozen=True)
class Recording:
    """One file of recordings. keep: its whole outputs are shipped with the tests, not only the onsets."""

    name: str
    n: int
    language: str = "it"
    task: str = "narrative"
    model: str = "lab"
    decoding: Decoding = field(default_factory=Decoding)
    seed: int = 11
    cap: int = CAP
    keep: bool = True

    @property
    def path(self) -> Path:
        """The whole outputs, or, of a recording that is not kept, where each broke."""
        return RECORDED / f"{self.name}{'.jsonl.gz' if self.keep else '.onsets.json'}"

    def decoding_words(self) -> str:
        """The sampling parameters for people."""
        return decoding_words(self.decoding, nothing="server's default decoding")


GREEDY = Decoding(temperature=0.0, repetition_penalty=1.0)
PENALISED = Decoding(temperature=0.0, repetition_penalty=1.2)

LAB = (
    Recording("lab-narrative-it", 200),
    Recording("lab-narrative-en", 40, "en"),
    Recording("lab-narrative-fr", 40, "fr"),
    Recording("lab-technical-it", 40, task="technical"),
    Recording("lab-technical-en", 20, "en", task="technical"),
    Recording("lab-technical-fr", 20, "fr", task="technical"),
    Recording("lab-narrative-it-greedy", 12, decoding=GREEDY),
    Recording("lab-narrative-it-greedy-1.2", 12, decoding=PENALISED),
)
TRUTH = Recording("lab-narrative-it-truth", 520, seed=7919, keep=False)
"""Its onsets by the parser are the truth that certified bounds are held to."""
SHORT = (
    Recording("short-narrative-it", 40, model="lab-short", cap=640),
    Recording("short-narrative-en", 40, "en", model="lab-short", cap=640),
    Recording("short-technical-it", 20, task="technical", model="lab-short", cap=640),
    Recording("short-narrative-it-greedy", 12, model="lab-short", decoding=GREEDY, cap=640),
)
UNSEEN = (
    Recording("lab-narrative-it-unseen", 200, seed=7919, keep=False),
    Recording("short-narrative-it-unseen", 40, model="lab-short", seed=4242, cap=640, keep=False),
)
"""Nothing was developed on these; only where each output broke is kept."""
UNDERTRAINED = (
    Recording("undertrained-narrative-it", 24, model="lab-undertrained", cap=640),
    Recording("undertrained-narrative-it-greedy", 12, model="lab-undertrained", decoding=GREEDY, cap=640),
    Recording(
        "undertrained-narrative-it-greedy-1.2", 12, model="lab-undertrained", decoding=PENALISED, cap=640
    ),
)
KEPT = (*LAB, *SHORT, *UNDERTRAINED)
ALL = sorted((*KEPT, TRUTH, *UNSEEN), key=lambda r: r.model)
