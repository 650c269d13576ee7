"""The cheap checks alone, without what decides where they do not."""

from __future__ import annotations

from stresstest.detectors.entry import DetectorSpec
from stresstest.detectors.languages.function_words import count_function_words
from stresstest.detectors.screening.screen import screen_texts, screened_verdict
from stresstest.model import GenerationVerdict


def healthy_verdict(text: str, spec: DetectorSpec, finish_reason: str | None) -> GenerationVerdict | None:
    """The verdict on an answer in which no detector finds anything; None for any other."""
    screened = screen_texts([text], spec.language, [finish_reason], [spec.prompt_text])[0]
    verdict = screened_verdict(text, screened, spec, finish_reason)
    return None if verdict is None or verdict.degenerate else verdict


def clearly_in_language(text: str, wanted: str) -> bool:
    """Whether the function words of a passage of eight words or more leave no doubt."""
    counted = count_function_words(text)
    return counted.words >= 8 and counted.clearly_in(wanted)
