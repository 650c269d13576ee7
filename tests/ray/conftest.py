"""These tests run where Ray is installed: `make ray`."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("ray") else ["test_cluster.py"]
