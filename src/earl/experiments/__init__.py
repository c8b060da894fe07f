"""Experiments: from names and numbers to runs on disk, and many of them."""
