"""Signatures of insights, which are names that protect results.

Only a token with the signature of an insight may read the results of this insight.
"""

import re

SIGNATURE = "[a-z0-9][a-z0-9_-]{0,23}"
SIGNATURE_FORM = "a signature consists of at most 24 lower-case letters, digits, '-' and '_'"

_MARK = "signed-"
_MARKED = re.compile(rf"\.{_MARK}({SIGNATURE})(?=[./]|$)")


def is_signature(text: str) -> bool:
    """Return whether a text has the form of a signature."""
    return re.fullmatch(SIGNATURE, text) is not None


def signed_name(name: str, signature: str) -> str:
    """Return the name of a group, with a signature added.

    Streams whose names contain the returned name can be read only with this signature.

    >>> signed_name("all.fair", "board")
    'all.fair.signed-board'
    """
    return f"{name}.{_MARK}{signature}"


def signature_of(stream: str) -> str | None:
    """Return the signature that a token needs to read a stream; None: no signature is needed.

    The signature is a part of the stream's name, not an attribute of the stream. Therefore the
    signature applies before the first row exists, and also to panes and replicas.

    >>> signature_of("results/all.fair.signed-board"), signature_of("results/all.fair")
    ('board', None)
    >>> signature_of("replicas/edge/panes/all.fair.signed-board.12ab.edge")
    'board'
    """
    match = _MARKED.search(stream)
    return None if match is None else match[1]
