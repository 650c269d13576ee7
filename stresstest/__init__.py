"""Find where a model served by vLLM stops making sense, and certify a safe max_tokens."""

from __future__ import annotations

__version__ = "0.1.0"
