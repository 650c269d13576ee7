"""Response bodies of model APIs, alone, in batch files and in pages of a list."""
