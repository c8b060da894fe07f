"""Storage: files that are whole or not there, and the state of a learner in them."""
