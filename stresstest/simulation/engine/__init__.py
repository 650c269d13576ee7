"""The simulated engine: hazards, text, and a scheduler in virtual time."""
