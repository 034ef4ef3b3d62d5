"""Operators over all points since a start: their states, where they are kept, and their mending."""
