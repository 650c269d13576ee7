"""The NVML sampler on its real ctypes path, against a compiled stand-in for NVIDIA's library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.nvml.standin import READINGS, build, compiler, run_python

pytestmark = pytest.mark.compiler

WORKING = """
at 0 {0} utilisation 97
at 0 {0} memory_used 90000000000
at 0 {0} memory_total 100000000000
at 0 {0} power 430500
at 0 {0} power_limit 700000
at 0 {0} temperature 62
at 0 {0} sm_clock 1980
at 0 {0} memory_clock 2619
at 0 {0} throttle 0
at 0 {0} ecc_uncorrected 0
at 0 {0} pcie_replays 4
"""
ONE = "gpu GPU-aaaaaaaa-1111 NVIDIA H100 80GB HBM3\n" + WORKING.format(0)
TWO = ONE + "gpu GPU-bbbbbbbb-2222 NVIDIA H100 80GB HBM3\n" + WORKING.format(1)

LOOK = """
import dataclasses, json
from stresstest.telemetry.gpu.nvml_sampler import probe_gpus
print(json.dumps(dataclasses.asdict(probe_gpus())))
"""

SAMPLER = """
import asyncio, dataclasses, json, sys
from stresstest.telemetry.gpu.nvml_sampler import NvmlSampler
async def main():
    sampler = NvmlSampler(interval=0.02, patience=float(sys.argv[2]))
    await sampler.start()
    while len(sampler.samples) < int(sys.argv[1]) and sampler.trouble is None:
        await asyncio.sleep(0.002)
    await sampler.stop()
    await sampler.stop()
    samples = [dataclasses.asdict(s) for s in sampler.samples]
    print(json.dumps({"samples": samples, "trouble": sampler.trouble, "mend": sampler.remedy}))
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, compiled once."""
    if compiler() is None:
        if os.environ.get("REQUIRE_COMPILER"):
            pytest.fail("REQUIRE_COMPILER is set and there is no C compiler")
        pytest.skip("no C compiler here")
    return build(tmp_path_factory.mktemp("nvml"))


def _read(library: Path | None, tmp_path: Path, script: str, *arguments: str) -> Any:
    path = tmp_path / "script.txt"
    path.write_text(script, encoding="utf-8")
    return run_python(library, path, READINGS, *arguments)


def _trouble(library: Path | None, tmp_path: Path, script: str, *wanted: str) -> str:
    found = _read(library, tmp_path, script, "1", *wanted)
    assert set(found) == {"trouble", "hint"}
    return str(found["trouble"])


def test_every_field_in_its_unit(library: Path, tmp_path: Path) -> None:
    """Milliwatts become watts, percent a share; the GPU is named once; no event means (), not None."""
    found = _read(library, tmp_path, ONE, "2")
    first, second = found["samples"]
    assert found["driver"] == "999.1"
    assert first.pop("device") == {
        "gpu": "0",
        "uuid": "GPU-aaaaaaaa-1111",
        "name": "NVIDIA H100 80GB HBM3",
        "missing": {},
    }
    assert second.pop("device") is None
    assert second.pop("at") >= first.pop("at") > 1e9
    assert (
        first
        == second
        == {
            "gpu": "0",
            "source": "NVML",
            "utilisation": 0.97,
            "memory_used": 90_000_000_000,
            "memory_total": 100_000_000_000,
            "power": 430.5,
            "power_limit": 700.0,
            "temperature": 62.0,
            "sm_clock": 1980.0,
            "memory_clock": 2619.0,
            "throttle": [],
            "ecc_uncorrected": 0,
            "pcie_replays": 4,
            "xids": [],
            "lost": None,
        }
    )


def test_pressure_throttling_and_errors_as_they_come(library: Path, tmp_path: Path) -> None:
    """Reasons by name, an XID once and with the reading that it came with, counters as totals."""
    script = (
        ONE
        + """
at 2 0 throttle 0x24
at 2 0 temperature 91
at 3 0 throttle 0x1000
at 3 0 ecc_uncorrected 5
xid 1 0 31
xid 1 0 43
"""
    )
    samples = _read(library, tmp_path, script, "4")["samples"]
    assert [s["throttle"] for s in samples] == [[], [], ["sw_power_cap", "sw_thermal_slowdown"], ["0x1000"]]
    assert [s["temperature"] for s in samples] == [62.0, 62.0, 91.0, 91.0]
    assert [s["ecc_uncorrected"] for s in samples] == [0, 0, 0, 5]
    assert [s["xids"] for s in samples] == [[], [31, 43], [], []]


def test_what_cannot_be_read_is_none_with_its_reason(library: Path, tmp_path: Path) -> None:
    """Not supported, not permitted, and failing for a moment: each in words, none as a zero."""
    script = (
        ONE
        + """
