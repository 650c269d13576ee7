"""The two sides of a check: what the user named, what is measured for it, and one footing for both."""
