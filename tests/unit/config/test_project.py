"""The [check] table: what it means, what it refuses, and the schema that editors read."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from docs.generate_schema import TARGET, text
from stresstest.cli.app import app
from stresstest.config import settings as config
from stresstest.config.project import project
from stresstest.errors import UsageError
from stresstest.model import Decoding, Severity
from stresstest.model.comparison import BudgetName, CellPlan, Project
from tests.support.paths import ROOT

DOC = ROOT / "docs" / "ci.md"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in config.option_names():
        monkeypatch.delenv(config.ENV_PREFIX + name.upper(), raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def read(toml: str, **options: Any) -> Project:
    """The project of a file with this text, as the command reads it."""
    file = Path("stresstest.toml")
    file.write_text(toml)
    found = config.section("check", file)
    assert found is not None
    return project(found[1], config.resolve(options, config_file=file), "stresstest.toml")


def budgets(cell: CellPlan) -> dict[str, tuple[float, Severity]]:
    return {str(budget.name): (budget.limit, budget.level) for budget in cell.budgets}


def test_cells_are_the_product_and_overrides_win_in_order() -> None:
    """Models × tasks × languages × decodings; the last override that names a cell decides its budget."""
    found = read(
        """
        temperature = 0.5
        [check]
        models = ["a", { name = "b", base_url = "http://b/v1" }]
        tasks = ["narrative", "qa"]
        languages = ["it", "en"]
        [check.decodings.plain]
        [check.decodings.penalty]
        repetition_penalty = 1.2
        temperature = 1.0
        [check.budgets]
        min_safe_tokens = 2000
        max_drop = { value = "10%", level = "warn" }
        [[check.override]]
        tasks = ["qa"]
        budgets = { min_safe_tokens = { value = 500, level = "warn" } }
        [[check.override]]
        models = ["b"]
        languages = ["en"]
        budgets = { min_safe_tokens = 100 }
        """
    )
    cells = {cell.name: cell for cell in found.cells}
    assert len(cells) == 16
    assert {cell.base_url for cell in found.cells if cell.model == "b"} == {"http://b/v1"}
    plain, penalty = (cells[f"a · qa · it · {name}"] for name in ("plain", "penalty"))
    assert plain.decoding == Decoding(temperature=0.5)
    assert penalty.decoding == Decoding(temperature=1.0, repetition_penalty=1.2)
    assert budgets(plain)["min_safe_tokens"] == (500, Severity.WARN)
    assert budgets(cells["a · narrative · en · plain"])["min_safe_tokens"] == (2000, Severity.ERROR)
    assert budgets(cells["b · qa · en · plain"])["min_safe_tokens"] == (100, Severity.ERROR)
    assert budgets(plain)["max_drop"] == (0.10, Severity.WARN)


def test_what_the_table_leaves_out_is_the_run_options() -> None:
    """An empty [check] with a language checks one cell; max_degeneration counts by min_safe_tokens."""
    found = read(
        'lang = "it"\nmodel = "m"\ntask = "qa"\n'
        "[check.budgets]\nmin_safe_tokens = 900\nmax_degeneration = 0.05\n"
    )
    (cell,) = found.cells
    assert (cell.model, cell.task, cell.language, cell.decoding) == ("m", "qa", "it", Decoding())
    by_name = {budget.name: budget for budget in cell.budgets}
    assert by_name[BudgetName.MAX_DEGENERATION].at_tokens == 900
    assert (found.baseline, found.reuse) == ("previous", 0.0)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("budgts = {}", "'check.budgts'. Did you mean 'budgets'?"),
        ("budgets = { min_safe_token = 3 }", "Did you mean 'min_safe_tokens'?"),
        ("budgets = { max_drop = { value = 0.1, levl = 'warn' } }", "Did you mean 'level'?"),
        ("budgets = { max_drop = { value = 0.1, level = 'fatal' } }", "'warn' or 'error'"),
        ("budgets = { max_drop = '200%' }", "below 1"),
        ("budgets = { min_safe_tokens = 0 }", "greater than or equal to 1"),
        ("budgets = { min_safe_tokens = true }", "valid integer"),
        ("budgets = { min_safe_tokens = '1500' }", "valid integer"),
        ("budgets = { max_degeneration = { value = 0.05, at_tokens = true } }", "valid integer"),
        ("budgets = { max_degeneration = 0.05 }", "needs at_tokens"),
        ("models = [{ nme = 'a' }]", "Did you mean 'name'?"),
        ("decodings = { x = { repetion_penalty = 1.1 } }", "Did you mean 'repetition_penalty'?"),
        ("decodings = { x = { repetition_penalty = -1 } }", "greater than 0"),
        ("override = [{ tasks = ['narativ'], budgets = {} }]", "Did you mean 'narrative'?"),
        ("override = [{ task = ['narrative'], budgets = {} }]", "Did you mean 'tasks'?"),
        ("reuse = 'soon'", "90s, 30m"),
        (f"models = {[f'm{i}' for i in range(257)]}", "257 cells are more than 256"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(table: str, said: str) -> None:
    """A typo must not be a budget that nobody keeps: unknown keys and idle overrides are errors."""
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        read(f'lang = "it"\n[check]\n{table}\n')
    assert str(caught.value).startswith("stresstest.toml: ")


def test_a_project_file_is_still_a_settings_file() -> None:
    """Other commands read the same file and pass over [check]; a typo of it is an error everywhere."""
    Path("stresstest.toml").write_text('rigor = "quick"\n[check]\nlanguages = ["it"]\n')
    assert config.resolve({})["rigor"] == "quick"
    Path("stresstest.toml").write_text('[chek]\nlanguages = ["it"]\n')
    with pytest.raises(UsageError, match="Did you mean 'check'"):
        config.resolve({})


@pytest.mark.parametrize("after", [False, True])
def test_config_may_stand_on_either_side_of_the_command(after: bool) -> None:
    """`--config FILE` is the settings file of every command, wherever it stands."""
    Path("mine.toml").write_text('lang = "it"\nrigor = "quick"\n[check]\nlanguages = ["it"]\n')
    named = ["--config", "mine.toml"]
    done = CliRunner().invoke(app, ["plan", "--json", *named] if after else [*named, "plan", "--json"])
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["requests"] > 38


def test_the_published_schema_is_the_models_own() -> None:
    """docs/stresstest.schema.json is generated: python docs/generate_schema.py."""
    assert TARGET.read_text(encoding="utf-8") == text()
    Draft202012Validator.check_schema(json.loads(text()))


def test_schema_and_parser_agree_on_the_documented_files() -> None:
    """Every TOML example of docs/ci.md is valid for both; wrong keys are invalid for both."""
    validator = Draft202012Validator(json.loads(text()))
    examples = re.findall(r"```toml\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        assert [error.message for error in validator.iter_errors(tomllib.loads(example))] == []
        assert read(example).cells
    for wrong in (
        'rigor = "fast"',
        "check = { budgets = { max_drop = 2 } }",
        "check = { model = [] }",
        "x = 1",
    ):
        assert not validator.is_valid(tomllib.loads(wrong))
