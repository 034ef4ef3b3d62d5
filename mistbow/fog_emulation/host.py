"""This machine: running its commands, being in its network namespaces, asking what it can do."""

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mistbow.errors import UnavailableError
from mistbow.fog_emulation import shaping
from mistbow.fog_emulation.parts import Shape

_CLONE_NEWNET = 0x40000000
_TIMEOUT_S = 60


def command(argv: Sequence[str], text: str | None = None) -> str:
    """Return a command's output; raises ``UnavailableError`` with what it says if it fails."""
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{argv[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise UnavailableError(f"{' '.join(argv)}: {said or f'ended with {done.returncode}'}")
    return done.stdout


def succeeds(argv: Sequence[str], text: str | None = None) -> bool:
    """Return whether a command works."""
    try:
        command(argv, text)
    except UnavailableError:
        return False
    return True


def namespaces() -> list[str]:
    """Return the names of all network namespaces that have one."""
    return [line.split()[0] for line in command(["ip", "netns", "list"]).splitlines() if line]


@contextmanager
def in_namespace(path: Path) -> Iterator[None]:
    """Have this thread, and no other, in a network namespace; sockets stay where they were opened.

    Python has ``os.setns`` from 3.12 on.
    """
    with open("/proc/thread-self/ns/net") as own, open(path) as other:
        _set_namespace(other.fileno())
        try:
            yield
        finally:
            _set_namespace(own.fileno())


def own_namespace() -> Path:
    """Return the network namespace that this process began in."""
    return Path(f"/proc/{os.getpid()}/ns/net")


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the kernel can do to packets."""

    tbf: bool
    netem: bool
    statistic: bool
    tap: bool


def shape_device(namespace: Path, device: str, shape: Shape, can: Kernel) -> None:
    """Shape all that leaves by a device from now on, as far as the kernel can."""
    with in_namespace(namespace):
        succeeds(["tc", *shaping.no_queueing(device)])
        for arguments in shaping.queueing(device, shape, tbf=can.tbf, netem=can.netem):
            command(["tc", *arguments])


def kernel() -> Kernel:
    """Find out what the kernel can do, by doing it in a namespace of its own.

    Raises ``UnavailableError`` where one may not even make that.
    """
    scratch = f"mistbow-scratch-{os.getpid()}"
    tc = ["tc", "-n", scratch, "qdisc", "add", "dev", "lo", "root"]
    table = "*filter\n-A INPUT -m statistic --mode random --probability 0.5 -j DROP\nCOMMIT\n"
    command(["ip", "netns", "add", scratch])
    try:
        tbf = succeeds([*tc, "tbf", "rate", "1mbit", "burst", "8kb", "latency", "10ms"])
        succeeds(["tc", "-n", scratch, "qdisc", "del", "dev", "lo", "root"])
        return Kernel(
            tbf=tbf,
            netem=succeeds([*tc, "netem", "delay", "1ms"]),
            statistic=succeeds(["ip", "netns", "exec", scratch, "iptables-restore"], table),
            tap=succeeds(["ip", "-n", scratch, "tuntap", "add", "dev", "tap0", "mode", "tap"]),
        )
    finally:
        command(["ip", "netns", "del", scratch])
