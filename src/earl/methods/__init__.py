"""The methods, one file each; `earl.catalogue` lists them by name."""
