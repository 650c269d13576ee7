"""The interface of every detector, and its entry in the registry: symptom, traits, and forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stresstest.detectors.languages.named import NOT_NAMED, NamedLanguages
from stresstest.model import Symptom, SymptomKind, Token

if TYPE_CHECKING:
    from stresstest.detectors.text.features import TextFeatures, WordLags
    from stresstest.detectors.text.segments import TextSegmenter
    from stresstest.detectors.text.windows import Flags

T = TypeVar("T")

LAST = 100
"""Precedence of a symptom that does not state one."""

INK = "ink"
"""Colour of a mark that does not state one: the text's own."""

DISC = '<circle cx="6" cy="6" r="3" class="solid"></circle>'
"""Mark of a symptom that brings none."""

NATURAL_FINISH_REASONS = frozenset({"stop", "eos", "end_turn", "stop_sequence"})
"""Finish reasons of a model that chose to end."""
CUT_BY_CAP = "length"
"""The finish reason of an answer that reached its cap."""


class Family(StrEnum):
    """How a symptom shows: one intervention is expected to clear a whole family."""

    REPETITION = "repetition"
    INCOHERENCE = "incoherence"
    TRUNCATION = "truncation"


class Cadence(Enum):
    """When the suite calls a detector's `update`.

    TOKENS: with every token. The detector does not read the shared text, so several tokens may be passed
    in a row before the other detectors receive them. TEXT: with every token, after the shared text has
    taken it. SPANS: only with the tokens that complete a sentence or the head of a line. END: never;
    the detector reads the shared text in `finish`.
    """

    TOKENS = auto()
    TEXT = auto()
    SPANS = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class SymptomInfo:
    """What reports, statistics and diagnosis need to know of a symptom.

    label: its name in reports. description: one line. countable: whether the label has a plural in -s. mark:
    SVG elements in a box of 12 by 12. colour: of the mark, a custom property of report.css. style: of its
    name in a terminal (rich). specimen: text that shows it, which the simulator writes where it has no
    writer for this symptom.

    precedence: of symptoms with the same onset and alarm, the lowest names the verdict.
    needs_logprobs, needs_units, needs_prompt: without them nothing is confirmed.
    by_language: it is judged against the expected language. loop: counts for `recovered` and `loops_to_end`.
    exact_onset: no warning of another detector moves its onset. gradual: text may lose its sense before
    this shows, and the onset is dated back to where it did (`dating`). endless: it has no sentence ends of
    its own, so a truncation inside it is its own doing. caused_by_loop: an exact loop causes it, and is then
    reported alone. ends_answer: it is how the answer ends, not a length at which it fails. remedy: what
    clears it, where the symptom alone tells.
    """

    kind: SymptomKind
    label: str
    description: str
    countable: bool = False
    mark: str = DISC
    colour: str = INK
    style: str = "red"
    specimen: str = ""
    family: Family = Family.INCOHERENCE
    precedence: int = LAST
    needs_logprobs: bool = False
    needs_units: bool = False
    needs_prompt: bool = False
    by_language: bool = False
    loop: bool = False
    exact_onset: bool = False
    gradual: bool = False
    endless: bool = False
    caused_by_loop: bool = False
    ends_answer: bool = False
    remedy: str = ""

    def counted(self, n: int) -> str:
        """The label for `n` of them."""
        return f"{self.label}s" if n != 1 and self.countable else self.label


@dataclass(slots=True)
class SuiteContext:
    """What the detectors of one suite share.

    feed: takes every token before detectors of the cadences TEXT and SPANS do. rise: first token of a lasting
    rise of entropy, once one was found; on_rise: called with it after the token at which it was found.
    units: complete units of the answer so far, None where it has none; headings: numbers of units so far,
    likewise. unit_head: the first token of the record, row or function at whose head a token stands, else
    that token.
    """

    spec: DetectorSpec
    feed: TextSegmenter
    rise: int | None = None
    on_rise: list[Callable[[int], None]] = field(default_factory=list)
    units: Callable[[], int | None] = lambda: None
    headings: Callable[[], int | None] = lambda: None
    unit_head: Callable[[int], int] = lambda position: position


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What a screen returns for a text that may hold the symptom.

    passages: the part of the text that the detector must read. plain: the detector is certain to find
    something, so that the whole suite is run at once.
    """

    passages: str
    plain: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ScreenBatch:
    """Recorded texts that are screened together. language: wanted of all of them, None when unknown.
    prompts: empty where they are not known."""

    features: TextFeatures
    language: str | None
    finish_reasons: Sequence[str | None]
    prompts: Sequence[str]
    _shared: dict[Any, Any] = field(default_factory=dict)

    @property
    def texts(self) -> Sequence[str]:
        return self.features.texts

    def once(self, compute: Callable[[ScreenBatch], T]) -> T:
        """The result of `compute` for this batch, computed once however many screens need it."""
        if compute not in self._shared:
            self._shared[compute] = compute(self)
        found: T = self._shared[compute]
        return found

    @property
    def word_lags(self) -> WordLags:
        """How far each word's last occurrence is."""
        return self.once(_word_lags)

    def flagged(self, flags: Flags) -> list[Suspicion | None]:
        """A suspicion of the whole text for each flag that is set."""
        return [
            Suspicion(text) if flag else None for text, flag in zip(self.texts, flags.tolist(), strict=True)
        ]


