"""Measures the ingest protocols under load, and RAINBOW's storage too if its jar is given."""
