"""The service: it learns from posted images and answers at any moment, also while it learns."""
