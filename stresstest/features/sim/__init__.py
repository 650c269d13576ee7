"""`stresstest sim`."""
