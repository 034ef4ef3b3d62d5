"""Signatures: names that a token has to carry to read what is signed with them."""

import re

SIGNATURE = "[a-z0-9][a-z0-9-]{0,23}"
SIGNATURE_FORM = "a signature has lower-case letters, digits and '-', 24 at most"

_MARK = "signed-"
_MARKED = re.compile(rf"\.{_MARK}({SIGNATURE})(?=[./]|$)")


def is_signature(text: str) -> bool:
    """Tell whether a text may be a signature."""
    return re.fullmatch(SIGNATURE, text) is not None


def signed(name: str, signature: str) -> str:
    """Return the name of what is signed; names of streams that are made of it are signed too.

    >>> signed("all.fair", "board")
    'all.fair.signed-board'
    """
    return f"{name}.{_MARK}{signature}"


def signature_of(stream: str) -> str | None:
    """Return the signature that a stream takes to be read, if any.

    It is part of the name, not an attribute of the stream: so it holds from before the first row,
    for copies at other sites, and for panes too.

    >>> signature_of("results/all.fair.signed-board"), signature_of("results/all.fair")
    ('board', None)
    >>> signature_of("replicas/edge/panes/all.fair.signed-board.12ab.edge")
    'board'
    """
    found = _MARKED.search(stream)
    return None if found is None else found[1]
