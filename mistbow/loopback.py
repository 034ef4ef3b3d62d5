"""Hosts and addresses on the loopback interface, which only this machine reaches."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return whether a host is ``localhost`` or an IP address of loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_loopback_url(text: str) -> bool:
    """Return whether the host of a URL is on loopback.

    >>> is_loopback_url("http://127.0.0.1:8100"), is_loopback_url("http://worker:8100")
    (True, False)
    """
    try:
        return is_loopback(urlsplit(text).hostname or "")
    except ValueError:
        return False
