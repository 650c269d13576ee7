"""What this process's children may import."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from stresstest.features.demo.command import simulator
from stresstest.own_process import outside_folder, safe_path

_SCRIPT = (
    "import sys\nfrom stresstest.cli.app import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
)
_PAYLOAD = "open('imported', 'w').close()\nraise SystemExit(9)\n"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_workers_import_nothing_of_the_current_folder(tmp_path: Path, workers: int) -> None:
    """Python starts them with ``-c``: a `multiprocessing.py` in a cloned repository ran with your keys."""
    script, folder = tmp_path / "stresstest-command.py", tmp_path / "clone"
    script.write_text(_SCRIPT)
    folder.mkdir()
    (folder / "multiprocessing.py").write_text(_PAYLOAD)
    line = '{"text": "' + "The old miller walks to the square and looks at the moon. " * 40 + '"}\n'
    (folder / "log.jsonl").write_text(line * 1200)
    command = [sys.executable, str(script), "scan", "log.jsonl", "--lang", "en", "--workers", str(workers)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not (folder / "imported").exists()


@pytest.mark.slow
def test_the_simulator_is_no_file_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`demo` is a newcomer's first command, in whatever folder that is."""
    (tmp_path / "stresstest.py").write_text(_PAYLOAD)
    monkeypatch.chdir(tmp_path)
    with simulator("healthy") as url:
        assert url.startswith("http://")
    assert not (tmp_path / "imported").exists()


def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own programs import from their folder."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with safe_path():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert "PYTHONSAFEPATH" not in os.environ
    monkeypatch.setenv("PYTHONSAFEPATH", "x")
    with safe_path():
        pass
    assert os.environ["PYTHONSAFEPATH"] == "x"


def test_what_is_imported_reads_no_settings_of_the_folder(tmp_path: Path) -> None:
    """matplotlib reads `matplotlibrc` of the current folder before the user's own, and up to 3.10 ran code in
    it: a cloned folder could bring one, or a link to a file without an end."""
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 77\n", "utf-8")
    imported = (
        "import matplotlib as mpl",
        "from stresstest.features.cost.pictures import import_matplotlib\nmpl = import_matplotlib()",
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", f"{each}\nprint(mpl.rcParams['lines.linewidth'])"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for each in imported
    ]
    assert found[0] == "77.0", "or matplotlib has changed, and nothing is tested here"
    assert found[1] != "77.0"


def test_the_folder_is_the_same_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an error, and where the folder is gone."""
    monkeypatch.chdir(tmp_path)
    with suppress(KeyError), outside_folder():
        assert Path.cwd() == Path(tmp_path.anchor)
        raise KeyError
    assert Path.cwd() == tmp_path
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with outside_folder():
        pass


@pytest.mark.parametrize(("hard", "allowed"), [(300, 300), (900, 500)])
def test_as_many_files_as_are_needed_and_allowed(hard: int, allowed: int) -> None:
    """Beyond the usual soft limit of 1,024 a guard answered half of its clients with a 502."""
    code = (
        "import resource\nfrom stresstest.own_process import allow_open_files, claim_process\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (200, {hard}))\n"
        "print(allow_open_files(500))\nclaim_process()\n"
        "print(allow_open_files(500), resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["200", str(allowed), str(allowed)]