fail 0 0 power 3
fail 0 0 ecc_uncorrected 4
fail 0 0 xids 3
fail 1 0 temperature 999
fail 2 0 temperature 0
"""
    )
    samples = _read(library, tmp_path, script, "3")["samples"]
    lasting = {
        "power": "not supported by this GPU",
        "ecc_uncorrected": "not permitted to this user",
        "xids": "not supported by this GPU",
    }
    assert [(s["power"], s["ecc_uncorrected"], s["xids"]) for s in samples] == [(None, None, None)] * 3
    assert [s["temperature"] for s in samples] == [62.0, None, 62.0]
    assert samples[0]["device"]["missing"] == lasting
    assert samples[1]["device"]["missing"] == lasting | {"temperature": "NVML: Unknown Error"}
    assert samples[2]["device"]["missing"] == lasting


def test_a_gpu_lost_mid_run_ends_with_a_fact_and_the_others_go_on(library: Path, tmp_path: Path) -> None:
    """Its last reading says why; the other GPU's XIDs still arrive after that."""
    script = TWO + "fail 2 0 all 15\nxid 3 1 74\n"
    found = _read(library, tmp_path, script, "5")
    lost = [s for s in found["samples"] if s["gpu"] == "0"]
    other = [s for s in found["samples"] if s["gpu"] == "1"]
    assert [s["lost"] for s in lost] == [None, None, "the GPU has fallen off the bus or is inaccessible"]
    assert lost[-1]["utilisation"] is None
    assert [s["lost"] for s in other] == [None] * 5
    assert [s["xids"] for s in other] == [[], [], [], [74], []]
    assert not found["exhausted"]


def test_a_gpu_that_stops_answering_is_lost_too(library: Path, tmp_path: Path) -> None:
    """Some drivers say only "unknown error": four empty readings in a row are taken for a loss."""
    found = _read(library, tmp_path, ONE + "fail 1 0 all 999\n", "9")
    assert [s["lost"] for s in found["samples"]] == [
        *[None] * 4,
        "no answer in 4 readings (NVML: Unknown Error)",
    ]
    assert found["exhausted"]


@pytest.mark.parametrize(
    ("code", "why"),
    [(15, "the GPU has fallen off the bus or is inaccessible"), (4, "not permitted to this user")],
)
def test_a_gpu_that_cannot_be_opened_is_told_once(library: Path, tmp_path: Path, code: int, why: str) -> None:
    """It never was there in this run, so it is not "lost", and the other one is read all the same."""
    found = _read(library, tmp_path, TWO + f"fail 0 0 all {code}\n", "3")
    assert [s["gpu"] for s in found["samples"]] == ["1", "0", "1", "1"]
    assert [s["lost"] for s in found["samples"]] == [None] * 4
    assert found["samples"][1]["device"]["missing"] == {"everything": why}


def test_mig_parents_have_no_utilisation_and_instances_have_memory(library: Path, tmp_path: Path) -> None:
    """What the whole GPU tells is not invented for its instances, nor the other way round."""
    script = ONE + "mig 0 MIG-cccccccc-3333 1000 4000\nmig 0 MIG-dddddddd-4444 3000 4000\n"
    whole, first, second = _read(library, tmp_path, script, "1")["samples"]
    assert (whole["gpu"], whole["utilisation"], whole["temperature"]) == ("0", None, 62.0)
    assert whole["device"]["missing"] == {"utilisation": "not reported by a GPU in MIG mode"}
    assert [(s["gpu"], s["memory_used"], s["memory_total"]) for s in (first, second)] == [
        ("0:mig0", 1000, 4000),
        ("0:mig1", 3000, 4000),
    ]
    assert (first["temperature"], first["throttle"], first["xids"]) == (None, None, None)
    assert first["device"]["missing"]["throttle"] == "reported for the whole GPU only"
    chosen = _read(library, tmp_path, script, "1", "MIG-dddddddd")["samples"]
    assert [s["gpu"] for s in chosen] == ["0", "0:mig1"]


