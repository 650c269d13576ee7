"""What the store promises its callers: equality, order, idempotence, no secrets."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from stresstest.errors import StoreError, UsageError
from stresstest.model import (
    Basis,
    Decoding,
    Diagnosis,
    DocumentKind,
    Evidence,
    FailureKind,
    Generation,
    Phase,
    Plane,
    PlaneVerdict,
    RunStatus,
    ServerSample,
    ServiceFailure,
    Subject,
    Threshold,
)
from stresstest.store import open_store
from stresstest.store.repository import Store
from tests.support.stored_data import make_generation, make_run


def test_run_round_trip(store: Store) -> None:
    """A run comes back equal, every field of it, and a second one of its id is refused."""
    run = replace(make_run(simulated=True), ended=1010.5, note="a note")
    store.create_run(run)
    assert store.run("r1") == run
    with pytest.raises(StoreError, match="already"):
        store.create_run(run)


def test_update_changes_only_what_is_given(store: Store) -> None:
    """A resume can empty `ended` without touching the note; unknown runs are named."""
    store.create_run(replace(make_run(), note="kept"))
    store.update_run("r1", status=RunStatus.INTERRUPTED, ended=5.0)
    assert (store.run("r1").status, store.run("r1").ended) == (RunStatus.INTERRUPTED, 5.0)
    store.update_run("r1", status=RunStatus.RUNNING, ended=None)
    assert store.run("r1") == replace(make_run(), note="kept")
    with pytest.raises(UsageError, match="nope"):
        store.update_run("nope", note=None)
    with pytest.raises(UsageError, match="nope"):
        store.update_run("nope")


def test_runs_are_found_by_a_unique_beginning(store: Store) -> None:
    """A prefix works when it is unique; a whole id wins over being another's beginning."""
    with pytest.raises(UsageError, match="empty"):
        store.run("x")
    for run_id in ("swift-owl", "swift-owl-2", "calm-fox"):
        store.create_run(make_run(run_id))
    assert store.run("ca").id == "calm-fox"
    assert store.run("swift-owl").id == "swift-owl"
    with pytest.raises(UsageError, match="2 runs"):
        store.run("swift")
    with pytest.raises(UsageError) as unknown:
        store.run("clam-fox")
    assert unknown.value.hint == "Did you mean calm-fox?"
    with pytest.raises(UsageError) as hopeless:
        store.run("zzz")
    assert "calm-fox" in str(hopeless.value.hint)
    with pytest.raises(UsageError, match="was not found"):
        store.run("%")


def test_generations_round_trip_in_order(store: Store) -> None:
    """Generations come back equal, by phase, rung and index, whatever the order of arrival."""
    store.create_run(make_run())
    ordered = [
        make_generation(0, phase=Phase.CLIMB, rung=2),
        make_generation(1, phase=Phase.CLIMB, rung=10),
        make_generation(2, rung=1),
        make_generation(10, rung=1),
    ]
    for generation in (ordered[3], ordered[0], ordered[2], ordered[1]):
        assert store.add_generation("r1", generation)
    assert list(store.generations("r1")) == ordered
    assert store.records("r1") == [g.to_record() for g in ordered]
    assert {r.prompt_id for r in store.requests("r1")} == {g.prompt_id for g in ordered}
    assert store.generation("r1", "certify/1/10") == ordered[3]
    with pytest.raises(UsageError, match="certify/9/9"):
        store.generation("r1", "certify/9/9")


def test_no_field_of_a_generation_is_forgotten(store: Store) -> None:
    """Every field differs from its default in one of two generations, and both come back equal."""
    full = replace(
        make_generation(),
        attempts=3,
        unanswered_s=2.5,
        redrawn=True,
        invalid_from=12,
        token_source="tokenize",
    )
    lost = replace(
        make_generation(1),
        failure=ServiceFailure(FailureKind.CUT, "cut at 7", 502, 7, 1.5),
        finish_reason=None,
    )
    plain = Generation(full.job, "p", "t", full.verdict, tokens=())
    for field in fields(Generation):
        differing = [g for g in (full, lost) if getattr(g, field.name) != getattr(plain, field.name)]
        assert differing or field.name in {"job", "verdict"}, field.name
    store.create_run(make_run())
    store.add_generation("r1", full)
    store.add_generation("r1", lost)
    assert list(store.generations("r1")) == [full, lost]


