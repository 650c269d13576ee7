"""Truncation: the model ends by itself in the middle of a sentence or of a structure.

Only a chosen end is judged: reaching the cap or losing the connection is no symptom. Many good
answers end without a full stop (a list, a verse, a signature, a heading), and a wrong accusation is
worse than a miss, so a missing full stop counts only in a text that closes its other sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stresstest.detectors.entry import NATURAL_FINISH_REASONS, DetectorSpec, ScreenBatch, Suspicion
from stresstest.detectors.languages.catalog import catalog
from stresstest.detectors.text.fences import FenceTracker
from stresstest.detectors.text.segments import TextSegmenter, TextSpan
from stresstest.model import Symptom, SymptomKind, Token

MIN_ANSWER_WORDS = 20
"""Words an answer must have to be judged at all."""
MIN_LAST_WORDS = 4
"""A last piece of fewer words is a signature, a title, "Fine"."""

_TERMINAL = re.compile(r"[.!?…؟।۔。！？｡:;][\s\"'»”’)\]}*_`」』）>~]*\Z")
_LIST_LIKE = re.compile(r"[-*•+|>#~=<{}\[\]$\\]|\d+[.)]\s|[a-zA-Z][.)]\s|—")
_DANGLING_MARK = re.compile(r"[,(\[«“‘—–-]\s*\Z")
_RESULT = re.compile(r"\d\S*\Z|:\s+\S+(?:\s\S+){0,2}\Z")
"""What answers end with, without a full stop: "the answer is 42", "the winner is: Anna"."""
_LAST_WORD = re.compile(r"[^\W\d_]+(?=\W*\Z)")
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_JSON = re.compile(r"\s*(?:\{\s*\"|\[\s*[\[{\"\d])")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


class TruncationDetector:
    """Judges the end of an answer once; between tokens there is nothing to do."""

    def __init__(self, spec: DetectorSpec, feed: TextSegmenter) -> None:
        self._feed = feed
        known = catalog().languages.get((spec.language or "").split("-")[0].lower())
        self._never_final = frozenset() if known is None else known.never_final_words
        self._symptoms: list[Symptom] = []
        self._finished = False

    @property
    def open_from(self) -> int | None:
        return None

    def update(self, token: Token) -> None:
        """Nothing to see before the end."""
        del token

    def finish(self, finish_reason: str | None) -> None:
        """Judge the last sentence and what it stands in, if the model chose to end here."""
        self._feed.close()
        if self._finished or finish_reason not in NATURAL_FINISH_REASONS:
            return
        self._finished = True
        spans = self._feed.sentences
        if sum(map(_word_count, spans)) < MIN_ANSWER_WORDS:
            return
        fence = _open_fence(line.text for line in self._feed.lines)
        if fence is not None:
            self._report(self._feed.lines[fence], "code", "inside an open code block", confirmed=True)
        elif _open_json(self._feed.text):
            self._report(spans[-1], "json", "inside an open JSON bracket", confirmed=True)
        else:
            self._check_last_sentence(spans)

    def symptoms(self) -> list[Symptom]:
        return list(self._symptoms)

    def _check_last_sentence(self, spans: list[TextSpan]) -> None:
        last = spans[-1]
        if "://" in last.text[last.text.rfind(" ") + 1 :]:
            return
        if last.closed or _LIST_LIKE.match(self._feed.lines[-1].text) or not last.text[-1:].strip():
            return
        word = _LAST_WORD.search(last.text)
        dangling = bool(_DANGLING_MARK.search(last.text)) or (
            word is not None and last.text.endswith(word.group()) and word.group() in self._never_final
        )
        if not _DENSE.search(last.text) and not last.text[-1].isalnum() and not dangling:
            return  # an emoji, a closing bracket, a rule: an end of some kind
        if _RESULT.search(last.text) and not dangling:
            return
        if not self._closes_its_sentences(spans[:-1]):
            return
        follows = len(spans) > 1 and spans[-2].line == last.line
        enough = _word_count(last) >= (MIN_LAST_WORDS if follows or dangling else 2 * MIN_LAST_WORDS)
        if dangling or enough:
            self._report(last, "sentence", "in the middle of a sentence", confirmed=enough)

    @staticmethod
    def _closes_its_sentences(spans: list[TextSpan]) -> bool:
        """Whether the text ends its sentences with a mark: verse and notes do not."""
        prose = [s for s in spans if not _LIST_LIKE.match(s.text) and _word_count(s) >= MIN_LAST_WORDS]
        return len(prose) >= 2 and sum(bool(_TERMINAL.search(s.text)) for s in prose) >= 0.85 * len(prose)

    def _report(self, span: TextSpan, where: str, words: str, *, confirmed: bool) -> None:
        tail = span.text[-80:]
        self._symptoms.append(
            Symptom(
                kind=SymptomKind.TRUNCATION,
                onset=span.first,
                alarm=max(self._feed.tokens, span.first),
                score=1.0 if confirmed else 0.5,
                confirmed=confirmed,
                detail={"where": where, "excerpt": tail},
                summary=f"the model stopped {words}: “…{tail}”",
            )
        )


def may_be_truncated(text: str) -> bool:
    """Whether a text that ended by choice may be truncated, by its last line and its brackets alone.

    False is certain but for warnings. A sentence ends with its line at the latest: the last line holds it.
    """
    lines = text.rstrip().split("\n")
    if (("```" in text or "~~~" in text) and _open_fence(lines) is not None) or _open_json(text):
        return True
    last = lines[-1].strip()
    dense = len(_DENSE.findall(last))
    if max(len(last.split()), dense // 2) < MIN_LAST_WORDS or _LIST_LIKE.match(last):
        return False
    return dense > 0 or last[-1].isalnum() or _DANGLING_MARK.search(last) is not None


def _open_fence(lines: Iterable[str]) -> int | None:
    """The line that opened a code block nobody closed."""
    fence = FenceTracker()
    opened: int | None = None
    above = ""
    for n, line in enumerate(lines):
        stripped, before = line.strip(), (fence.inside, fence.in_code)
        underlined = above and len(stripped) > 3 and not stripped.strip("~") and not fence.inside
        if not underlined and not fence.takes(line):
            fence.ends_with(line)
        after = fence.inside, fence.in_code
        if after != before:  # one fence often closes a document and the code in it
            opened = n if after > before else None
        above = stripped
    return opened


def _open_json(text: str) -> bool:
    """The answer as a whole is JSON and its brackets do not close."""
    if not _JSON.match(text):
        return False
    bare = _STRINGS.sub("", text)
    return bare.count("{") + bare.count("[") > bare.count("}") + bare.count("]")


def _word_count(span: TextSpan) -> int:
    """Words, or half the characters where words are not separated by spaces."""
    dense = len(_DENSE.findall(span.text))
    return dense // 2 if dense * 2 > len(span.text) else len(span.text.split())


def suspect_truncation(batch: ScreenBatch) -> Sequence[Suspicion | None]:
    """The texts whose model chose to end them where they may be incomplete."""
    return [
        Suspicion(text) if reason in NATURAL_FINISH_REASONS and may_be_truncated(text) else None
        for text, reason in zip(batch.texts, batch.finish_reasons, strict=True)
    ]
