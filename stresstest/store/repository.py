"""The store as the rest of the program sees it: one object, short synchronous calls.

Every call is one transaction. Calls are thread-safe. Packing a 16k-token generation takes some
20 ms: inside an event loop that measures latencies, call `add_generation` through a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from stresstest.clock import new_id, now
from stresstest.model import (
    Diagnosis,
    DocumentKind,
    Generation,
    GpuSample,
    PlaneVerdict,
    Run,
    RunSettings,
    RunStatus,
    ServerSample,
    Subject,
    Threshold,
)
from stresstest.store import diagnoses, findings, generations, gpus, results, runs
from stresstest.store.engine import reading, writing
from stresstest.store.faults import translated
from stresstest.store.location import Address
from stresstest.store.records import RunSummary, Session, StoredDocument, StoredThreshold, Unset

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

T = TypeVar("T")


class Store:
    """Runs, generations, samples and thresholds. Opened by `stresstest.store.open_store`.

    Every method raises StoreError when the database fails, and UsageError for a run it does not hold.
    """

    def __init__(self, engine: Engine, address: Address) -> None:
        self._engine = engine
        self._address = address

    def __repr__(self) -> str:
        return f"Store({self._address.shown!r})"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def location(self) -> str:
        """Where the store is, fit for showing: no password."""
        return self._address.shown

    def close(self) -> None:
        """Give the database back; what was committed is safe without it too."""
        self._engine.dispose()

    # Runs

    def create_run(self, run: Run) -> None:
        """Store a new run. Credentials in its addresses are dropped. StoreError when the id is taken."""
        with self._write("creating a run") as connection:
            runs.create(connection, run)

    def update_run(
        self,
        run_id: str,
        *,
        status: RunStatus | Unset = Unset.UNSET,
        ended: float | Unset | None = Unset.UNSET,
        note: str | Unset | None = Unset.UNSET,
        settings: RunSettings | Unset = Unset.UNSET,
    ) -> None:
        """Change what is given; None empties `ended` (a resume) and `note`."""
        with self._write("updating a run") as connection:
            runs.change(connection, run_id, status, ended, note, settings)

    def run(self, reference: str) -> Run:
        """The run with this id or unique beginning of one; UsageError with suggestions otherwise."""
        return self._read("looking up a run", lambda c: runs.find(c, reference))

    def runs(self, subject: Subject | None = None) -> list[RunSummary]:
        """All runs, or those of one subject, newest first."""
        return self._read("listing runs", lambda c: runs.summaries(c, subject))

    def latest_run(self, subject: Subject) -> Run | None:
        """The newest run of a subject, whatever its status."""
        return self._read("looking up a run", lambda c: runs.latest(c, subject))

    def delete_run(self, run_id: str) -> None:
        """Delete the run with exactly this id and everything that belongs to it."""
        with self._write("deleting a run") as connection:
            runs.remove(connection, run_id)

    # Sessions

    def add_session(self, run_id: str, started: float) -> int:
        """Begin a session (the first, or a resume) at clock second `started`; returns its id."""
        with self._write("beginning a session") as connection:
            return runs.begin_session(connection, run_id, started)

    def end_session(self, session_id: int, ended: float) -> None:
        """End a session. One that never ends counts until its last committed generation."""
        with self._write("ending a session") as connection:
            runs.finish_session(connection, session_id, ended)

    def sessions(self, run_id: str) -> list[Session]:
        """The sessions of a run in the order of their start."""
        return self._read("reading sessions", lambda c: runs.sessions(c, run_id))

    def wall_seconds(self, run_id: str) -> float:
        """Seconds of work on a run, the pauses between its sessions left out."""
        return sum(session.seconds for session in self.sessions(run_id))

    # Generations and samples

    def add_generation(self, run_id: str, generation: Generation) -> bool:
        """Commit a generation at once; returns whether it was stored.

        A finished generation is never overwritten: a second one of its key is ignored (False). One
        that a service failure ended is replaced by a later one of its key.
        """
        with translated(self._address, "storing a generation"):
            row = generations.row_of(run_id, generation)
        with self._write("storing a generation") as connection:
            return generations.add(connection, row)

    def generations(self, run_id: str, *, tokens: bool = True) -> list[Generation]:
        """All generations by phase, rung and index, those of a diagnosis left out; `tokens=False` leaves
        their tokens empty (fast)."""
        return self._read("reading generations", lambda c: list(generations.read(c, run_id, tokens=tokens)))

    def arm_generations(self, run_id: str) -> list[Generation]:
        """The generations of a run's diagnosis, with their tokens, by rung and index."""
        return self._read(
            "reading generations", lambda c: list(generations.read(c, run_id, tokens=True, diagnosis=True))
        )

    def generation(self, run_id: str, key: str) -> Generation:
        """One generation, with its tokens; UsageError when there is none."""
        return self._read("reading a generation", lambda c: generations.read_one(c, run_id, key))

    def add_samples(self, run_id: str, samples: Sequence[ServerSample]) -> None:
        """Store readings of /metrics, all or none; write them in batches, not one by one."""
        with self._write("storing samples") as connection:
            generations.add_samples(connection, run_id, samples)

    def samples(self, run_id: str) -> list[ServerSample]:
        """The readings of a run in the order of time."""
        return self._read("reading samples", lambda c: generations.read_samples(c, run_id))

    def add_gpu_samples(self, run_id: str, samples: Sequence[GpuSample]) -> None:
        """Store readings of GPUs, all or none; write them in batches, not one by one."""
        with self._write("storing GPU samples") as connection:
            gpus.add(connection, run_id, samples)

    def gpu_samples(self, run_id: str) -> list[GpuSample]:
        """The GPU readings of a run in the order of time."""
        return self._read("reading GPU samples", lambda c: gpus.read(c, run_id))

    # Thresholds

    def save_threshold(
        self,
        run_id: str,
        threshold: Threshold,
        safe_max_tokens: int | None,
        verdict: PlaneVerdict,
        *,
        distinct_prompts: int | None = None,
        saved: float | None = None,
    ) -> None:
        """Save a run's result in place of an earlier one. saved: clock seconds, now by default."""
        moment = now() if saved is None else saved
        with self._write("saving a threshold") as connection:
            results.save(
                connection,
                run_id,
                threshold,
                safe_max_tokens,
                verdict,
                distinct_prompts=distinct_prompts,
                saved=moment,
            )

    def thresholds(
        self, model: str | None = None, task: str | None = None, language: str | None = None
    ) -> list[StoredThreshold]:
        """Saved results, newest run first: the latest of each subject and decoding, then the older ones."""
        return self._read("reading thresholds", lambda c: results.read(c, model, task, language))

    # Diagnoses

    def save_diagnosis(self, found: Diagnosis, *, saved: float | None = None) -> None:
        """Save a run's diagnosis, finished or not, in place of an earlier one. saved: clock seconds, now."""
        moment = now() if saved is None else saved
        with self._write("saving a diagnosis") as connection:
            diagnoses.save(connection, found, moment)

    def diagnosis(self, run_id: str) -> Diagnosis | None:
        """The saved diagnosis of the run with exactly this id."""
        return self._read("reading a diagnosis", lambda c: diagnoses.read(c, run_id))

    # Documents

    def save_document(
        self,
        kind: DocumentKind,
        body: Mapping[str, Any],
        *,
        complete: bool = True,
        simulated: bool = False,
        runs: Sequence[str] = (),
        id: str | None = None,
        saved: float | None = None,
    ) -> str:
        """Keep what a sweep, a check, a cost or a scan found, in place of one with this id; returns the id.

        body: as its ``--json`` prints it. runs: exact ids of the runs it stands on. id: a new one by default.
        saved: clock seconds, now by default.
        """
        moment = now() if saved is None else saved
        name = new_id() if id is None else id
        document = StoredDocument(name, kind, moment, complete, simulated, tuple(runs), body)
        with self._write("saving a document") as connection:
            findings.save(connection, document)
        return name

    def documents(self, kind: DocumentKind | None = None, run: str | None = None) -> list[StoredDocument]:
        """All documents, or those of a kind or of the run with exactly this id; newest first."""
        return self._read("reading documents", lambda c: findings.read(c, kind, run))

    def document(self, reference: str) -> StoredDocument:
        """The document with this id or unique beginning of one; UsageError otherwise."""
        return self._read("reading a document", lambda c: findings.find(c, reference))

    def _read(self, doing: str, query: Callable[[Connection], T]) -> T:
        with translated(self._address, doing), reading(self._engine) as connection:
            return query(connection)

    @contextmanager
    def _write(self, doing: str) -> Iterator[Connection]:
        with translated(self._address, doing), writing(self._engine) as connection:
            yield connection
