"""Pictures of what loops cost: they are drawn, say what they show, and believe nothing that names say."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from stresstest.economics.account import measured_cost
from stresstest.economics.logged import logged_cost
from stresstest.errors import UsageError
from stresstest.features.cost.pictures import (
    LOOPING,
    box_groups,
    first_batch,
    require_picture_support,
    write_picture,
)
from stresstest.model import Subject
from stresstest.model.cost import Cost, CostArm, RequestSpan
from stresstest.store import open_store


def batch(arm: CostArm, pair: int, slower: float) -> list[RequestSpan]:
    found = []
    for n in range(12):
        loops = arm == CostArm.LOOPS and n == 3
        seconds = 9.0 if loops else (1.0 + 0.1 * n) * slower
        span = RequestSpan(
            id=str(n), submitted=0.2 * n, end=0.2 * n + seconds, output_tokens=100, prompt_tokens=9,
            degenerate=loops, loops=loops, capped=loops, onset=20 if loops else None,
            onset_at=0.2 * n + 1.0 if loops else None, batch=f"{pair}-{arm}", arm=arm, pair=pair,
        )  # fmt: skip
        found.append(span)
    return found


def account(pairs: int = 3) -> Cost:
    spans = [
        span
        for pair in range(pairs)
        for arm, slower in ((CostArm.LOOPS, 1.5 + 0.1 * pair), (CostArm.CAPPED, 1.0))
        for span in batch(arm, pair, slower)
    ]
    return measured_cost(spans)


def texts(path: Path) -> str:
    return " ".join(ET.parse(path).getroot().itertext())


@pytest.mark.slow
def test_a_png_is_drawn(tmp_path: Path) -> None:
    """The file is a PNG of a size that fits a page, and not empty paper."""
    path = tmp_path / "cost.png"
    write_picture(account(), path)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert 1_000 < width < 2_000
    assert 500 < height < 2_500
    assert len(data) > 15_000


def test_the_svg_says_what_it_shows(tmp_path: Path) -> None:
    """Title, axes, n, the measured ratio with its interval; and the loops are in their colour."""
    path = tmp_path / "cost.svg"
    cost = replace(account(), subject=Subject("my-model", "narrative", "it"), simulated=True)
    write_picture(cost, path)
    said = texts(path)
    assert "my-model · narrative · Italian" in said
    assert "simulated" in said
    assert "12 requests" in said
    assert "1 degenerate" in said
    assert "seconds since the batch began" in said
    assert "n = 33" in said
    assert cost.healthy_slowdown is not None
    assert f"{cost.healthy_slowdown.value:.2f} times as long (95 %" in said
    assert LOOPING.lower() in path.read_text().lower()


@pytest.mark.slow
def test_the_same_account_gives_the_same_file(tmp_path: Path) -> None:
    """No hour and no random name in the picture: it can be compared and kept under version control."""
    for name in ("a.svg", "b.svg"):
        write_picture(account(), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [r"$\frac{1}{0}$.jsonl", "$unclosed", "<script>alert(1)</script>", "\x1b[31mred\x07", "模型 نموذج"],
)
def test_names_are_only_text(tmp_path: Path, name: str) -> None:
    """Dollar signs, markup, control characters and scripts without glyphs: drawn as text, nothing breaks."""
    path = tmp_path / "cost.svg"
    write_picture(replace(account(), source=name), path)
    assert "<script" not in path.read_text()
    shown = "".join(c for c in name if c.isprintable()).removeprefix("[31m")
    assert shown in texts(path)


def test_one_batch_compares_without_claiming_a_cause(tmp_path: Path) -> None:
    """A log has no pairs: boxes of requests that met a loop and that met none, with the bias named."""
    log = [replace(s, arm="", pair=None, batch="") for s in batch(CostArm.LOOPS, 0, 1.0)]
    log.append(RequestSpan("late", 40.0, 41.0, 50, prompt_tokens=9, degenerate=False))
    path = tmp_path / "cost.svg"
    write_picture(logged_cost(log, None), path)
    assert "no cause is shown" in texts(path)
    assert [(name, len(seconds)) for name, seconds, _ in box_groups(log)] == [
        ("met a live loop", 8),
        ("met none", 4),
    ]


def test_boxes_pair_the_very_same_requests() -> None:
    """Both arms hold the same requests, the looping one in neither: ids and pairs must match."""
    with_loops, without = box_groups(account().spans)
    assert len(with_loops[1]) == len(without[1]) == 33
    assert min(a / b for a, b in zip(with_loops[1], without[1], strict=True)) >= 1.5 - 1e-9


def test_the_first_batch_with_loops_is_shown() -> None:
    """The capped arm is never the timeline, whichever came first."""
    spans = [*batch(CostArm.CAPPED, 0, 1.0), *batch(CostArm.LOOPS, 0, 1.5)]
    assert {span.arm for span in first_batch(spans)} == {CostArm.LOOPS}


def test_where_no_picture_can_be_written(tmp_path: Path) -> None:
    """Another kind of file, a missing folder, or nothing to draw: a sentence each."""
    with pytest.raises(UsageError, match=r"\.png or \.svg"):
        require_picture_support("cost.gif")
    with pytest.raises(UsageError, match="does not exist"):
        require_picture_support(str(tmp_path / "no" / "cost.png"))
    with pytest.raises(UsageError, match="No request to draw"):
        write_picture(Cost(requests=0), tmp_path / "cost.png")


def test_without_matplotlib_there_is_a_clear_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The library is an extra: its absence is told with the command that installs it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="matplotlib") as caught:
        require_picture_support(str(tmp_path / "cost.png"))
    assert "pip install" in str(caught.value.hint)


@pytest.mark.parametrize("backend", ["module://matplotlib_inline.backend_inline", "Qt4Agg"])
def test_a_backend_that_is_not_there_is_not_asked_for(backend: str) -> None:
    """Jupyter names its own to whatever it starts: a picture for a file was an internal error."""
    code = "import os; from stresstest.features.cost.pictures import import_matplotlib as load; load()"
    subprocess.run(
        [sys.executable, "-c", f"{code}; assert os.environ['MPLBACKEND'] == {backend!r}"],
        check=True,
        env={**os.environ, "MPLBACKEND": backend},
    )


@pytest.mark.parametrize("setting", ["text.usetex: True", "path.effects: [x]", "font.size: \udcff"])
def test_the_users_own_settings_of_the_library_are_not_read(tmp_path: Path, setting: str) -> None:
    """LaTeX that is not installed was an internal error, and the account of a measurement was not written."""
    (tmp_path / "matplotlibrc").write_text(setting, errors="surrogateescape")
    code = (
        "import sys; from pathlib import Path; from tests.unit.features.cost.test_pictures import account; "
        "from stresstest.features.cost.pictures import write_picture; "
        "write_picture(account(), Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "cost.svg")],
        env={**os.environ, "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")},
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    assert (tmp_path / "cost.svg").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["store.png", "store.svg"])
def test_a_store_is_no_picture(tmp_path: Path, name: str) -> None:
    """Its runs were gone: the picture had taken its place."""
    with open_store(str(tmp_path / name)):
        pass
    with pytest.raises(UsageError, match="is a database"):
        require_picture_support(str(tmp_path / name))
