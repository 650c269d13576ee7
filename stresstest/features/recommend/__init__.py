"""`stresstest recommend`."""
