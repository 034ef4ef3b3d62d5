"""The maximum size of a fact, which bounds what a service may announce."""

import msgspec

MAX_FACT_BYTES = 64 * 2**10
"""The maximum size of a fact with its key; facts about series and lists may be larger."""

_MAX_KEY_BYTES = 2**10
"""The part of a fact's size that its key, and the fields that the agent sets, may take."""


def fits(announced: msgspec.Struct) -> bool:
    """Return whether the announcement of a service is small enough for a fact."""
    try:
        return len(msgspec.json.encode(announced)) + _MAX_KEY_BYTES <= MAX_FACT_BYTES
    except UnicodeEncodeError:
        return False
