"""Texts in the style of the published model, by an author who had not seen the implementation.

The author read only the specification, the issue and ``docs/language.md``, and wrote for each text
the sentence of the reference that decides its values, and a computation of these values in plain
Python. Nothing in this package imports the suite.
"""
