"""The host: commands, network namespaces, and features of the kernel."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fog_emulation import traffic_control
from fog_emulation.topology import Shape
from mistbow.errors import UnavailableError

_CLONE_NEWNET = 0x40000000
_TIMEOUT_S = 60


def command(argv: Sequence[str], text: str | None = None) -> str:
    """Return the output of a command, to which ``text`` is the input.

    Raises ``UnavailableError`` with the output if the command fails.
    """
    try:
        process = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{argv[0]} cannot be run: {error}") from error
    if process.returncode != 0:
        output = (process.stderr or process.stdout).strip()
        raise UnavailableError(
            f"the command {' '.join(argv)} failed: {output or f'exit code {process.returncode}'}"
        )
    return process.stdout


def succeeds(argv: Sequence[str], text: str | None = None) -> bool:
    """Run a command; return whether the command succeeds."""
    try:
        command(argv, text)
    except UnavailableError:
        return False
    return True


def namespaces() -> list[str]:
    """Return the names of all named network namespaces."""
    return [line.split()[0] for line in command(["ip", "netns", "list"]).splitlines() if line]


@contextmanager
def in_namespace(path: Path) -> Iterator[None]:
    """Move this thread, and no other thread, to a network namespace inside the ``with`` block.

    Sockets stay in the namespace in which they were opened. Python has ``os.setns`` from 3.12 on.
    """
    with open("/proc/thread-self/ns/net") as own, open(path) as other:
        _set_namespace(other.fileno())
        try:
            yield
        finally:
            _set_namespace(own.fileno())


def kill_with_argument(namespace: str, argument: str) -> None:
    """Kill the processes in a named network namespace whose command line has an argument."""
    for pid in command(["ip", "netns", "pids", namespace]).split():
        with suppress(OSError):
            if argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(int(pid), signal.SIGKILL)


def own_namespace() -> Path:
    """Return the path of the network namespace of this process' main thread."""
    return Path(f"/proc/{os.getpid()}/ns/net")


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@dataclass(frozen=True, slots=True)
class KernelFeatures:
    """The features of the kernel for traffic shapes; ``tap``: delay lines can replace netem."""

    tbf: bool
    netem: bool
    statistic: bool
    tap: bool

    @property
    def supported_shapes(self) -> traffic_control.SupportedShapes:
        """The parts of a traffic shape that this kernel supports."""
        return traffic_control.SupportedShapes(
            rate=self.tbf,
            delay=self.netem or self.tap,
            loss=self.statistic,
            links=self.tap,
        )


def shape_device(namespace: Path, device: str, shape: Shape, features: KernelFeatures) -> None:
    """Set the traffic shape of packets that leave a device, as far as the kernel supports the
    shape.
    """
    with in_namespace(namespace):
        succeeds(["tc", *traffic_control.queue_removal(device)])
        for arguments in traffic_control.queue_commands(
            device, shape, tbf=features.tbf, netem=features.netem
        ):
            command(["tc", *arguments])


def probe_kernel() -> KernelFeatures:
    """Return the features of the kernel; each feature is tried in a temporary network namespace.

    Raises ``UnavailableError`` if the namespace cannot be created.
    """
    scratch = f"mistbow-scratch-{os.getpid()}"
    tc = ["tc", "-n", scratch, "qdisc", "add", "dev", "lo", "root"]
    table = "*filter\n-A INPUT -m statistic --mode random --probability 0.5 -j DROP\nCOMMIT\n"
    command(["ip", "netns", "add", scratch])
    try:
        tbf = succeeds([*tc, "tbf", "rate", "1mbit", "burst", "8kb", "latency", "10ms"])
        succeeds(["tc", "-n", scratch, "qdisc", "del", "dev", "lo", "root"])
        return KernelFeatures(
            tbf=tbf,
            netem=succeeds([*tc, "netem", "delay", "1ms"]),
            statistic=succeeds(["ip", "netns", "exec", scratch, "iptables-restore"], table),
            tap=succeeds(["ip", "-n", scratch, "tuntap", "add", "dev", "tap0", "mode", "tap"]),
        )
    finally:
        command(["ip", "netns", "del", scratch])
