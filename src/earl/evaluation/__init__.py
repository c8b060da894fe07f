"""Evaluation: the loop that asks and teaches, and what is computed from its record."""
