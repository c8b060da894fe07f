"""The loaders, one file for each data set; `earl.experiments.catalogue` lists them by name."""
