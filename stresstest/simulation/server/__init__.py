"""The simulator over HTTP, as vLLM answers."""
