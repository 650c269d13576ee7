"""A vLLM-shaped server with a known truth, for machines without a GPU and for tests."""
