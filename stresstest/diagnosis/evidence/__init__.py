"""Observed evidence for or against each plane."""
