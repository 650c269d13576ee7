"""Scenarios: the simulated model, its engine, its hazards."""
