"""`stresstest run`."""
