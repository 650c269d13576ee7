"""Measuring one subject: set up, run, resume, conclude."""
