"""Run directories: a run as files that can be stopped, continued, checked and read."""
