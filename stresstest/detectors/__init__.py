"""Tokens and text to symptoms: online detectors, and the suite that settles them into one verdict."""
