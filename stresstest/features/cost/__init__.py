"""`stresstest cost`."""
