"""`stresstest guard`: a reverse proxy that watches the answers passing through it."""