def _word_lags(batch: ScreenBatch) -> WordLags:
    from stresstest.detectors.text.features import word_lags

    return word_lags(batch.features)


Screen = Callable[[ScreenBatch], Sequence[Suspicion | None]]
"""The cheap first step over many recorded texts without logprobs. None certifies that the detector would
confirm nothing in that text; it may still warn."""


def lazy(path: str, *attributes: str) -> Callable[[Any], Any]:
    """Calls the class or function at `path` below `stresstest.detectors`, imported when it is first needed.

    attributes: attributes of the only argument, passed on in its place; without any, the argument itself.
    """
    module, _, name = path.rpartition(".")

    @cache
    def load() -> Any:
        return getattr(import_module(f"stresstest.detectors.{module}"), name)

    def call(given: Any) -> Any:
        found = load()
        return found(*(getattr(given, each) for each in attributes)) if attributes else found(given)

    return call


@dataclass(frozen=True, slots=True)
class DetectorEntry:
    """One detector. Its forms are imported when they are first needed.

    online: makes the detector of one answer. batch: makes one that reads all tokens of an answer at once and
    finds the same. cut_free: the batch form finds the same however the text is cut, so that lines serve as
    well as tokens. screen: the first step over recorded text; without one the whole suite runs over every
    recorded text. reads_lines: the detector reads the lines of the shared text or their heads.
    """

    symptom: SymptomInfo
    online: Callable[[SuiteContext], Detector]
    cadence: Cadence = Cadence.TEXT
    batch: Callable[[DetectorSpec], BatchDetector] | None = None
    cut_free: bool = False
    screen: Screen | None = None
    reads_lines: bool = True

    @property
    def kind(self) -> SymptomKind:
        return self.symptom.kind

    def may_confirm(self, spec: DetectorSpec, *, logprobs: bool) -> bool:
        """Whether it can confirm anything in an answer to this specification."""
        symptom = self.symptom
        units = spec.counts_units or not symptom.needs_units
        prompt = spec.prompt_text != "" or not symptom.needs_prompt
        return units and prompt and (logprobs or not symptom.needs_logprobs)


@dataclass(frozen=True, slots=True)
class DetectorSpec:
    """What is known of a generation before its first token.

    language: ISO 639-1 code the answer is wanted in, None when unknown (no language verdicts).
    unit_pattern: regex whose group 1 is the unit's number, None for unstructured output. unit: how units
    are recognised: "numbered" (by the pattern), "json_record", "row" or "function". units: how many units
    were requested, if any. prompt_text: what was asked; its own template is exempt from loop detection and
    its language samples are not the answer's. requested_text: the same without the turns that the model
    wrote, None where there are none: what it repeated there, nobody asked for. named: languages that are as
    welcome as `language`, because the prompt names them; none where `language` was stated by the user.
    """

    language: str | None = None
    unit_pattern: str | None = None
    units: int | None = None
    prompt_text: str = ""
    unit: str = "numbered"
    named: NamedLanguages = NOT_NAMED
    requested_text: str | None = None

    @property
    def requests(self) -> str:
        """The text in which repetition may be asked for."""
        return self.prompt_text if self.requested_text is None else self.requested_text

    @property
    def counts_units(self) -> bool:
        """Whether the answer has units that are recognised."""
        return self.unit_pattern is not None or self.unit != "numbered"

    @property
    def wants_code(self) -> bool:
        """Whether the answer is a module: tests, tables and stubs in it are alike by design."""
        return self.unit == "function"

    @property
    def copies(self) -> int | None:
        """How often one text was asked for: units that are recognised differ from each other."""
        return None if self.counts_units else self.units


class Detector(Protocol):
    """An online detector: O(1) amortised a token, same answer online and over a stored generation."""

    @property
    def open_from(self) -> int | None:
        """First token not yet known healthy (an open candidate, an unfinished sentence or unit)."""

    def update(self, token: Token) -> None:
        """Take the next output token; positions are counted from 1 by the detector itself."""

    def finish(self, finish_reason: str | None) -> None:
        """The output has ended ("stop", "length", None when it was lost); judge what was pending."""

    def symptoms(self) -> list[Symptom]:
        """All symptoms so far, in order of onset; a symptom's onset never changes once reported."""


class BatchDetector(Detector, Protocol):
    """A detector that can take a whole answer at once, many times faster."""

    def update_all(self, texts: Sequence[str]) -> None:
        """The texts of all tokens, without ids or reasoning, instead of `update` with each token."""
