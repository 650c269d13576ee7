"""Credentials in what a user brings: known by a field's name or by a text's shape."""
