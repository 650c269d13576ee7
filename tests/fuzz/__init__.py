"""Mutated byte streams against the stream parser: no crash, no hang, no lost accounting."""
