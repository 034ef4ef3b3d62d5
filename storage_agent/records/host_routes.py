"""The routing tables of this host, read from /proc (Linux)."""

import ipaddress
from pathlib import Path

from mistbow.client.record_model import Route

IPV4 = Path("/proc/net/route")
IPV6 = Path("/proc/net/ipv6_route")

_UP = 0x1
_REJECT = 0x200
_LOOPBACK = "lo"


def host_routes(ipv4: Path = IPV4, ipv6: Path = IPV6) -> list[Route] | None:
    """Return the routes of this host; None: /proc does not contain a routing table."""
    if not ipv4.exists():
        return None
    routes = ipv4_routes(ipv4.read_text())
    return routes + ipv6_routes(ipv6.read_text()) if ipv6.exists() else routes


def ipv4_routes(text: str) -> list[Route]:
    """Return the active routes in the text of /proc/net/route.

    >>> ipv4_routes("Iface Destination Gateway Flags RefCnt Use Metric Mask\\n"
    ...     "eth0 00000000 010011AC 0003 0 0 100 00000000")
    [Route(destination='0.0.0.0/0', gateway='172.17.0.1', interface='eth0', metric=100)]
    """
    routes = []
    for line in text.splitlines()[1:]:
        name, destination, gateway, flags, _, _, metric, mask, *_ = line.split()
        if int(flags, 16) & _UP and not int(flags, 16) & _REJECT:
            network = f"{_ipv4(destination)}/{int(_ipv4(mask)).bit_count()}"
            via = _ipv4(gateway)
            routes.append(Route(network, str(via) if int(via) else None, name, int(metric)))
    return routes


def ipv6_routes(text: str) -> list[Route]:
    """Return the active routes in the text of /proc/net/ipv6_route, except loopback routes.

    >>> none = 32 * "0"
    >>> ipv6_routes(f"fd00{28 * '0'} 08 {none} 00 {none} 00000400 1 0 00000001 eth0")
    [Route(destination='fd00::/8', gateway=None, interface='eth0', metric=1024)]
    """
    routes = []
    for line in text.splitlines():
        destination, prefix, _, _, gateway, metric, _, _, flags, name = line.split()
        if int(flags, 16) & _UP and not int(flags, 16) & _REJECT and name != _LOOPBACK:
            network = f"{ipaddress.IPv6Address(int(destination, 16))}/{int(prefix, 16)}"
            via = ipaddress.IPv6Address(int(gateway, 16))
            routes.append(Route(network, str(via) if int(via) else None, name, int(metric, 16)))
    return routes


def _ipv4(text: str) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(text), "little"))
