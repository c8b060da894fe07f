"""Histories for other programs: CSV, parquet and TensorBoard."""

from earl.report.export.tables import export_csv, export_parquet
from earl.report.export.tensorboard import export_tensorboard

__all__ = ["export_csv", "export_parquet", "export_tensorboard"]
