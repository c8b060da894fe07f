"""Data sets and streams: raw images with class ids, and the order in which they arrive."""
