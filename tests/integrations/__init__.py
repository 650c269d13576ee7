"""Integrations with the real packages, each in an environment of its own: `make integrations` runs them.

The files are named check_*.py, so that `make test`, whose environment has none of these packages, leaves
them out.
"""
