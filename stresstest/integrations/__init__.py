"""What other programs load of stresstest. None of them is imported here."""
