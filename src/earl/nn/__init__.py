"""Networks and what is calculated with tensors alone: frame, losses, augmentation, ranks."""
