"""GPU readings in the store: equality, order, deletion, and stores from before there were any."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stresstest.errors import UsageError
from stresstest.model import GpuDevice, GpuSample
from stresstest.store import open_store
from stresstest.store.documents import load
from stresstest.store.generations import gpu_body
from stresstest.store.repository import Store
from tests.support.stored_data import make_run

DEVICE = GpuDevice("0", "GPU-604ac76c", "Stand-in \0 H100", {"power": "not supported by this GPU"})
FULL = GpuSample(
    at=1000.25,
    gpu="0",
    source="NVML",
    utilisation=0.97,
    memory_used=85_000_000_000,
    memory_total=85_899_345_920,
    power=431.5,
    power_limit=700.0,
    temperature=71.0,
    sm_clock=1980.0,
    memory_clock=2619.0,
    throttle=("sw_power_cap", "sw_thermal_slowdown"),
    ecc_uncorrected=2,
    pcie_replays=7,
    xids=(79, 31),
    lost="fell off the bus",
    device=DEVICE,
)
_NUMBERS = st.none() | st.floats(0, 1e15)
_COUNTS = st.none() | st.integers(0, 1 << 60)


def test_readings_come_back_equal_and_in_order(store: Store) -> None:
    """Every field, () beside None, and the order of time whatever the order of writing."""
    empty = GpuSample(at=1000.5, gpu="0:mig1", source="DCGM", throttle=(), xids=())
    bare = GpuSample(at=999.0, gpu="1", source="NVML")
    store.create_run(make_run())
    store.create_run(make_run("r2"))
    store.add_gpu_samples("r1", [FULL, empty])
    store.add_gpu_samples("r1", [bare])
    store.add_gpu_samples("r1", [])
    assert store.gpu_samples("r1") == [bare, FULL, empty]
    assert store.gpu_samples("r2") == []
    with pytest.raises(UsageError, match="nope"):
        store.add_gpu_samples("nope", [FULL])


def test_deleting_a_run_deletes_its_readings(tmp_path: Path) -> None:
    """Nothing is left behind without a run that it belongs to."""
    path = tmp_path / "s.db"
    with open_store(str(path)) as store:
        store.create_run(make_run())
        store.add_gpu_samples("r1", [FULL])
        store.delete_run("r1")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM gpu_sample").fetchone() == (0,)


def test_what_is_not_measured_takes_no_room() -> None:
    """Four readings a second for eight GPUs are stored for hours: a bare one stays below 60 bytes."""
    body = gpu_body(GpuSample(at=1700000000.25, gpu="0", source="NVML"))
    assert "null" not in body
    assert len(body) < 60


@settings(max_examples=60)
@given(
    numbers=st.tuples(*[_NUMBERS] * 5),
    counts=st.tuples(*[_COUNTS] * 4),
    throttle=st.none() | st.lists(st.text(max_size=8), max_size=3).map(tuple),
    xids=st.none() | st.lists(st.integers(0, 200), max_size=3).map(tuple),
    lost=st.none() | st.text(max_size=20),
    device=st.none()
    | st.builds(GpuDevice, st.text(max_size=4), missing=st.dictionaries(st.text(), st.text())),
)
def test_any_reading_survives_its_document(
    numbers: tuple[float | None, ...],
    counts: tuple[int | None, ...],
    throttle: tuple[str, ...] | None,
    xids: tuple[int, ...] | None,
    lost: str | None,
    device: GpuDevice | None,
) -> None:
    """Dropping what is absent loses nothing that is present: 0, () and "" come back as they were."""
    utilisation, power, power_limit, temperature, sm_clock = numbers
    used, total, ecc, replays = counts
    sample = GpuSample(
        1.5,
        "0",
        "NVML",
        utilisation=utilisation,
        memory_used=used,
        memory_total=total,
        power=power,
        power_limit=power_limit,
        temperature=temperature,
        sm_clock=sm_clock,
        throttle=throttle,
        ecc_uncorrected=ecc,
        pcie_replays=replays,
        xids=xids,
        lost=lost,
        device=device,
    )
    assert load(gpu_body(sample), GpuSample) == sample