def test_a_finished_generation_is_never_overwritten(store: Store) -> None:
    """The first finished result of a key stays; a lost one gives way to a later try."""
    store.create_run(make_run())
    first = make_generation()
    lost = replace(first, failure=ServiceFailure(FailureKind.STALL, "no token for 60 s"))
    assert store.add_generation("r1", lost)
    assert store.add_generation("r1", first)
    assert not store.add_generation("r1", replace(first, output_tokens=1))
    assert not store.add_generation("r1", lost)
    assert list(store.generations("r1")) == [first]


def test_odd_strings_are_kept(store: Store) -> None:
    """NUL, lone surrogates and overlong reasons from a server never cost a generation."""
    store.create_run(make_run())
    odd = replace(make_generation(), prompt_id="\0\ud800x", prompt_text="\ud83d\0", finish_reason="r" * 999)
    store.add_generation("r1", odd)
    assert list(store.generations("r1")) == [odd]


def test_generations_need_their_run(store: Store) -> None:
    """A generation of a run that is not stored is refused, not orphaned."""
    with pytest.raises(UsageError, match="Run 'r1' was not found"):
        store.add_generation("r1", make_generation())
    with pytest.raises(UsageError, match="Run 'r1' was not found"):
        store.add_samples("r1", [])


def test_samples_round_trip_in_time_order(store: Store) -> None:
    """Readings come back equal and sorted; what was not measured stays None."""
    store.create_run(make_run())
    late = ServerSample(
        2.5, 1.0, 0.0, 0.91, 3.0, 10.0, 20.0, {"stop": 4.0}, {"e2e_request_latency_seconds": (1.25, 4.0)}
    )
    early = ServerSample(1.5)
    store.add_samples("r1", [late])
    store.add_samples("r1", [early])
    store.add_samples("r1", [])
    assert store.samples("r1") == [early, late]


def test_wall_seconds_leave_out_the_pauses(store: Store) -> None:
    """Two sessions: one killed after its second generation, one ended; the hour between is not counted."""
    store.create_run(make_run())
    start = make_generation(0).started
    store.add_session("r1", start)
    store.add_generation("r1", make_generation(0))
    store.add_generation("r1", make_generation(1))  # ends 15 s after the start
    resumed = store.add_session("r1", start + 3600)
    store.add_generation("r1", make_generation(361))  # in the second session
    assert [s.seconds for s in store.sessions("r1")] == [15.0, 15.0]
    store.end_session(resumed, start + 3700)
    assert [s.ended for s in store.sessions("r1")] == [None, start + 3700]
    assert store.wall_seconds("r1") == 115.0
    with pytest.raises(StoreError, match="no session"):
        store.end_session(99, 1.0)


def test_a_session_killed_before_its_first_generation_lasted_nothing_known(store: Store) -> None:
    """No generation, no end: zero seconds, not an error and not the time until today."""
    store.create_run(make_run())
    store.add_session("r1", 50.0)
    assert store.wall_seconds("r1") == 0.0


def test_summaries_count_and_filter(store: Store) -> None:
    """`runs list` shows newest first, counts what degenerated and what was lost, by subject if asked."""
    other = Subject("lab", "technical", "it")
    store.create_run(make_run("old", created=1.0))
    store.create_run(make_run("new", created=2.0, subject=other, simulated=True))
    healthy = make_generation(1)
    store.add_generation("old", make_generation(0))
    store.add_generation("old", replace(healthy, verdict=replace(healthy.verdict, onset=None)))
    failure = ServiceFailure(FailureKind.TIMEOUT, "slow")
    store.add_generation("old", replace(make_generation(2), failure=failure))
    store.save_threshold("old", Threshold(0.1, 0.9, 800), 720, PlaneVerdict(None, None, "fine"))
    new, old = store.runs()
    assert (new.id, new.generations, new.output_tokens, new.threshold, new.simulated) == (
        "new",
        0,
        0,
        None,
        True,
    )
    assert (old.id, old.generations, old.degenerate, old.lost) == ("old", 3, 2, 1)
    assert (old.output_tokens, old.safe_max_tokens, old.threshold) == (150, 720, Threshold(0.1, 0.9, 800))
    assert [r.id for r in store.runs(other)] == ["new"]


