"""`stresstest doctor`."""
