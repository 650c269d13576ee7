"""What the store answers with, beyond the shared model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

from stresstest.errors import StoreError
from stresstest.model import (
    Decoding,
    DocumentKind,
    EndpointProfile,
    PlaneVerdict,
    RunSettings,
    RunStatus,
    Subject,
    ThinkingBudget,
    Threshold,
)


class RunChanges(TypedDict, total=False):
    """The fields of a run that may change."""

    status: RunStatus
    ended: float | None
    note: str | None
    settings: RunSettings
    profile: EndpointProfile


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """What a generation was asked. prompt_tokens: as the server counted them, None where it did not."""

    prompt_id: str
    prompt_text: str
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One line of a list of runs.

    created/ended: clock seconds. seconds: wall time over all sessions. generations: stored so far;
    degenerate: those with an onset; lost: those that a service failure ended. output_tokens: spent.
    threshold/safe_max_tokens: None while nothing is saved or certified. parent: the run whose diagnosis began
    this one. sweep: the newest sweep of which it is a cell.
    """

    id: str
    subject: Subject
    decoding: Decoding
    rigor: str
    status: RunStatus
    simulated: bool
    created: float
    ended: float | None
    seconds: float
    generations: int
    degenerate: int
    lost: int
    output_tokens: int
    threshold: Threshold | None
    safe_max_tokens: int | None
    note: str | None
    concurrency: int
    holds_up_to: int | None = None
    parent: str | None = None
    sweep: str | None = None


@dataclass(frozen=True, slots=True)
class StoredThreshold:
    """A saved result with what is needed to judge whether it still applies.

    latest: the newest of its subject, prompts, decoding, rigor, server and concurrency (simulated and real
    ones apart).
    certified_before: an older run that was certified, where this newest one is not.
    overruled_by: a run of the same subject and decoding (later, under another load, at another address, with
    another sample) that found no safe length and was not repeated since; this limit is not in force then.
    holds_up_to: as in `RunSettings`; or its own load, where a run with a larger one speaks against it, or
    certified less than half.
    prompts_digest: of the prompts that were asked. order: larger for a result whose sample was measured
    later, whatever the clock says.
    saved: clock seconds at which it was written; created: of the run.
    """

    run_id: str
    subject: Subject
    decoding: Decoding
    rigor: str
    margin: float
    threshold: Threshold
    safe_max_tokens: int | None
    verdict: PlaneVerdict
    created: float
    saved: float
    tool_version: str
    server_version: str | None
    base_url: str
    concurrency: int
    simulated: bool
    distinct_prompts: int | None
    latest: bool
    certified_before: str | None = None
    overruled_by: str | None = None
    holds_up_to: int | None = None
    prompts_digest: str | None = None
    order: int = 0
    thinking: ThinkingBudget | None = None

    @property
    def limit(self) -> int | None:
        """The safe max_tokens, unless another run speaks against it."""
        return None if self.overruled_by is not None else self.safe_max_tokens


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """What a sweep, a check, a cost or a scan found. body: what its ``--json`` prints.

    saved: clock seconds. runs: ids of the runs that it stands on; one that was deleted is gone from here.
    """

    id: str
    kind: DocumentKind
    saved: float
    complete: bool
    simulated: bool
    runs: tuple[str, ...]
    body: Mapping[str, Any]

    @contextmanager
    def reading(self) -> Iterator[Mapping[str, Any]]:
        """The body, for a block that relies on its shape; StoreError where it has another one."""
        try:
            yield self.body
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"The stored {self.kind.value} {self.id} is damaged: it does not hold what its kind holds.",
                hint="Restore the store from a backup, or choose another one with --store.",
            ) from error


@dataclass(frozen=True, slots=True)
class Session:
    """One stretch of work on a run; a resume begins a new one.

    ended: clock seconds as recorded; None when the process was killed. last_seen: the best known
    end: `ended`, else the end of the session's last committed generation, else `started`.
    """

    id: int
    run_id: str
    started: float
    ended: float | None
    last_seen: float

    @property
    def seconds(self) -> float:
        """Wall seconds of this session."""
        return max(0.0, self.last_seen - self.started)