def test_summaries_name_what_a_run_is_a_part_of(store: Store) -> None:
    """A campaign that a diagnosis began and the cell of a sweep are told from a person's own runs."""
    child = make_run("child", created=2.0)
    for run in (
        make_run("own", created=1.0),
        replace(child, settings=replace(child.settings, parent="own")),
        make_run("cell", created=3.0),
    ):
        store.create_run(run)
    store.save_document(DocumentKind.SWEEP, {}, runs=["cell"], id="s1", saved=1.0)
    store.save_document(DocumentKind.SWEEP, {}, runs=["cell"], id="s2", saved=2.0)
    store.save_document(DocumentKind.CHECK, {}, runs=["own"], id="c1")
    parts = {row.id: (row.parent, row.sweep) for row in store.runs()}
    assert parts == {"own": (None, None), "child": ("own", None), "cell": (None, "s2")}


def test_a_diagnosis_names_no_run_that_was_deleted(store: Store) -> None:
    """Every report went on to recommend its limit, and a command that fails."""
    for name in ("own", "child"):
        store.create_run(make_run(name))
    found = Diagnosis("own", (), complete=True, recommended=Decoding(), safe_max_tokens=424, safe_run="child")
    store.save_diagnosis(found)
    assert store.diagnosis("own") == found
    store.delete_run("child")
    assert store.diagnosis("own") == replace(found, safe_max_tokens=None, safe_run=None)


def test_thresholds_latest_first(store: Store) -> None:
    """`recommend`: the newest result of each subject and decoding first, superseded ones after them,
    and a simulator's number never in the place of a measured one."""
    verdict = PlaneVerdict(
        Plane.DECODING,
        Basis.OBSERVED,
        "loops",
        (Evidence(Plane.DECODING, True, "detector:loop", "x"),),
        ("penalty",),
    )
    plain = make_run("first", created=1.0)
    penalised = make_run("penalised", created=2.0)
    penalised = replace(
        penalised, settings=replace(penalised.settings, decoding=Decoding(repetition_penalty=1.1))
    )
    runs = [plain, penalised, make_run("second", created=3.0), make_run("sim", created=4.0, simulated=True)]
    for position, run in enumerate(runs):
        store.create_run(run)
        store.save_threshold(run.id, Threshold(0.1, 0.9, position), position, verdict, saved=9.0)
    store.save_threshold("first", Threshold(0.1, 0.9, 77), 70, verdict, distinct_prompts=38, saved=10.0)
    found = store.thresholds(model="lab", task="narrative", language="it")
    assert [(t.run_id, t.latest) for t in found] == [
        ("sim", True),
        ("second", True),
        ("penalised", True),
        ("first", False),
    ]
    first = found[-1]
    assert (first.threshold, first.safe_max_tokens) == (Threshold(0.1, 0.9, 77), 70)
    assert (first.verdict, first.saved, first.distinct_prompts) == (verdict, 10.0, 38)
    assert (first.server_version, first.tool_version, first.created) == ("0.32.0", "0.1.0", 1.0)
    assert [t.simulated for t in found] == [True, False, False, False]
    assert store.thresholds(language="en") == []


