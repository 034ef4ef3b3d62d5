"""The language's operators that need moments, points or their order: numpy in, numpy out.

Each is a function of the arrays it is given, the same in a stream and in a batch, in any engine.
What has no value is None, or NaN in an array. Values of points are finite. Those of other packages
(``interface``) are found (``installed``) and called (``calling``) in a process of their own.
"""
