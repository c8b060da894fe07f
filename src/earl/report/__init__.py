"""Reports: tables and figures, computed from histories alone."""
