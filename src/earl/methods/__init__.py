"""The methods, one file each; `earl.experiments.catalogue` lists them by name."""
