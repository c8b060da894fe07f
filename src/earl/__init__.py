"""Online continual learning: learn from labelled images that arrive once, be asked at any moment."""

__version__ = "0.1.0.dev0"
