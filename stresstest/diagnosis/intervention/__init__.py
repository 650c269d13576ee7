"""Arms, forks and exact tests, by which a plane is confirmed."""
