"""`stresstest scan`."""
