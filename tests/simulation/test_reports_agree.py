"""No report of a run contradicts itself: every kind, on scenarios whose verdicts differ."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stresstest.campaign.progress import Progress
from stresstest.campaign.run import run_campaign
from stresstest.features.demo.command import simulator
from stresstest.features.diagnose.workflow import DiagnoseOptions, DiagnosisResult, diagnose
from stresstest.model import Plane, RunSettings, Subject
from stresstest.store import open_store
from tests.support.commands import command
from tests.support.report_agreement import contradictions, missing_remedy

pytestmark = pytest.mark.simulated


def _diagnosed(scenario: str, store_file: Path) -> DiagnosisResult:
    with simulator(scenario) as base_url, open_store(str(store_file)) as store:
        settings = RunSettings(
            Subject("sim", "narrative", "it"), base_url, "narrative", "quick", horizon=4_096, gpus="none"
        )

        async def play() -> DiagnosisResult:
            ending = await run_campaign(settings, store, Progress())
            options = DiagnoseOptions(why=False)
            return await diagnose(ending.result.run.id, store, Progress(), options=options)

        return asyncio.run(play())


def _reports(store_file: Path, run_id: str, folder: Path) -> dict[str, str]:
    """Every kind of report of a run, as its command writes it."""

    def said(*words: str) -> str:
        code, out, err = command("--store", str(store_file), "--display", "none", *words)
        assert code in (0, 4), err
        return out

    found = {"console": said("runs", "show", run_id), "diagnosis": said("diagnose", run_id, "--no-why")}
    for kind in ("json", "md", "html", "xml"):
        target = folder / f"report.{kind}"
        said("report", run_id, "-o", str(target))
        found[kind] = target.read_text(encoding="utf-8")
    return found


@pytest.mark.parametrize(
    ("scenario", "plane"),
    [
        ("loop-at-900", Plane.DECODING),
        pytest.param("masked-chain", Plane.DECODING, marks=pytest.mark.long),
        pytest.param("language-drift", Plane.CONTEXT, marks=pytest.mark.long),
        pytest.param("concurrency-only", Plane.SYSTEM, marks=pytest.mark.long),
        ("healthy", None),
    ],
)
def test_verdict_advice_diagnosis_and_table_agree_in_every_report(
    tmp_path: Path, scenario: str, plane: Plane | None
) -> None:
    """The demo once advised to try the penalties that its own table had failing, under a confirmed verdict,
    and left out what had healed."""
    store_file = tmp_path / "s.sqlite3"
    done = _diagnosed(scenario, store_file)
    assert done.result.verdict.plane == plane
    reports = _reports(store_file, done.result.run.id, tmp_path)
    wrong = {
        kind: [*contradictions(kind, text, done.result, done.diagnosis)] for kind, text in reports.items()
    }
    assert not {kind: lines for kind, lines in wrong.items() if lines}
    lacking = {
        kind: [*missing_remedy(text, done.diagnosis)] for kind, text in reports.items() if kind != "xml"
    }
    assert not {kind: lines for kind, lines in lacking.items() if lines}
