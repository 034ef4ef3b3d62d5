"""The size of the heap of Spark's JVM."""

import re

MIN_HEAP_MB = 480
"""The least heap (MB): Spark refuses to start with less than 450 MB, without a survivor space.

The size is a limit: with four fragments, the JVM uses about 150 MB.
"""

_DEFAULT_MB = (512, 768)
_SHARE = 0.5
_KILOBYTES = {"k": 1, "m": 2**10, "g": 2**20, "t": 2**30}
_SIZE = re.compile(r"([0-9]+)([kmgt])", re.IGNORECASE)


def heap_mb(size: str) -> float:
    """Return a size in the notation of Java, in MB; raises ``ValueError`` for other texts.

    >>> heap_mb("768m"), heap_mb("2G")
    (768.0, 2048.0)
    """
    found = _SIZE.fullmatch(size)
    if found is None:
        raise ValueError(f"{size!r} is not a size such as 768m or 2g")
    return int(found[1]) * _KILOBYTES[found[2].lower()] / 1024


def default_heap(memory_mb: float) -> str:
    """Return the heap for a node with ``memory_mb``: half of its memory, within bounds.

    >>> default_heap(1024), default_heap(1300), default_heap(8000)
    ('512m', '650m', '768m')
    """
    least, most = _DEFAULT_MB
    return f"{min(max(int(_SHARE * memory_mb), least), most)}m"
