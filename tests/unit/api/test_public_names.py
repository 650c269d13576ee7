"""What `import stresstest` offers: lazy, complete, typed."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING, assert_type

import stresstest
from tests.support.paths import ROOT

if TYPE_CHECKING:
    import pandas


def modules_after(program: str) -> set[str]:
    """What a new process prints."""
    code = f"import sys; {program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(ast.literal_eval(done.stdout))


def test_importing_the_package_loads_nothing() -> None:
    """`stresstest --help` and programs that use one function pay for no more than that."""
    loaded = modules_after(
        "before = set(sys.modules); import stresstest; print(sorted({*sys.modules} - before))"
    )
    assert loaded - {"__future__"} == {"stresstest"}


def test_detecting_loads_no_client_and_no_database() -> None:
    """What judges a text needs no endpoint and no store."""
    loaded = modules_after("import stresstest; stresstest.detect('A text.'); print(sorted(sys.modules))")
    assert not loaded & {"openai", "sqlalchemy", "aiohttp", "typer", "rich", "pandas", "polars", "pyarrow"}


def test_every_public_name_is_loaded_and_known_to_type_checkers() -> None:
    """The list, the stub and the API name the same things."""
    stub = ast.parse((ROOT / "stresstest" / "__init__.pyi").read_text("utf-8"))
    named = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named | {"__version__"} == set(stresstest.__all__) <= set(dir(stresstest))
    assert all(getattr(stresstest, name) is not None for name in stresstest.__all__)
    assert not hasattr(stresstest, "no_such_name")


def a_users_program() -> None:
    """Never run: mypy checks in `make check` that a user's program is typed."""
    verdict = stresstest.detect("text", language="en", prompt=[{"role": "user", "content": "Hi"}])
    assert_type(verdict.onset_char, int | None)
    assert_type(stresstest.detect_many(["a", "b"]), list[stresstest.Verdict])
    assert_type(stresstest.scan("log.jsonl").groups[0].rate, float)
    run = stresstest.measure("m", language="it", rigor="quick", temperature=0.7)
    assert_type(run, stresstest.RunResult)
    assert_type(run.safe_max_tokens, int | None)
    frame: pandas.DataFrame = stresstest.to_pandas(stresstest.load_run())
    stresstest.detect(7)  # type: ignore[arg-type]
    stresstest.measure(temperatur=1.0)  # type: ignore[call-arg]
    del frame
