"""A stream of text, judged while it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stresstest.api.arguments import require_texts
from stresstest.api.verdict import Verdict, public_verdict
from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.identification.names import require_language
from stresstest.detectors.suite import DetectorSuite
from stresstest.detectors.text.tokens import split_pieces
from stresstest.errors import UsageError
from stresstest.model import Token
from stresstest.model.scanned import ScanVerdict
from stresstest.records import FieldMapping, Record, UnreadableError, parse_line
from stresstest.records.formats.bodies.turns import MODEL_SPEAKS, role_of
from stresstest.records.formats.limit import MAX_CHARACTERS, MAX_PIECES, cut_to_limit
from stresstest.records.padding import without_padding
from stresstest.records.record import given_text
from stresstest.scanning.answer.languages import infer_languages, wanted_language
from stresstest.scanning.answer.verdict import build_verdict
from stresstest.scanning.densities import ALONE
from stresstest.scanning.detect_chunk import ParsedChunk, detect_chunk
from stresstest.scanning.job import ScanJob

_CHECK_EVERY = 8
"""Words between two checks for an alarm."""


class StreamDetector:
    """The detectors over one answer that arrives in chunks of text, of any size.

    ``feed`` each chunk; it returns True from the alarm on, when a degeneration is certain and the request can
    be closed. ``finish`` once. Not for several answers, nor for several threads. As of a log's answer,
    150,000 words or 2,000,000 characters are judged; what comes after them is not kept (``full``).
    """

    def __init__(
        self, *, language: str | None = None, prompt: str | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """language, prompt: as `detect` takes them. Raises UsageError for an unknown language."""
        self._job = _job(language)
        self._asked = _record("", prompt, None)
        asked = self._asked
        spec = DetectorSpec(
            language=language, prompt_text=asked.prompt_text, requested_text=asked.requested_text
        )
        self._suite = DetectorSuite(spec)
        self._thought: list[str] = []
        self._answer: list[str] = []
        self._rest = ""
        self._unchecked = self._pieces = self._characters = 0
        self._certain = False
        self._thinking = self._interleaved = False

    @property
    def full(self) -> bool:
        """Whether so much was fed that no more is looked at."""
        return self._pieces >= MAX_PIECES or self._characters >= MAX_CHARACTERS

    @property
    def alarmed(self) -> bool:
        """Whether a degeneration is certain."""
        return self._suite.alarm is not None

    def feed(self, text: str, *, reasoning: bool = False) -> bool:
        """Take the next chunk; returns whether a degeneration is certain.

        reasoning: of thoughts, which are watched for loops, floods and gibberish only. They may take turns
        with the answer, as where a model thinks between calls of tools.
        """
        if not isinstance(text, str):
            raise UsageError(f"A chunk of an answer is a text, not {type(text).__name__}.")
        # A client's empty chunk begins no answer.
        if not text or self.full:
            return self.alarmed
        if reasoning is not self._thinking:
            self._pass_on([self._rest] if self._rest else [], reasoning=self._thinking)
            self._rest, self._thinking = "", reasoning
            self._interleaved = self._interleaved or (reasoning and bool(self._answer))
        text = text[: MAX_CHARACTERS - self._characters]
        self._characters += len(text)
        (self._thought if reasoning else self._answer).append(text)
        pieces = split_pieces(self._rest + text)
        self._rest = pieces.pop() if pieces else ""  # it may continue in the next chunk
        self._pass_on(pieces, reasoning=reasoning)
        if self._unchecked >= _CHECK_EVERY:
            self._unchecked = 0
            self._certain = self._certain or self.alarmed
        return self._certain

    def finish(self, finish_reason: str | None = None) -> Verdict:
        """The verdict on what was fed: after an alarm the detectors' own, else that of `detect` on the text.

        finish_reason: the server's word, None where the stream was left or did not say.
        """
        record = replace(
            self._asked,
            text="".join(self._answer),
            reasoning="".join(self._thought),
            finish_reason=finish_reason,
        )
        if not self.alarmed or self._interleaved:
            judged = _judge(cut_to_limit(record), self._job)
            if judged.degenerate or not self.alarmed:
                return judged
        self._pass_on([self._rest] if self._rest else [], reasoning=self._thinking)
        self._rest = ""
        found = self._suite.finish(finish_reason)
        return public_verdict(
            build_verdict(record, found, wanted_language(record, self._job, None), self._job, ALONE)
        )

    def _pass_on(self, pieces: Sequence[str], *, reasoning: bool) -> None:
        for piece in pieces:
            self._suite.update(Token(piece, reasoning=reasoning))
        self._unchecked += len(pieces)
        self._pieces += len(pieces)


def judge_text(
    text: str,
    *,
    language: str | None,
    prompt: str | Sequence[Mapping[str, Any]] | None,
    finish_reason: str | None,
) -> Verdict:
    """What `scan` says of a file that holds this answer alone. Raises UsageError for an unknown language."""
    record = without_padding(replace(_record("", prompt, finish_reason), text=text))
    return _judge(record, _job(language))


def judge_documents(
    documents: Sequence[tuple[str, str, str | None]], *, language: str | None
) -> list[Verdict]:
    """The verdicts on texts that no log holds. documents: (id, text, language) each; language: wanted where a
    document names none. Raises UsageError for an unknown language of these."""
    records = [
        replace(without_padding(given_text(text, "document", n, id)), language=own)
        for n, (id, text, own) in enumerate(documents, 1)
    ]
    return list(map(public_verdict, _scan(records, _job(language))))


def judge_body(
    body: Mapping[str, Any],
    *,
    language: str | None,
    prompt: str | Sequence[Mapping[str, Any]] | None,
) -> list[Verdict]:
    """What `scan` says of each answer in a response body: of its reasoning, text and arguments of calls.

    Left out is what nobody has seen: a call without arguments, tokens that were counted and not sent. Raises
    UsageError for an unknown language.
    """
    job = _job(language)
    try:
        records = parse_line({**body, "prompt": prompt}, "body", 1, FieldMapping())
    except UnreadableError:
        return []
    return [public_verdict(each) for each in _scan(records, job) if not each.unseen]


def _judge(record: Record, job: ScanJob) -> Verdict:
    return public_verdict(_scan([record], job)[0])


def _scan(records: Sequence[Record], job: ScanJob) -> Sequence[ScanVerdict]:
    languages = {} if job.language else infer_languages(records, job, ())
    return detect_chunk(ParsedChunk(tuple(records), (), 0, "text", 0), job, languages).judged


def _record(text: str, prompt: str | Sequence[Mapping[str, Any]] | None, finish_reason: str | None) -> Record:
    """As the reader of plain records makes it, so that a prompt counts as it does there. An answer that the
    prompt begins is no part of it: a log's would be read for the answer itself."""
    require_texts(finish_reason=finish_reason)
    if not isinstance(prompt, str | Sequence | None) or isinstance(prompt, bytes):
        raise UsageError(f"A prompt is a text or a list of messages, not {type(prompt).__name__}.")
    turns = [] if prompt is None or isinstance(prompt, str) else [*prompt]
    while turns and role_of(turns[-1]) in MODEL_SPEAKS:
        prompt = turns = turns[:-1]
    row = {"id": "text", "response": text, "prompt": prompt, "finish_reason": finish_reason}
    return parse_line(row, "text", 1, FieldMapping())[0]


def _job(language: str | None) -> ScanJob:
    require_texts(language=language)
    require_language(language)
    return ScanJob(language=language, show=True)
