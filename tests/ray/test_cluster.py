"""`scan --engine ray` on three Ray nodes of one machine: `make ray`, in an environment of its own."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.scanned_files import corpus, write

pytestmark = pytest.mark.ray
FILES, ANSWERS = 8, 400
SCAN = (*(sys.executable, "-m", "stresstest", "--display", "none", "scan"), "--group-by", "model", "--json")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20})
    for _ in range(2):
        found.add_node(num_cpus=1, object_store_memory=80 << 20)
    yield found
    found.shutdown()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of answers; one poisoned: garbage between its lines, and its gzip stream cut."""
    folder = tmp_path_factory.mktemp("answers")
    rows = corpus(FILES * ANSWERS)
    found = [write(folder / f"{n}.jsonl", rows[n * ANSWERS : (n + 1) * ANSWERS]) for n in range(FILES - 1)]
    lines = [json.dumps(row).encode() for row in rows[(FILES - 1) * ANSWERS :]]
    lines[7:7] = [b"\x00\xff garbage", b'{"text": 7}']
    packed = gzip.compress(b"\n".join(lines))
    poisoned = folder / "poisoned.jsonl.gz"
    poisoned.write_bytes(packed[: len(packed) * 3 // 4])
    return [*found, str(poisoned)]


@pytest.fixture(scope="module")
def alone(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Any]]:
    """What one machine prints, and its verdicts."""
    out = tmp_path_factory.mktemp("alone") / "verdicts.jsonl"
    done = subprocess.run([*SCAN, *files, "--out", str(out)], capture_output=True, check=True)
    return done.stdout, rows_of([out])


def rows_of(paths: list[Path]) -> list[Any]:
    return [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]


def on_ray(cluster: Any, files: list[str], out: Path, meanwhile: Callable[[], None] | None = None) -> bytes:
    """What the cluster's scan prints. meanwhile: called when the first file is finished."""
    command = [*SCAN, *files, "--engine", "ray", "--address", cluster.address, "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:

        def disturb() -> None:
            while process.poll() is None and not list(out.glob("*.counts")):
                time.sleep(0.02)
            if meanwhile is not None:
                meanwhile()

        thread = threading.Thread(target=disturb)
        thread.start()
        printed, errors = process.communicate(timeout=500)
        thread.join()
    assert process.returncode == 0, errors.decode()
    return printed


def check(printed: bytes, out: Path, files: list[str], alone: tuple[bytes, list[Any]]) -> None:
    """Byte for byte the same table; every line once; nothing but parts in the folder."""
    assert printed == alone[0]
    parts = [next(out.glob(f"{Path(name).name}.*.verdicts.jsonl")) for name in files]
    rows = rows_of(parts)
    places = [(row["source"], row["line"]) for row in rows]
    assert len(set(places)) == len(places)
    judged = [row for row in rows if not row["damaged"]]
    assert len(rows) - len(judged) == json.loads(printed)["damaged"] == 3
    assert [{key: row[key] for key in alone[1][0]} for row in judged] == alone[1]
    assert len(list(out.iterdir())) == 2 * len(files)


def test_a_cluster_says_what_one_machine_says(
    cluster: Any, files: list[str], alone: tuple[bytes, list[Any]], tmp_path: Path
) -> None:
    """The same table and verdicts, the poisoned file included; a rerun judges nothing again."""
    check(on_ray(cluster, files, tmp_path), tmp_path, files, alone)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert on_ray(cluster, files, tmp_path) == alone[0]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written


def test_a_killed_worker_loses_nothing(
    cluster: Any, files: list[str], alone: tuple[bytes, list[Any]], tmp_path: Path
) -> None:
    """SIGKILL, as the kernel sends it for lack of memory: its file is judged again, elsewhere."""
    killed: list[int] = []

    def kill() -> None:
        listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            pid, _, name = line.strip().partition(" ")
            if name.startswith("ray::_judge_part") and not killed:
                os.kill(int(pid), signal.SIGKILL)
                killed.append(int(pid))

    check(on_ray(cluster, files, tmp_path, kill), tmp_path, files, alone)
    assert killed


def test_a_killed_node_loses_nothing(
    cluster: Any, files: list[str], alone: tuple[bytes, list[Any]], tmp_path: Path
) -> None:
    """A node that is gone in mid-run: nothing lost, nothing twice."""

    def kill() -> None:
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    check(on_ray(cluster, files, tmp_path, kill), tmp_path, files, alone)


def test_a_head_that_dies_is_missed(files: list[str], tmp_path: Path) -> None:
    """Ray ends the process itself after a minute, without a sentence: it has to be said before, and what is
    finished stays."""
    from ray.cluster_utils import Cluster

    own = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20})
    copies = [shutil.copy(files[0], tmp_path / f"{n}.jsonl") for n in range(60)]
    out = tmp_path / "verdicts"
    words = [*SCAN, *copies, "--engine", "ray", "--address", own.address, "--out", str(out)]
    scan = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while scan.poll() is None and len(list(out.glob("*"))) < 3:
        time.sleep(0.2)
    own.head_node.kill_gcs_server()
    own.head_node.kill_raylet()
    _, said = scan.communicate(timeout=100)
    assert "The Ray cluster no longer answers" in said, said[-2000:]
    assert "only the rest" in said
    assert scan.returncode not in (0, -signal.SIGABRT)
    assert len(list(out.glob("*"))) >= 3


