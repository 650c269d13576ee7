"""Computes what failures cost, from the spans of requests. Pure."""
