"""Replays stored outputs through vLLM's `repetition_detection`."""
