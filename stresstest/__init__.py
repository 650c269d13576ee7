"""Find where a model served by vLLM stops making sense, and certify a safe max_tokens.

The Python API: `detect`, `detect_many`, `StreamDetector`, `scan`, `measure`, `load_run`, `to_rows`,
`to_pandas` and `to_polars`, and the types of what they return (docs/python-api.md). Importing the package
costs nothing: a name is loaded when it is first used. `__init__.pyi` tells type checkers what the names are.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = (
    "EndpointError",
    "GroupResult",
    "RunResult",
    "ScanResult",
    "StoreError",
    "StreamDetector",
    "StresstestError",
    "Threshold",
    "UsageError",
    "Verdict",
    "__version__",
    "detect",
    "detect_many",
    "load_run",
    "measure",
    "scan",
    "to_pandas",
    "to_polars",
    "to_rows",
)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'stresstest' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module("stresstest.api"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
