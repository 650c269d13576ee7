"""Results of `scan`: the verdict on one answer, a group of answers, and all groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stresstest.model.result import MOST_HEALTHY_CUT, Threshold
from stresstest.model.words import AnswerPart, SymptomKind

OTHER_LANGUAGE = "other language than the group's"
"""Source of the language of an answer that plainly begins in another one than its group."""
UNKNOWN_NAME = "unknown name"
"""Source of a language that was inferred, since the record names one that is not known here."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Length and onset of an answer on one scale (tokens or words), 1-based.

    onset: first degenerate position, None if healthy. observed: positions known healthy.
    """

    length: int
    observed: int
    onset: int | None = None


@dataclass(frozen=True, slots=True)
class ScanExample:
    """An example to display: the model's text before the onset and from the onset on."""

    id: str
    symptom: SymptomKind
    score: float
    wasted: int
    before: str
    after: str
    summary: str


@dataclass(frozen=True, slots=True)
class ScanVerdict:
    """The verdict on one recorded answer, with the data for the statistics of its group.

    group: values of the group-by keys. words: positions in words, always known; tokens: in the model's
    tokens, None if unknown. token_source: "record" | "tokenizer" | "estimate" | "empty" | "sums" | None.
    onset_char, alarm_char: 0-based characters of the answer's text. copy_chars: of one copy of what repeats,
    0 where nothing does. capped: whether max_tokens ended it, None if unknown. ended_looping: whether it did
    so while the text repeated (DharmaOCR's rule), None where the log does not tell. counted_to_cap: whether a
    count that is spread over the text is max_tokens where that ended it; False where it is more.
    ended/unresolved: as in `Observation`. lost: the service ended it (abort, error, content_filter) before it
    failed, or it is empty without a finish reason. stop_unsure: the log writes `stop` for other ends too;
    repetition: the server ended it because it repeats itself; copied_end: its cap cut it while it repeated
    itself. cluster, question, digest: 64-bit hashes of prompt, its text, and output, 0 for none; identity: of
    the record, which only copies of it share; request: of its text in its trace, where one request may have
    several spans, 0 without a trace. length_class: the requested length. language: the expected language;
    language_source: "record" | "given" | "group" | "prompt" | "other language than the group's" | "unknown
    name" | "answer". onset_in: the part that the onset lies in. reasoned: it has reasoning; answered: it has
    anything after that. unseen: it may have failed in text that the log did not keep. unknown_language:
    degenerate by its group's language, which it may not be in, and healthy by none. several_turns: healthy,
    but in a text with turns of others, as in `Record`. model: as the log names it, where the groups do not
    tell.
    """

    id: str
    group: tuple[str | None, ...]
    words: Extent
    tokens: Extent | None = None
    token_source: str | None = None
    symptom: SymptomKind | None = None
    onset_char: int | None = None
    alarm_char: int | None = None
    copy_chars: int = 0
    recovered: bool = False
    loops_to_end: bool = False
    score: float = 0.0
    capped: bool | None = None
    ended_looping: bool | None = None
    counted_to_cap: bool | None = None
    ended: bool = False
    unresolved: bool = False
    unseen: bool = False
    unknown_language: bool = False
    several_turns: bool = False
    lost: bool = False
    stop_unsure: bool = False
    repetition: bool = False
    copied_end: bool = False
    cluster: int = 0
    question: int = 0
    digest: int = 0
    identity: int = 0
    request: int = 0
    length_class: float | None = None
    language: str | None = None
    language_source: str | None = None
    onset_in: AnswerPart | None = None
    reasoned: bool = False
    answered: bool = False
    model: str | None = None
    shown: ScanExample | None = None

    @property
    def degenerate(self) -> bool:
        return self.symptom is not None


