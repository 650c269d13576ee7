"""`stresstest demo`."""
