"""Histories for other programs: CSV, parquet and TensorBoard; and records to keep."""

from earl.report.export.records import export_records
from earl.report.export.tables import export_csv, export_parquet
from earl.report.export.tensorboard import export_tensorboard

__all__ = ["export_csv", "export_parquet", "export_records", "export_tensorboard"]
