"""What `init` suggests: prompts in the current folder, and the language that is probably wanted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from stresstest.campaign.prompt_source import prompt_text
from stresstest.detectors.identification.inference import infer_group_language
from stresstest.errors import UsageError
from stresstest.tasks import Prompt, Task, load_prompts

_READ_PROMPTS = 50


def find_prompts() -> str | None:
    """The first `*prompts*.jsonl` of the current folder that holds prompts; None without one."""
    for path in sorted(Path().glob("*prompts*.jsonl")):
        try:
            load_prompts(path)
        except UsageError:
            continue
        return str(path)
    return None


def suggest_language(source: Task | Sequence[Prompt]) -> str | None:
    """The language of prompts, None if it is not plain. For a task: this machine's language, else English,
    else its first, of those that the task has."""
    if not isinstance(source, Task):
        return infer_group_language(prompt_text(prompt) for prompt in source[:_READ_PROMPTS])
    locale = (os.environ.get("LC_ALL") or os.environ.get("LANG") or "")[:2].lower()
    return next((code for code in (locale, "en") if code in source.languages), next(iter(source.languages)))
