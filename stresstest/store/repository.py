"""The store as the rest of the program sees it: one object, short synchronous calls.

Every call is one transaction. Calls are thread-safe. Packing a 16k-token generation takes some
20 ms: inside an event loop that measures latencies, call `add_generation` through a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from stresstest.clock import new_id, now
from stresstest.errors import StoreError
from stresstest.model import (
    Diagnosis,
    DocumentKind,
    Generation,
    GenerationLoader,
    GenerationRecord,
    GpuSample,
    PlaneVerdict,
    Run,
    ServerSample,
    Subject,
    ThinkingBudget,
    Threshold,
)
from stresstest.store import findings, generations, results, runs
from stresstest.store.engine import ConnectionLostError, reading, translate_errors, translate_values, writing
from stresstest.store.location import Address
from stresstest.store.records import (
    RunChanges,
    RunSummary,
    Session,
    StoredDocument,
    StoredRequest,
    StoredThreshold,
)

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
        self._file = address.file_identity()
        self._claims: list[Callable[[], None]] = []

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

    def update_run(self, run_id: str, **changes: Unpack[RunChanges]) -> None:
        """Change what is given; None empties `ended` (a resume) and `note`."""
        with self._write("updating a run") as connection:
            runs.change(connection, run_id, changes)

    def run(self, reference: str) -> Run:
        """The run with this id or unique beginning of one; UsageError with suggestions otherwise."""
        return self._read("looking up a run", lambda c: runs.find(c, reference))

    def run_id(self, reference: str) -> str:
        """The id of the same run, which need not be readable; UsageError with suggestions for none."""
        return self._read("looking up a run", lambda c: runs.find_id(c, reference))

    def runs(self, subject: Subject | None = None) -> list[RunSummary]:
        """All runs, or those of one subject, newest first.

        Those that cannot be read are left out, with an `UnreadableRunWarning` that names them.
        """
        return self._read("listing runs", lambda c: runs.summaries(c, subject))

    def delete_run(self, run_id: str) -> None:
        """Delete the run with exactly this id and everything that belongs to it."""
        with self._write("deleting a run") as connection:
            runs.remove(connection, run_id)

    @contextmanager
    def claim(self, run_id: str) -> Iterator[None]:
        """Measure a run in the block, as the only process that does. StoreError while another one does."""
        from stresstest.store.claim import claimed

        with ExitStack() as stack:
            with translate_errors(self._address, "claiming a run"):
                keep = stack.enter_context(claimed(self._engine, self._address, run_id))
            self._claims.append(keep)
            try:
                yield
            finally:
                self._claims.remove(keep)

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
        with translate_errors(self._address, "storing a generation"):
            row = generations.row_of(run_id, generation)
        return self._commit("storing a generation", lambda c: generations.add(c, row))

    def remove_generations(self, run_id: str, keys: Sequence[str]) -> None:
        """Forget generations that turned out to be no part of the measurement."""
        with self._write("removing generations") as connection:
            generations.remove(connection, run_id, keys)

    def generations(self, run_id: str) -> Iterator[Generation]:
        """The generations of a run with their tokens, by phase, rung and index; without those of a diagnosis.

        They are read one at a time, in one transaction that ends with the iterator.
        """
        with (
            translate_errors(self._address, "reading generations"),
            translate_values(self._address, "reading generations"),
            reading(self._engine) as connection,
        ):
            yield from generations.read(connection, run_id)

    def records(self, run_id: str) -> list[GenerationRecord]:
        """The same generations without their tokens."""
        return [generation.to_record() for generation in self.generations(run_id)]

    def interrupted(self, run_id: str) -> dict[str, GenerationRecord]:
        """The answers that had failed, or an attempt at which had, when their process ended, by key; no other
        method reads them."""
        return self._read("reading generations", lambda c: generations.read_interrupted(c, run_id))

    def arm_records(self, run_id: str) -> list[GenerationRecord]:
        """The generations of a run's diagnosis without their tokens, by rung and index."""
        return self._read(
            "reading generations",
            lambda c: [each.to_record() for each in generations.read(c, run_id, diagnosis=True)],
        )

    def generation(self, run_id: str, key: str) -> Generation:
        """One generation, with its tokens; UsageError when there is none."""
        return self._read("reading a generation", lambda c: generations.read_one(c, run_id, key))

    def loader(self, run_id: str) -> GenerationLoader:
        """Reads the tokens of a run's records, its diagnosis included. UsageError for an unknown one."""

        def load(record: GenerationRecord) -> Generation:
            return record.with_tokens(
                self._read("reading tokens", lambda c: generations.read_tokens(c, run_id, record.key))
            )

        return load

    def requests(self, run_id: str) -> list[StoredRequest]:
        """What was requested of each generation of a run, without those of a diagnosis; reads no tokens."""
        return self._read("reading requests", lambda c: generations.read_requests(c, run_id))

    def add_samples(self, run_id: str, samples: Sequence[ServerSample]) -> None:
        """Store readings of /metrics, all or none; write them in batches, not one by one."""
        self._commit("storing samples", lambda c: generations.add_samples(c, run_id, samples))

    def samples(self, run_id: str) -> list[ServerSample]:
        """The readings of a run in the order of time."""
        return self._read("reading samples", lambda c: generations.read_samples(c, run_id, ServerSample))

    def add_gpu_samples(self, run_id: str, samples: Sequence[GpuSample]) -> None:
        """Store readings of GPUs, all or none; write them in batches, not one by one."""
        self._commit("storing GPU samples", lambda c: generations.add_samples(c, run_id, samples))

    def gpu_samples(self, run_id: str) -> list[GpuSample]:
        """The GPU readings of a run in the order of time."""
        return self._read("reading GPU samples", lambda c: generations.read_samples(c, run_id, GpuSample))

    # Thresholds

    def save_threshold(
        self,
        run_id: str,
        threshold: Threshold,
        safe_max_tokens: int | None,
        verdict: PlaneVerdict,
        *,
        distinct_prompts: int | None = None,
        thinking: ThinkingBudget | None = None,
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
                thinking=thinking,
                saved=moment,
            )

    def thresholds(
        self, model: str | None = None, task: str | None = None, language: str | None = None
    ) -> list[StoredThreshold]:
        """Saved results, newest run first: the latest of each subject and decoding, then the older ones.

        Those that cannot be read are left out, with an `UnreadableRunWarning` that names their runs.
        """
        return self._read("reading thresholds", lambda c: results.read(c, model, task, language))

    # Diagnoses

    def save_diagnosis(self, found: Diagnosis, *, saved: float | None = None) -> None:
        """Save a run's diagnosis, finished or not, in place of an earlier one. saved: clock seconds, now."""
        moment = now() if saved is None else saved
        with self._write("saving a diagnosis") as connection:
            results.save_diagnosis(connection, found, moment)

    def diagnosis(self, run_id: str) -> Diagnosis | None:
        """The saved diagnosis of the run with exactly this id."""
        return self._read("reading a diagnosis", lambda c: results.read_diagnosis(c, run_id))

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
        with (
            translate_errors(self._address, doing),
            translate_values(self._address, doing),
            reading(self._engine) as connection,
        ):
            return query(connection)

    def _commit(self, doing: str, work: Callable[[Connection], T]) -> T:
        """Write in a transaction; once more where the server was restarted in it."""
        try:
            with self._write(doing) as connection:
                return work(connection)
        except ConnectionLostError:
            with self._write(doing) as connection:
                return work(connection)

    @contextmanager
    def _write(self, doing: str) -> Iterator[Connection]:
        with translate_errors(self._address, doing):
            for keep in self._claims:
                keep()
            with writing(self._engine) as connection:
                yield connection
        if self._address.file_identity() != self._file:
            raise StoreError(
                f"The store {self.location} was deleted, moved or replaced while it was open: what is "
                "written to it now would be lost.",
                hint="Begin again with --store FILE, in a folder that nothing else changes.",
            )
