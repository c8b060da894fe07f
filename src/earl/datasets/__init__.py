"""Data sets: raw images with class ids; `earl.catalogue` lists them by name."""
