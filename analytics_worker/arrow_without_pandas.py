"""Keeps pandas out of a process that uses Arrow but not pandas.

PyArrow imports pandas, which takes 22 MB in each process, only to ask whether a value is one of
its series. PyArrow asks once: if it finds no pandas then, it does not import it later. Whatever
needs pandas can still import it, and convert from and to Arrow.
"""

import sys

import pyarrow as pa


class _PandasRefusal:
    """Finds no pandas, as if it were not installed."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ``ModuleNotFoundError`` for pandas, and leave other modules to other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def leave_pandas_out() -> None:
    """Make PyArrow do without pandas from now on; no effect if PyArrow has already asked for it."""
    refusal = _PandasRefusal()
    sys.meta_path.insert(0, refusal)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(refusal)
