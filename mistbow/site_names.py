"""The names that sites may have."""

import re

MAX_SITE_NAME = 40
"""The maximum length of the name of a site."""

RULE = (
    "A site's name consists of lower-case letters, digits, . and -, begins with a letter or digit, "
    f"and has at most {MAX_SITE_NAME} characters."
)

_SITE_NAME = re.compile(rf"[a-z0-9][a-z0-9.-]{{0,{MAX_SITE_NAME - 1}}}")


def is_site_name(text: str) -> bool:
    """Return whether a text is a valid name of a site.

    Names of sites are parts of names of streams, and must be valid there.

    >>> [is_site_name(text) for text in ("edge-1", "n.1", "Edge", "a/b", "a\\n", "")]
    [True, True, False, False, False, False]
    """
    return _SITE_NAME.fullmatch(text) is not None
