"""Histories for other programs."""
