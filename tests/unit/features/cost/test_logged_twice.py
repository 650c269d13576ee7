"""One request that two loggers wrote is one request; equal answers to several requests are several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stresstest.features.cost import logged_twice
from stresstest.features.cost.log_files import LogCostSettings, cost_from_files
from stresstest.features.cost.logged_twice import LoggedSpan, without_second_logs
from stresstest.model.cost import RequestSpan
from stresstest.render.scan_progress import SilentScanProgress
from tests.support.cost_logs import rows


def logged(
    id: str,
    start: float,
    end: float,
    *,
    text: int = 7,
    source: str = "app",
    trace: str | None = "t",
    writer: str = "app sdk chat",
) -> LoggedSpan:
    return LoggedSpan(RequestSpan(id, start, end, 100), text, source, trace, writer)


@pytest.mark.parametrize(
    ("other", "left_out"),
    [
        pytest.param(logged("b", 0.2, 9.9, source="gateway"), 1, id="the gateway's log"),
        pytest.param(logged("b", -1.0, 8.0, source="gateway"), 1, id="on a clock that is a second off"),
        pytest.param(logged("a", 0.1, 9.8), 1, id="a span within another"),
        pytest.param(
            logged("b", 0.1, 9.8, writer="gateway litellm chat"),
            1,
            id="spans of client and gateway in one file",
        ),
        pytest.param(logged("b", 0.1, 9.8), 0, id="an application that asks the same five times in a trace"),
        pytest.param(
            logged("b", 0.1, 9.8, trace=None, writer="x"), 0, id="a canary that was asked twice at once"
        ),
        pytest.param(logged("b", 0.1, 9.8, trace="u", writer="x"), 0, id="in two traces"),
        pytest.param(logged("b", 20.0, 30.0, source="gateway"), 0, id="asked again later"),
        pytest.param(logged("a", 20.0, 30.0), 0, id="an id of a server that names all alike"),
        pytest.param(logged("b", 0.2, 9.9, text=0, source="gateway"), 0, id="short answers, alike by chance"),
        pytest.param(logged("b", 0.2, 9.9, text=8, source="gateway"), 0, id="another answer"),
    ],
)
def test_a_request_counts_once(other: LoggedSpan, left_out: int) -> None:
    """Each price per thousand requests was halved, and the load was twice the real one."""
    one = logged("a", 0.0, 10.0, text=7)
    found, count = without_second_logs([other, one])
    assert count == left_out
    assert found == ((one.span,) if left_out else (other.span, one.span))


def test_a_canary_that_was_asked_all_day_is_compared_with_what_ran_beside_it() -> None:
    """Each with all others would be ten thousand million comparisons."""
    asked = [logged(f"{n}", n * 2.0, n * 2.0 + 5.0, trace=None) for n in range(100_000)]
    found, count = without_second_logs(asked)
    assert (len(found), count) == (100_000, 0)


@pytest.mark.slow
def test_the_logs_of_application_and_gateway_cost_what_one_of_them_costs(tmp_path: Path) -> None:
    """Ids, prompts and times differ."""
    log = rows()
    shifted: list[dict[str, Any]] = [
        {**row, "id": f"gw-{n}", "start": row["start"] + 0.003, "end": row["end"] - 0.002}
        for n, row in enumerate(log)
    ]
    files = []
    for name, lines in (("app", log), ("gateway", shifted)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines))
        files.append(str(path))
    alone = cost_from_files(LogCostSettings((files[0],)), SilentScanProgress())
    both = cost_from_files(LogCostSettings(tuple(files)), SilentScanProgress())
    assert (both.requests, both.degenerate) == (alone.requests, alone.degenerate)
    assert any(note.startswith(f"{len(log)} requests were logged twice") for note in both.notes)


@pytest.mark.parametrize("trace", [None, "t"])
def test_thousands_of_equal_answers_at_once_are_not_compared_with_each_other(
    monkeypatch: pytest.MonkeyPatch, trace: str | None
) -> None:
    """A batch of 20,000 requests that got one refusal took minutes, as each was compared with all others."""
    compared = []
    monkeypatch.setattr(logged_twice, "_are_one", lambda *pair: compared.append(pair))
    spans = [logged(f"r{n}", n / 1000, 60.0 + n / 1000, trace=trace) for n in range(2_000)]
    assert len(without_second_logs(spans)[0]) == 2_000
    assert len(compared) <= 2_000
