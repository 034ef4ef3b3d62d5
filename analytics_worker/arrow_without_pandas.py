"""Keeps pandas out of a process that uses Arrow but not pandas.

PyArrow imports pandas, which takes 22 MB in each process, only to test whether a value is a series
of pandas. PyArrow tries the import only once: after a failure, it does not import pandas later.
Other code can still import pandas, and convert from and to Arrow.
"""

import sys

import pyarrow as pa


class _PandasRefusal:
    """A module finder that refuses pandas, as if pandas were not installed."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ``ModuleNotFoundError`` for pandas; other finders find other modules."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def leave_pandas_out() -> None:
    """Prevent PyArrow's import of pandas; no effect if PyArrow has tried the import already."""
    refusal = _PandasRefusal()
    sys.meta_path.insert(0, refusal)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(refusal)
