"""A real instruct model: fetched, served, recorded, and what was recorded kept as data."""
