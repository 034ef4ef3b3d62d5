"""The quantities of a Fogify model as numbers: bytes, bits/s, milliseconds, fractions of 1."""

import ipaddress
import re

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z%]+)")

_MEMORY = {"K": 2**10, "M": 2**20, "G": 2**30}
_BANDWIDTH = {"bps": 1, "Kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9}
_DURATION = {"ms": 1, "s": 1000}
_SHARE = {"%": 0.01}


def memory_bytes(text: object) -> int:
    """Return a memory size in bytes.

    >>> memory_bytes("512M")
    536870912
    """
    return round(_quantity(text, _MEMORY, "512M or 2G"))


def bits_per_second(text: object) -> int:
    """Return a bandwidth in bits per second.

    >>> bits_per_second("100Mbps")
    100000000
    """
    return round(_quantity(text, _BANDWIDTH, "100Mbps"))


def milliseconds(text: object) -> float:
    """Return a duration in milliseconds.

    >>> milliseconds("50ms"), milliseconds("1.5s")
    (50.0, 1500.0)
    """
    return _quantity(text, _DURATION, "50ms")


def probability(text: object) -> float:
    """Return a probability between 0 and 1.

    >>> probability("0.1%")
    0.001
    """
    share = round(_quantity(text, _SHARE, "0.1%"), 12)
    if share > 1:
        raise ValueError(f"{text} is more than 100%: write at most 100%")
    return share


def ip_address(text: str) -> str:
    """Return an IP address unchanged; raises ``ValueError`` if it is not one.

    >>> ip_address("10.15.0.3")
    '10.15.0.3'
    """
    ipaddress.ip_address(text)
    return text


def percent_change(text: object) -> float:
    """Return the factor of a change in percent.

    >>> percent_change("+20"), percent_change("-50")
    (1.2, 0.5)
    """
    found = re.fullmatch(r"([+-]\d+(?:\.\d+)?)%?", str(text))
    if not found:
        raise ValueError(f"{text!r} is not a change in percent, such as +20 or -50")
    factor = 1 + float(found[1]) / 100
    if factor <= 0:
        raise ValueError(f"{text} would leave nothing: reduce by less than 100 percent")
    return factor


def _quantity(text: object, units: dict[str, int] | dict[str, float], example: str) -> float:
    found = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) else None
    if not found or found[2] not in units:
        raise ValueError(f"{text!r} is not a quantity such as {example}")
    return float(found[1]) * units[found[2]]
