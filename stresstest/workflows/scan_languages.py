"""Which language was wanted in a group, where no record says it: told from the group's first answers."""

from __future__ import annotations

from collections.abc import Collection

from stresstest.records import Chunk
from stresstest.workflows.scan_judge import Group, Job, group_of, readable

_TEXTS = 40
"""First answers of a group from which its language is told."""

Languages = dict[Group, str]


def languages_of(chunk: Chunk, job: Job, known: Collection[Group]) -> Languages:
    """Group → the language of its first answers, for groups that are not known yet and agree."""
    from stresstest.detectors.infer import infer_group

    texts: dict[Group, list[str]] = {}
    for record in readable(chunk, job, []):
        group = group_of(record, job.keys)
        if group not in known and record.language is None:
            there = texts.setdefault(group, [])
            if len(there) < _TEXTS:
                there.append(record.text)
    found = {group: infer_group(each) for group, each in texts.items()}
    return {group: language for group, language in found.items() if language is not None}
