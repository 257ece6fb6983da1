"""The report: one HTML page, tables and sentences."""
