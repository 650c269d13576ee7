"""`stresstest sweep`."""
