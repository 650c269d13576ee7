"""datatrove: a filter that drops degenerate documents."""

from __future__ import annotations

from typing import Any

from datatrove.pipeline.filters.base_filter import BaseFilter

from stresstest.api.streaming import judge_documents


class DegenerationFilter(BaseFilter):  # type: ignore[misc]  # datatrove is no dependency of ours
    """Drops documents that degenerate; the reason is the symptom, counted as ``dropped_loop`` and so on.

    The verdict is that of `stresstest.detect_many` on the texts of a batch. language: that the documents are
    in, as a code ("en"), or the key of their metadata that says it, by ``language_key``; without either, it
    is inferred. exclusion_writer: of datatrove, for what is dropped. batch_size: documents judged at a time.
    """

    name = "stresstest"

    def __init__(
        self,
        language: str | None = None,
        language_key: str = "language",
        exclusion_writer: Any = None,
        batch_size: int = 64,
    ) -> None:
        super().__init__(exclusion_writer, batch_size)
        self.language = language
        self.language_key = language_key

    def filter(self, doc: Any) -> bool | tuple[bool, str]:
        """Whether to keep one document."""
        return self.filter_batch([doc])[0]

    def filter_batch(self, batch: list[Any]) -> list[bool | tuple[bool, str]]:
        """Whether to keep each document: True, or False with the symptom."""
        named = [doc.metadata.get(self.language_key) for doc in batch]
        documents = [
            (doc.id, doc.text, language if isinstance(language, str) else None)
            for doc, language in zip(batch, named, strict=True)
        ]
        found = judge_documents(documents, language=self.language)
        return [True if each.symptom is None else (False, each.symptom) for each in found]
