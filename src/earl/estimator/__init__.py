"""The estimator: any label at any time, saved anywhere, continued exactly."""

from earl.estimator.classifier import EARLClassifier

__all__ = ["EARLClassifier"]
