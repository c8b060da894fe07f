"""Backbones by name: networks that were trained before, each with its own view of images."""

from earl.nn.backbones.catalogue import BACKBONES, SCRATCH, Backbone, halves, open_backbone

__all__ = ["BACKBONES", "SCRATCH", "Backbone", "halves", "open_backbone"]
