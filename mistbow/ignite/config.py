"""How one Ignite server is set: its ports, its folder, its JVM, its Spring XML."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from xml.sax.saxutils import escape

from mistbow.ignite.tls import ServerTls
from mistbow.ports import LOOPBACK
from mistbow.settings import Durability

_WAL_MODES: dict[Durability, str] = {"fsync": "FSYNC", "log": "LOG_ONLY", "memory": "NONE"}

# What Ignite reaches for with reflection, closed by default since Java 16.
_OPENED = (
    "java.base/jdk.internal.access",
    "java.base/jdk.internal.misc",
    "java.base/sun.nio.ch",
    "java.base/sun.util.calendar",
    "java.management/com.sun.jmx.mbeanserver",
    "jdk.internal.jvmstat/sun.jvmstat.monitor",
    "java.base/sun.reflect.generics.reflectiveObjects",
    "jdk.management/com.sun.management.internal",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.net",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.locks",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.math",
    "java.sql/java.sql",
    "java.base/java.time",
)
CACHE_GROUP = "mistbow"
"""The group that all caches of an agent belong to: one set of partition files for all."""

_ALONE = "mistbow"
_LOG_LINE = "%1$tFT%1$tT.%1$tL %4$s %3$s %5$s%6$s%n"


@dataclass(frozen=True, slots=True)
class IgniteConfig:
    """One server. ``folder`` holds its data; all ports are at ``address``; the heap is in MB.

    ``nodes``: where those of the site find each other, ``HOST:PORT``, this one among them; empty
    where it is the only one. Caches are made with so many ``backups``.
    """

    folder: Path
    port: int
    discovery_port: int
    communication_port: int
    durability: Durability
    heap_mb: int
    address: str = LOOPBACK
    nodes: tuple[str, ...] = ()
    tls: ServerTls | None = None
    backups: int = 1

    @property
    def node(self) -> str:
        """The name by which the site's other nodes know this one, over restarts."""
        # Of our own: without one, a server that finds its folder locked starts an empty one. A
        # server that was alone keeps its name, under which all that it holds is stored.
        if not self.nodes or (self.folder / "db" / _ALONE).exists():
            return _ALONE
        return self.discovery_address

    @property
    def discovery_address(self) -> str:
        """Where this node is found by the others."""
        return f"{self.address}:{self.discovery_port}"

    def write(self) -> Path:
        """Write the Spring XML into ``folder`` and return its path."""
        template = Template((files("mistbow.ignite") / "server.xml").read_text())
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "server.xml"
        # It may have the key store's password in it.
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(
            template.substitute(
                work=escape(str(self.folder.absolute())),
                node=escape(self.node),
                address=escape(self.address),
                nodes="".join(
                    f"<value>{escape(node)}</value>"
                    for node in self.nodes or (self.discovery_address,)
                ),
                tls="" if self.tls is None else self.tls.xml(),
                group=CACHE_GROUP,
                # Of an atomic cache, a node that died with writes under way may keep some that the
                # others never had, and miss as many when it returns; alone, atomic costs less.
                atomicity="TRANSACTIONAL" if self.nodes else "ATOMIC",
                # On one node they cost nothing, and further nodes find them set.
                backups=self.backups,
                port=self.port,
                discovery_port=self.discovery_port,
                communication_port=self.communication_port,
                wal_mode=_WAL_MODES[self.durability],
                persistent=str(self.durability != "memory").lower(),
            )
        )
        return path

    def argv(self, java: Path, jars: Path) -> list[str]:
        """Write the configuration, and return the command that runs the server in its foreground.

        The server writes its log to the standard output, and ends itself on SIGTERM.
        """
        return [
            *java_argv(java, self.heap_mb),
            "-DIGNITE_UPDATE_NOTIFIER=false",
            "-DIGNITE_QUIET=false",
            "-DIGNITE_PERFORMANCE_SUGGESTIONS_DISABLED=true",
            f"-DIGNITE_HOME={self.folder.absolute()}",
            "-Djava.net.preferIPv4Stack=true",
            f"-Djava.util.logging.SimpleFormatter.format={_LOG_LINE}",
            *class_path(jars),
            "org.apache.ignite.startup.cmdline.CommandLineStartup",
            str(self.write().absolute()),
        ]


def java_argv(java: Path, heap_mb: int) -> list[str]:
    """Return how Java is started for Ignite on a small machine."""
    return [
        str(java),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    ]


def class_path(jars: Path) -> list[str]:
    """Return where Java finds Ignite's classes."""
    return ["-cp", f"{jars.absolute()}/*"]
