"""The page about runs: one HTML file that needs no network."""

from earl.report.page.page import make_page, write_page

__all__ = ["make_page", "write_page"]
