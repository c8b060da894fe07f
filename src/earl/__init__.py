"""Online continual learning: images arrive once with labels, questions come at any moment."""

__version__ = "0.1.0.dev0"
