"""Figures: one function each, from runs to a picture."""

from earl.report.figures.colours import COLOURS

__all__ = ["COLOURS"]