def test_judge_makes_columns_in_a_pipeline(cluster: Any, files: list[str]) -> None:
    """map_batches over raw lines: a verdict or damage for every line, with the columns that are kept."""
    import ray

    from stresstest.integrations.ray import Judge

    ray.init(address=cluster.address, ignore_reinit_error=True)
    lines = ray.data.read_text(files[:2], include_paths=True)
    found = lines.map_batches(
        Judge,
        fn_constructor_kwargs={"line": "text", "language": "en", "keep": ["path"]},
        batch_format="pyarrow",
        concurrency=1,
        num_cpus=0.5,
    ).to_pandas()
    ray.shutdown()
    assert len(found) == 2 * ANSWERS
    assert set(found["path"]) == set(files[:2])
    assert int(found["degenerate"].sum()) == 2 * ANSWERS // 8
    assert found["damaged"].isna().all()


def printed_by(*words: str) -> bytes:
    done = subprocess.run([*SCAN, *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def bucket(files: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same files in a bucket of an S3 server of this machine."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "very-secret"}
    for name, value in (settings | keys).items():
        monkeypatch.setenv(name, value)
    system = s3fs.S3FileSystem(skip_instance_cache=True)
    system.mkdir("answers")
    for name in files:
        system.put(name, f"answers/2026/{Path(name).name}")
    yield "s3://answers/2026/*"
    server.stop()


def test_a_bucket_says_what_the_files_say(
    files: list[str], alone: tuple[bytes, list[Any]], bucket: str, tmp_path: Path
) -> None:
    """s3://…/* through s3fs, on one machine and on Ray, whose workers read it themselves: the verdicts are
    those of the files, in the order of their names. A rerun judges nothing but a file that was replaced."""
    once, out = tmp_path / "verdicts.jsonl", tmp_path / "parts"
    local = printed_by(bucket, "--out", str(once))
    assert rows_of([once]) == alone[1]
    # A cluster of its own, which has this process's environment, and so the keys of the bucket.
    words = (bucket, "--engine", "ray", "--out", str(out))
    assert printed_by(*words) == local == alone[0]
    parts = [next(out.glob(f"{Path(name).name}.*.verdicts.jsonl")) for name in files]
    assert {row["source"] for row in rows_of(parts)} == {
        f"s3://answers/2026/{Path(name).name}" for name in files
    }
    written = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert printed_by(*words) == local
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == written
    shutil.copy(files[1], tmp_path / "other")
    with (tmp_path / "other").open("a", encoding="utf-8") as file:
        file.write(json.dumps(corpus(1)[0]) + "\n")
    import s3fs

    s3fs.S3FileSystem(skip_instance_cache=True).put(
        str(tmp_path / "other"), f"answers/2026/{Path(files[0]).name}"
    )
    assert json.loads(printed_by(*words))["requests"] == json.loads(local)["requests"] + 1
    changed = [path for path, at in written.items() if path.stat().st_mtime_ns != at]
    assert {path.name.split(".")[0] for path in changed} == {"0"}
