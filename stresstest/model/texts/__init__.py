"""Rules on plain text that several rooms share: copies at its end, times and ids in it, lax JSON."""
