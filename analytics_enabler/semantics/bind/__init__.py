"""Binding: syntax tree → bound tree, in which every name has a symbol and every value a type."""
