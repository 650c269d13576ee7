"""Outputs that already exist: foreign log and result formats, read as records."""
