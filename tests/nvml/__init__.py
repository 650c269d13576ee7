"""A stand-in for NVIDIA's library, compiled by the tests."""
