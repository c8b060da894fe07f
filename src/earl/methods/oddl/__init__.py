"""ODDL: a mixture of experts with generative models."""

from earl.methods.oddl.oddl import ODDL

__all__ = ["ODDL"]
