"""The engine behind `scan`, `check` and `cost` on recorded outputs."""
