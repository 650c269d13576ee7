"""What `scan` finds: one judged answer, a group of them, and the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stresstest.model.result import Threshold
from stresstest.model.words import SymptomKind

_EMPTY: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Extent:
    """How far an answer goes and where it fails, on one scale (tokens or words), 1-based.

    onset: first degenerate position, None when healthy. observed: positions known healthy.
    """

    length: int
    observed: int
    onset: int | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer for a person to look at: the text before the onset and from it on, as the model wrote it."""

    id: str
    symptom: SymptomKind
    score: float
    wasted: int
    before: str
    after: str
    summary: str


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one recorded answer, with what the statistics of its group need.

    group: values of the keys to group by. words: positions in words, always known; tokens: in the model's
    tokens, None where only words are. token_source: "record" | "tokenizer" | "estimate" | "empty" | None.
    onset_char, alarm_char: 0-based characters of the answer's text. capped: whether its max_tokens ended it,
    None where nobody knows. tail_repeats: DharmaOCR's text rule. ended/unresolved: as in `Observation`. lost:
    the service gave it up (abort, error, content_filter) before it failed, or is empty with no end known.
    cluster, digest: 64-bit names of prompt and output, 0 for none. length_class: the requested length.
    language: the one it was judged against; language_source: "record" | "given" |
    "group" | "prompt" | "other language than the group's" | "answer".
    """

    id: str
    group: tuple[str | None, ...]
    words: Extent
    tokens: Extent | None = None
    token_source: str | None = None
    symptom: SymptomKind | None = None
    onset_char: int | None = None
    alarm_char: int | None = None
    recovered: bool = False
    loops_to_end: bool = False
    score: float = 0.0
    capped: bool | None = None
    tail_repeats: bool = False
    ended: bool = False
    unresolved: bool = False
    lost: bool = False
    cluster: int = 0
    digest: int = 0
    length_class: float | None = None
    language: str | None = None
    language_source: str | None = None
    shown: Shown | None = None

    @property
    def degenerate(self) -> bool:
        return self.symptom is not None


@dataclass(frozen=True, slots=True)
class LengthEffect:
    """Median onset of the longest requested class over that of the shortest, with a 90 % interval.

    independent: the whole interval lies inside 0.8–1.25. lacking: why there is no ratio.
    """

    shortest: str
    longest: str
    ratio: float | None = None
    lo: float | None = None
    hi: float | None = None
    n_short: int = 0
    n_long: int = 0
    independent: bool = False
    lacking: str | None = None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One group's rate and limit.

    key: group-by key → value. rate_ci: two-sided 95 % (Clopper-Pearson; prompts with several outputs are
    clusters). dharma_rate: over the `dharma_known` requests whose finish reason or cap is known, None when
    there are none. unit: the scale of threshold, wasted and total: "tokens" | "tokens (estimate)" | "words".
    wasted/total: positions from the onset on, and all. healthy_cut: share of healthy requests longer than
    the safe limit (than T where the unit is words). sampled: outputs that the threshold stands on, when
    they are a random part. prompts: distinct ones, None where unknown. languages: language → requests;
    language_sources: where from → requests. empty: answers without a word. uncounted: answers whose tokens
    nobody counted. undecided: healthy ones that ended while a symptom may have been under way; T is chosen
    as if each failed where that begins. clustered: whether a prompt has several outputs.
    """

    key: Mapping[str, str | None]
    requests: int
    degenerate: int
    rate: float
    rate_ci: tuple[float, float]
    threshold: Threshold
    unit: str
    dharma_rate: float | None = None
    dharma_known: int = 0
    symptoms: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    safe_max_tokens: int | None = None
    healthy_cut: float | None = None
    wasted: int = 0
    total: int = 0
    recovered: int = 0
    prompts: int | None = None
    sampled: int | None = None
    languages: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    language_sources: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    by_length: LengthEffect | None = None
    empty: int = 0
    uncounted: int = 0
    undecided: int = 0
    clustered: bool = False


@dataclass(frozen=True, slots=True)
class ScanResult:
    """Everything `scan` prints. damaged: lines without an answer; damaged_examples: the first few, named.

    textless: lines with an answer that needs no text, only tool calls; neither requests nor damage.
    unwritten: why the file of verdicts is not whole; None where it is, or none was asked for.
    """

    requests: int
    damaged: int
    groups: tuple[GroupResult, ...]
    group_by: tuple[str, ...] = ()
    damaged_examples: tuple[str, ...] = ()
    worst: tuple[Shown, ...] = ()
    text_bytes: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    unwritten: str | None = None
    textless: int = 0
