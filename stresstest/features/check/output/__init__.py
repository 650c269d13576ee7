"""A comparison as the terminal, documents and other tools show it."""
