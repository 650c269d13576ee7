"""Which language was wanted in a group, where no record says it: told from the group's first answers."""

from __future__ import annotations

from collections.abc import Collection

from stresstest.records import Chunk
from stresstest.workflows.scan_judge import Group, Job, languages_in, readable

Languages = dict[Group, str]


def languages_of(chunk: Chunk, job: Job, known: Collection[Group]) -> Languages:
    """Group → the language of its first answers, for groups that are not known yet and agree."""
    return languages_in(readable(chunk, job, []), job, known)
