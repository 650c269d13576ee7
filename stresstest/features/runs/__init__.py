"""`stresstest runs`."""