@dataclass(frozen=True, slots=True)
class LengthEffect:
    """Median onset of the longest requested length over that of the shortest, with a 90 % interval.

    independent: the whole interval lies inside 0.8–1.25. lacking: why no ratio is given.
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
class PartRate:
    """How often one part of the answers degenerates: the reasoning, or the answer after healthy reasoning.

    n: answers that have this part. rate: None where n is 0. rate_ci: as of the group.
    """

    part: AnswerPart
    n: int
    degenerate: int
    rate: float | None
    rate_ci: tuple[float, float]


@dataclass(frozen=True, slots=True)
class GroupResult:
    """Rate and threshold of one group.

    key: group-by key → value. rate_ci: two-sided 95 % (Clopper-Pearson; prompts with several outputs are
    clusters), its upper bound as if each of `unseen` degenerated. dharma_rate: over the `dharma_known`
    requests whose finish reason or cap is known, None without any. unit: scale of threshold, wasted and
    total: "tokens" | "tokens (estimate)" | "words". wasted/total: positions from the onset on, and all
    positions. healthy_cut: share of healthy requests longer than the safe limit (than T if the unit is
    words); above `MOST_HEALTHY_CUT`, safe_max_tokens is None. sampled: size of the random subsample used for
    the threshold, None if all outputs were used. prompts: distinct prompts, None if unknown; questions:
    different texts of them; promptless: kept outputs without one, each of which counts as one to a prompt of
    its own. languages: language → requests; language_sources: source of the language → requests. empty:
    answers without a word. uncounted: answers without a token count; sums: those of them whose counts are
    sums of running counts; at_cap: counts that confirm max_tokens, which the answer's end says it reached;
    beyond_cap: those that exceed it. undecided: healthy answers that ended with a possible symptom still
    open; T is chosen as if each had failed where that began. clustered: some
    prompt has several outputs; copies: records that are copies of an earlier one, without a prompt or with
    another one (of the random subsample, if there is one); one_text: kept outputs that are one short text, to
    many prompts, beside longer answers; brief: those that have at most a few words, beside longer ones;
    effective_share: independent outputs over all, 1 where each has a
    prompt of its own. parts: reasoning and answer apart; empty where no answer has reasoning. unsure_stops:
    answers of logs that write `stop` for other ends too; repetitions: those of them that end in copies, so
    that the server has probably stopped them. unseen: answers that may have failed in text that the log did
    not keep. capped: healthy answers that a cap ended. stopped: answers that the server stopped as
    repetitions, and whose text does not prove it. models: names of some of the models whose answers are in
    the group, where the key does not tell them. unknown_language: answers that may be in a language that is
    not known here, and would be degenerate in their group's. several_turns: texts that hold turns of others,
    too, and are not degenerate by themselves. in_doubt: unseen, stopped, of an unknown language, of several
    turns, or undecided over more than a last passage. lost: healthy or empty answers that the service or
    the client gave up before their end.
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
    symptoms: Mapping[str, int] = field(default_factory=dict)
    safe_max_tokens: int | None = None
    healthy_cut: float | None = None
    wasted: int = 0
    total: int = 0
    recovered: int = 0
    prompts: int | None = None
    questions: int = 0
    promptless: int = 0
    sampled: int | None = None
    languages: Mapping[str, int] = field(default_factory=dict)
    language_sources: Mapping[str, int] = field(default_factory=dict)
    by_length: LengthEffect | None = None
    empty: int = 0
    uncounted: int = 0
    sums: int = 0
    at_cap: int = 0
    beyond_cap: int = 0
    undecided: int = 0
    capped: int = 0
    unseen: int = 0
    unknown_language: int = 0
    several_turns: int = 0
    in_doubt: int = 0
    lost: int = 0
    stopped: int = 0
    clustered: bool = False
    copies: int = 0
    one_text: int = 0
    brief: int = 0
    unsure_stops: int = 0
    repetitions: int = 0
    effective_share: float = 1.0
    parts: tuple[PartRate, ...] = ()
    models: tuple[str, ...] = ()

    @property
    def cap_withheld(self) -> bool:
        """Whether T is certified, but no cap recommended, because it would cut most healthy answers."""
        return self.healthy_cut is not None and self.healthy_cut > MOST_HEALTHY_CUT


@dataclass(frozen=True, slots=True)
class ScanResult:
    """Everything that `scan` prints. damaged: lines without a usable answer; damaged_examples: the first few.
    malformed: those of them that no layout can read: no JSON, or a file that breaks off.

    textless: lines whose answer contains only tool calls; counted neither as requests nor as damaged. unread:
    files of which a part, of unknown size, was not read.
    unwritten: why the verdict file is incomplete; None if it is complete or none was requested. read_from:
    key or format that answers were read from → answers. not_judged: path of a long text beside them →
    lines that have it, of the `looked_at` lines whose other texts were looked for. left_out: lines in good
    order without an answer of a model's: turns of others, other spans and calls.
    """

    requests: int
    damaged: int
    groups: tuple[GroupResult, ...]
    group_by: tuple[str, ...] = ()
    damaged_examples: tuple[str, ...] = ()
    worst: tuple[ScanExample, ...] = ()
    text_bytes: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    unwritten: str | None = None
    malformed: int = 0
    textless: int = 0
    unread: int = 0
    read_from: Mapping[str, int] = field(default_factory=dict)
    not_judged: Mapping[str, int] = field(default_factory=dict)
    looked_at: int = 0
    left_out: int = 0
