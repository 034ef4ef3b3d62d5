"""Expansion: replaces calls of FUNCTIONs and names of STREAMs by their definitions."""
