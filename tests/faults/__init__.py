"""What a server, a proxy or a network can do wrong, and what `stresstest run` makes of each."""
