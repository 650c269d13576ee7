"""The fast path over recorded text."""
