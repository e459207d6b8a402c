"""Logs of gateways and of requests (LiteLLM, OpenAI-style answers, public traces) → one row per request."""
