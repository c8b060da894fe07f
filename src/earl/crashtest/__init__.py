"""Harnesses that break things on purpose: `python -m earl.crashtest` lists them."""
