"""Measures the ways in of points under load, beside the storage of RAINBOW if its jar is given."""
