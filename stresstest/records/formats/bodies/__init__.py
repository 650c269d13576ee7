"""The bodies of responses, in every API that vLLM serves or a proxy translates, and what is in them."""
