"""Backbones by name: networks that were trained before, each with its own view of images."""

from earl.nn.backbones.catalogue import BACKBONES, Backbone, open_backbone

__all__ = ["BACKBONES", "Backbone", "open_backbone"]
