"""`stresstest check`."""
