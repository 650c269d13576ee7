"""`stresstest report`."""
