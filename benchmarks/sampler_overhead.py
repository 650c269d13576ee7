"""What reading the GPUs four times a second costs the measuring client: CPU, and lag of its event loop.

Where there is a GPU, the driver's own library is read; elsewhere (or with --standin) the stand-in that the
tests compile, whose calls cost nothing, so that what is left is this tool's own cost, and whose calls can
be made to block, as a busy driver's do. An event loop that only sleeps 1 ms at a time runs beside it; how
late it wakes is what the arrival of a token would have been off.

    python -m benchmarks.sampler_overhead [--standin] [--gpus 8] [--seconds 10]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stresstest.store.generations import gpu_body
from stresstest.telemetry.gpu.nvml_sampler import NvmlSampler, probe_gpus
from tests.nvml.standin import ROOT, build

FIELDS = {
    "utilisation": 97,
    "memory_used": 85_000_000_000,
    "memory_total": 85_899_345_920,
    "power": 431_500,
    "power_limit": 700_000,
    "temperature": 66,
    "sm_clock": 1980,
    "memory_clock": 2619,
    "throttle": 4,
    "ecc_uncorrected": 0,
    "pcie_replays": 4,
}


def script(gpus: int, block_ms: int) -> str:
    """A stand-in's script: so many working GPUs, of which the first one's power reading blocks."""
    lines = []
    for gpu in range(gpus):
        lines.append(f"gpu GPU-{gpu:08d}-bench Stand-in H100 80GB HBM3")
        lines += [f"at 0 {gpu} {name} {value}" for name, value in FIELDS.items()]
    if block_ms:
        lines.append(f"slow 0 0 power {block_ms}")
    return "\n".join(lines) + "\n"


async def lags(seconds: float) -> list[float]:
    """How late, in milliseconds, each wake-up of a loop came that slept for 1 ms."""
    found = []
    end = time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        await asyncio.sleep(0.001)
        found.append(1000 * (time.perf_counter() - before) - 1.0)
    return sorted(found)


async def measure(seconds: float, interval: float | None) -> dict[str, float]:
    """CPU share of one core and lag percentiles; interval None: without any sampler."""
    sampler = NvmlSampler(interval=interval) if interval is not None else None
    if sampler is not None:
        await sampler.start()
    before = len(sampler.samples) if sampler is not None else 0
    cpu, wall = time.process_time(), time.perf_counter()
    late = await lags(seconds)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    readings = len(sampler.samples) - before if sampler is not None else 0
    found = {
        "cpu": cpu / wall,
        "p50": late[len(late) // 2],
        "p99": late[int(0.99 * len(late))],
        "max": late[-1],
        "readings": float(readings),
    }
    if sampler is not None:
        await sampler.stop()
        found["bytes"] = sum(len(gpu_body(s)) for s in sampler.samples) / max(1, len(sampler.samples))
    return found


def cost_of_reading(times: int) -> float:
    """Milliseconds of one reading of all GPUs, the cheapest of `times`."""
    from stresstest.telemetry.gpu.nvml_reader import NvmlReader

    reader = NvmlReader()
    found = []
    for _ in range(times):
        before = time.perf_counter()
        reader.read()
        found.append(1000 * (time.perf_counter() - before))
    reader.close()
    return min(found)


def child(seconds: float) -> None:
    """Measure in this process and print the numbers."""
    alone = asyncio.run(measure(seconds, None))
    with_it = asyncio.run(measure(seconds, 0.25))
    print(json.dumps({"alone": alone, "with": with_it, "reading_ms": cost_of_reading(40)}))


def run(arguments: list[str], environment: dict[str, str]) -> Any:
    command = [sys.executable, "-m", "benchmarks.sampler_overhead", *arguments]
    done = subprocess.run(command, env=os.environ | environment, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def show(what: str, found: Any) -> None:
    alone, beside = found["alone"], found["with"]
    extra = 100 * (beside["cpu"] - alone["cpu"])
    lag = " / ".join(f"{beside[key]:.2f}" for key in ("p50", "p99", "max"))
    before = " / ".join(f"{alone[key]:.2f}" for key in ("p50", "p99", "max"))
    print(
        f"{what:<34} {found['reading_ms']:>8.2f} ms a reading  {extra:>5.2f} % of a core more  "
        f"lag ms p50/p99/max {before} -> {lag}  "
        f"{beside['readings']:.0f} samples, {beside['bytes']:.0f} B each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--standin", action="store_true", help="use the stand-in although there is a GPU")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of the stand-in (at most 8)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.seconds)
        return
    arguments = ["--child", "--seconds", str(options.seconds)]
    found = probe_gpus()
    if found.devices and not options.standin:
        names = ", ".join(f"{d.gpu}: {d.name}" for d in found.devices)
        print(f"driver {found.driver}, {names}")
        show(f"{len(found.devices)} GPUs, the driver's library", run(arguments, {}))
        return
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        path = Path(folder) / "script.txt"
        environment = {"LD_LIBRARY_PATH": str(library), "NVML_SCRIPT": str(path)}
        for gpus, block_ms in ((1, 0), (options.gpus, 0), (options.gpus, 5), (options.gpus, 100)):
            path.write_text(script(gpus, block_ms), encoding="utf-8")
            words = f"{gpus} GPUs, stand-in" + (f", a call blocks {block_ms} ms" if block_ms else "")
            show(words, run(arguments, environment))


if __name__ == "__main__":
    main()
