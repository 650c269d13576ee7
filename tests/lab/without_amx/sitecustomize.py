"""On the path of every process of vLLM: hides the AMX unit of the CPU from it.

The attention kernel for AMX of vLLM 0.32 is wrong on some virtual machines: a worker dies of an illegal
instruction with one model, and with another greedy answers are not those of `top_k=1`. Other machines of the
same kind have no AMX; the kernel that is left is the same everywhere.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _HideAmx(importlib.abc.MetaPathFinder):
    """Changes `torch.cpu` once it was executed, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch.cpu":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                module._is_amx_tile_supported = lambda: False  # type: ignore[attr-defined]

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _HideAmx())