def save_results(store: Store, *results: tuple[str, Threshold, dict[str, Any]]) -> None:
    """Quick runs in the order of time that differ in some settings; those with a T have a limit of 800."""
    for name, threshold, changes in results:
        run = make_run(name, created=float(ord(name)))
        store.create_run(replace(run, settings=replace(run.settings, **({"rigor": "quick"} | changes))))
        safe = None if threshold.withheld else min(800, (threshold.tokens or 0) * 9 // 10) or None
        store.save_threshold(name, threshold, safe, PlaneVerdict(None, None, "fine"))


def test_a_newer_unfit_result_overrules_limits_of_another_rigor_load_and_address(store: Store) -> None:
    """The model was swapped and measured again, with other options: its old limits are no longer in force,
    however they were measured; that of another decoding is."""
    fine, unfit = Threshold(0.1, 0.9, 900), Threshold(0.1, 0.9, None, unfit=True)
    save_results(
        store,
        ("a", fine, {"rigor": "standard"}),
        ("b", fine, {"base_url": "http://127.0.0.1:8000/v1"}),
        ("c", fine, {"decoding": Decoding(repetition_penalty=1.1)}),
        ("d", unfit, {"concurrency": 16}),
        ("e", fine, {"rigor": "strict"}),
    )
    limits = {row.run_id: row.limit for row in store.thresholds() if row.latest}
    assert limits == {"a": None, "b": None, "c": 800, "d": None, "e": None}


@pytest.mark.parametrize(
    ("failing", "limits"),
    [
        (Threshold(0.1, 0.9, n=38, onsets=9), [None, None]),
        (Threshold(0.1, 0.9, n=38, onsets=3), [800, None]),
        (Threshold(0.1, 0.9, n=38, onsets=0), [800, 800]),
        (Threshold(0.1, 0.9, 20, n=60, onsets=5, certified=True), [800, 800]),
        (Threshold(0.1, 0.9, 1, n=40, onsets=2, certified=True), [None, None]),
        (Threshold(0.1, 0.9, 1, n=40, certified=True, censored_at=1), [800, 800]),
        (Threshold(0.1, 0.9, 950, n=40, onsets=2, certified=True, withheld="short answers"), [800, 800]),
    ],
    ids=["most fail", "more than 5 %", "too few", "certified", "no cap left", "short", "withheld"],
)
def test_a_result_without_a_safe_length_speaks_against_limits_that_tolerate_less(
    store: Store, failing: Threshold, limits: list[int | None]
) -> None:
    """Where no unit is asked for, nothing is unfit; 9 of 38 that fail at once contradict the 800 of another
    address all the same. How many failed decides: a sample that is only too small says nothing."""
    fine = Threshold(0.1, 0.9, 900, certified=True)
    save_results(
        store,
        ("a", fine, {}),
        ("b", replace(fine, alpha=0.05, confidence=0.95), {"rigor": "standard"}),
        ("c", failing, {"base_url": "http://127.0.0.1:8000/v1"}),
    )
    found = {row.run_id: row.limit for row in store.thresholds()}
    assert [found["a"], found["b"]] == limits


@pytest.mark.parametrize(
    ("changes", "limit"), [({"rigor": "standard"}, None), ({"concurrency": 2}, 800)], ids=["repeats", "less"]
)
@pytest.mark.parametrize("onsets", [0, 9], ids=["undecided", "degenerate"])
def test_a_larger_sample_that_finds_no_safe_length_takes_the_limits_place(
    store: Store, changes: dict[str, Any], limit: int | None, onsets: int
) -> None:
    """7 % of a standard sample fail, which a quick one's 10 % would allow; but it was asked the same question
    later and more thoroughly. One of a lower load was not."""
    failing = Threshold(0.05, 0.95, n=124, onsets=onsets)
    save_results(store, ("a", Threshold(0.1, 0.9, 900, certified=True), {}), ("b", failing, changes))
    assert next(row for row in store.thresholds() if row.run_id == "a").limit == limit


def test_a_run_that_was_resumed_last_is_the_newest_result(store: Store) -> None:
    """Begun first, interrupted, and measured to its end after the other: the server had become worse."""
    save_results(store, ("a", Threshold(0.1, 0.9, unfit=True), {}), ("b", Threshold(0.1, 0.9, 900), {}))
    for run_id in ("b", "a"):
        job = replace(make_generation().job, phase=Phase.CERTIFY)
        store.add_generation(run_id, replace(make_generation(), job=job))
    assert [(row.run_id, row.latest, row.limit) for row in store.thresholds()] == [
        ("a", True, None),
        ("b", False, None),
    ]


def test_an_unfit_result_holds_against_a_newer_one_of_a_lower_load(store: Store) -> None:
    """Unfit at 16 requests at a time, certified at 2: the worse result must not be the one that is dropped. A
    repetition at that load and address settles it."""
    fine, there = Threshold(0.1, 0.9, 900), {"base_url": "http://127.0.0.1:8000/v1"}

    def limits() -> dict[str, int | None]:
        return {row.run_id: row.limit for row in store.thresholds() if row.latest}

    save_results(
        store,
        ("a", Threshold(0.1, 0.9, None, unfit=True), {"concurrency": 16}),
        ("b", fine, {"concurrency": 2}),
        ("c", fine, {"concurrency": 16, "rigor": "strict", **there}),
        ("d", fine, {"concurrency": 2, "decoding": Decoding(repetition_penalty=1.1)}),
    )
    assert limits() == {"a": None, "b": None, "c": None, "d": 800}
    assert {row.overruled_by for row in store.thresholds() if row.run_id in {"b", "c"}} == {"a"}
    save_results(store, ("e", fine, {"concurrency": 32}))
    assert limits() == {"a": None, "b": 800, "c": 800, "d": 800, "e": 800}


@pytest.mark.parametrize(("prompts", "limit"), [(1, None), (38, 800)])
def test_a_repetition_with_fewer_prompts_is_none(store: Store, prompts: int, limit: int | None) -> None:
    """Unfit for 38 prompts, then certified for another one alone: that says nothing of the 38."""
    verdict = PlaneVerdict(None, None, "fine")
    for name, digest, threshold, distinct in (
        ("a", "many", Threshold(0.1, 0.9, unfit=True), 38),
        ("b", "other", Threshold(0.1, 0.9, 900), prompts),
    ):
        store.create_run(replace(make_run(name, created=float(ord(name))), prompts_digest=digest))
        safe = 800 if threshold.tokens else None
        store.save_threshold(name, threshold, safe, verdict, distinct_prompts=distinct)
    assert next(row for row in store.thresholds() if row.run_id == "b").limit == limit


def test_a_smaller_sample_does_not_overrule_a_larger_one(store: Store) -> None:
    """Unfit by a standard run, certified by a quick one of the same load: its few answers prove less."""
    save_results(
        store,
        ("a", Threshold(0.05, 0.95, None, unfit=True), {"rigor": "standard"}),
        ("b", Threshold(0.1, 0.9, 900), {"rigor": "quick"}),
    )
    assert [row.limit for row in store.thresholds()] == [None, None]


def test_delete_takes_everything_along(store: Store) -> None:
    """A deleted run leaves no generation, sample, session or threshold; its neighbour keeps its own."""
    for run_id in ("r1", "r2"):
        store.create_run(make_run(run_id))
        store.add_generation(run_id, make_generation())
        store.add_samples(run_id, [ServerSample(1.0)])
        store.add_session(run_id, 1.0)
        store.save_threshold(run_id, Threshold(0.1, 0.9), None, PlaneVerdict(None, None, ""))
    store.delete_run("r1")
    assert (list(store.generations("r1")), store.samples("r1"), store.sessions("r1")) == ([], [], [])
    assert [t.run_id for t in store.thresholds()] == ["r2"]
    assert len(list(store.generations("r2"))) == len(store.samples("r2")) == len(store.sessions("r2")) == 1
    with pytest.raises(UsageError):
        store.delete_run("r")


def test_no_credentials_reach_the_file(tmp_path: Path) -> None:
    """Passwords in addresses and in quoted addresses are nowhere in the store's files."""
    secret = "hunter2"
    run = make_run()
    run = replace(
        run,
        settings=replace(run.settings, base_url=f"http://me:{secret}@host/v1?api_key={secret}"),
        profile=replace(run.profile, base_url=f"http://me:{secret}@host/v1"),
    )
    failure = ServiceFailure(FailureKind.REFUSED, f"http://me:{secret}@host/v1 refused")
    with open_store(str(tmp_path / "s.sqlite3")) as store:
        store.create_run(run)
        store.add_generation("r1", replace(make_generation(), failure=failure))
        assert store.run("r1").settings.base_url == "http://host/v1"
        stored = next(store.generations("r1")).failure
        assert stored == ServiceFailure(FailureKind.REFUSED, "http://host/v1 refused")
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"host/v1" in written
    assert secret.encode() not in written


def test_a_clock_that_was_set_back_makes_no_old_run_the_newest(store: Store) -> None:
    """A run dated in the future would stay `latest`, with a limit that a later one has disproved."""
    for name, created, tokens in (("future", 9000.0, 4000), ("later", 1000.0, 2000)):
        store.create_run(make_run(name, created=created))
        store.add_session(name, created)
        threshold = Threshold(0.05, 0.95, tokens, 124, 0, 0.02, True)
        store.save_threshold(name, threshold, tokens, PlaneVerdict(None, None, "Nothing fails."))
    assert [row.id for row in store.runs()] == ["later", "future"]
    assert [row.run_id for row in store.thresholds() if row.latest] == ["later"]
    for name, saved in (("passed", 9000.0), ("refused", 1000.0)):
        store.save_document(DocumentKind.CHECK, {}, runs=("later", "future"), id=name, saved=saved)
    assert [d.id for d in store.documents(DocumentKind.CHECK)] == ["refused", "passed"]
