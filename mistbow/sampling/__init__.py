"""Answers from a part of the points: which points are kept, and how far off the answer may be."""
