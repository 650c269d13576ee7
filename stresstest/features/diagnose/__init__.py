"""`stresstest diagnose`."""
