"""`stresstest export`."""