def test_chosen_gpus_only(library: Path, tmp_path: Path) -> None:
    """By index, by the beginning of a UUID, each once; an unknown one is refused with what there is."""
    for wanted in (["1"], ["GPU-bbbbbbbb"], ["gpu-BBBBBBBB-2222", "1"]):
        assert [s["gpu"] for s in _read(library, tmp_path, TWO, "1", *wanted)["samples"]] == ["1"]
    assert _trouble(library, tmp_path, TWO, "7") == "GPU '7' was not found; the GPUs are 0, 1."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("init 9\n", "The NVIDIA driver is not loaded."),
        ("init 4\n", "This user may not talk to the NVIDIA driver."),
        ("init 18\n", "The NVIDIA library and the loaded driver differ in version."),
        ("init 999\n", "NVML could not be opened: Unknown Error."),
        ("init 0\n", "The NVIDIA driver knows no GPU here."),
    ],
)
def test_a_driver_that_refuses_is_a_sentence(
    library: Path, tmp_path: Path, script: str, sentence: str
) -> None:
    """Every way in which NVML as a whole is not there has its own words."""
    assert _trouble(library, tmp_path, script) == sentence


def test_no_library_at_all_is_a_sentence(tmp_path: Path) -> None:
    """A machine without NVIDIA's driver, like the one that runs this test."""
    code = READINGS.replace("import dataclasses", "import ctypes, dataclasses", 1)
    hidden = "ctypes.CDLL = lambda name: (_ for _ in ()).throw(OSError(name))\nfrom stresstest"
    script = tmp_path / "script.txt"
    found = run_python(None, script, code.replace("from stresstest", hidden, 1), "1")
    assert found["trouble"] == "No NVIDIA driver library was found (libnvidia-ml.so.1)."
    assert "docker run --gpus all" in found["hint"]


def test_an_old_driver_is_asked_by_the_older_names(tmp_path: Path, library: Path) -> None:
    """Drivers before 535 know neither clocks-event reasons nor TemperatureV under these names."""
    old = build(tmp_path / "old", "-DOLD_DRIVER")
    (sample,) = _read(old, tmp_path, ONE + "at 0 0 throttle 0x40\n", "1")["samples"]
    assert (sample["throttle"], sample["temperature"]) == (["hw_thermal_slowdown"], 62.0)
    assert sample["device"]["missing"] == {}


def _sampled(library: Path, tmp_path: Path, script: str, enough: int, patience: float = 60) -> Any:
    path = tmp_path / "script.txt"
    path.write_text(script, encoding="utf-8")
    return run_python(library, path, SAMPLER, str(enough), str(patience))


def test_the_thread_samples_and_stops_twice(library: Path, tmp_path: Path) -> None:
    """Readings come in the order of time, with a last one at the end, and `stop` may be called again."""
    found = _sampled(library, tmp_path, ONE, 5)
    times = [s["at"] for s in found["samples"]]
    assert times == sorted(times)
    assert len(times) >= 6
    assert found["trouble"] is None


def test_a_call_that_hangs_holds_nobody_up(library: Path, tmp_path: Path) -> None:
    """The fourth reading hangs for an hour: what was read is kept, and the program ends without it."""
    found = _sampled(library, tmp_path, ONE + "slow 3 0 power 3600000\n", 3, patience=0.3)
    assert len(found["samples"]) == 3


def test_trouble_is_told_after_the_start(library: Path, tmp_path: Path) -> None:
    """Nothing is raised: a measurement goes on without its GPUs, and can say why."""
    found = _sampled(library, tmp_path, "init 9\n", 1)
    assert (found["samples"], found["trouble"]) == ([], "The NVIDIA driver is not loaded.")
    assert "modprobe" in found["mend"]


def test_a_look_lists_the_gpus(library: Path, tmp_path: Path) -> None:
    """What `doctor` asks: driver, names, and what each GPU does not tell."""
    path = tmp_path / "script.txt"
    path.write_text(TWO + "fail 0 1 power 3\n", encoding="utf-8")
    found = run_python(library, path, LOOK)
    assert (found["driver"], found["trouble"]) == ("999.1", None)
    assert [d["missing"] for d in found["devices"]] == [{}, {"power": "not supported by this GPU"}]
