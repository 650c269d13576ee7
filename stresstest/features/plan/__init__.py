"""`stresstest plan`."""
