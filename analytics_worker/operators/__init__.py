"""The operators of the language of insights that need moments, points or the order of points.

Each operator is a pure function of numpy arrays: streaming queries and batch queries of all engines
call the same function. A missing value is None, or NaN in an array. Values of points are finite.
The module ``caller`` calls operators of other packages in a sandbox.
"""
