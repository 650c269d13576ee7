"""Which language a passage, an answer or a group of answers is in."""
