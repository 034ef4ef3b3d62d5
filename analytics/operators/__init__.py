"""Operators of other packages.

The module ``interface`` defines the interface of an operator, ``registry`` finds the installed
operators, and ``child`` is the program of the sandbox that describes and calls operators.
"""
