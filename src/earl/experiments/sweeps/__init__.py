"""Sweeps: many runs from one file, in processes or on a cluster."""
