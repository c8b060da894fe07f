"""The benchmark: what learning and asking cost beside the bare network, measured by turns."""
