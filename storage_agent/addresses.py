"""Names of sites and addresses of services, as settings and other agents give them."""

import re
from urllib.parse import urlsplit

from mistbow.setting_values import is_host

MAX_SITE_NAME = 40
_SITE_NAME = re.compile(rf"[a-z0-9][a-z0-9.-]{{0,{MAX_SITE_NAME - 1}}}")


def is_site_name(text: str) -> bool:
    """Return whether a text is a valid name of a site.

    Names of sites are parts of names of streams, and must be valid there.
    """
    return _SITE_NAME.fullmatch(text) is not None


def is_service_url(text: str) -> bool:
    """Return whether a text is the address of a service.

    The form is ``http://HOST:PORT`` or ``https://HOST:PORT``.
    """
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    alone = not (parts.query or parts.fragment or parts.username or parts.password)
    return (
        parts.scheme in ("http", "https") and is_host(parts.hostname or "") and has_port and alone
    )
