"""Lowering: bound tree → expressions of the logical plan."""
