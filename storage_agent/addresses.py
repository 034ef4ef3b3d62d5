"""Addresses of services, as settings and other agents give them."""

from urllib.parse import urlsplit

from mistbow.setting_values import is_host


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
