"""The configuration of one Ignite server: ports, folder, JVM options and Spring XML."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from xml.sax.saxutils import escape

from ignite_server.ports import LOOPBACK
from mistbow.java import archive_path
from mistbow.settings import Durability
from storage_agent.ignite.client import CACHE_GROUP
from storage_agent.ignite.folder_id import ATTRIBUTE, ensure_folder_id
from storage_agent.ignite.tls import ServerTls

_WAL_MODES: dict[Durability, str] = {"fsync": "FSYNC", "log": "LOG_ONLY", "memory": "NONE"}

_CACHED_MB = 64
"""The memory (MB) in which Ignite caches the data that it stores on disk."""

_MEMORY_ONLY_MB = 256
"""The memory (MB) for the data of an Ignite that stores no data on disk."""

ENVIRONMENT = (
    "PATH",
    "LD_LIBRARY_PATH",
    "JAVA_HOME",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "TMPDIR",
    "TZ",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "MISTBOW_RUN",
)
"""The environment variables that Ignite inherits.

Ignite writes its environment into its files, so settings are excluded: some settings are secret.
``MISTBOW_RUN`` is the tag by which a run finds and ends the processes that it has started.
"""

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
"""The Java packages that Ignite accesses by reflection, each as MODULE/PACKAGE."""

_ALONE = "mistbow"
_LOG_LINE = "%1$tFT%1$tT.%1$tL %4$s %3$s %5$s%6$s%n"


@dataclass(frozen=True, slots=True)
class IgniteConfig:
    """The configuration of one server.

    ``folder``: the folder of the data. ``address``: the address of all ports. ``nodes``: the
    discovery addresses ``HOST:PORT`` of all nodes of the site, including this node; empty: the site
    has a single node. ``backups``: the number of backup copies of each partition.
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
        """The name by which the cluster identifies this node, also after restarts."""
        # Without a name, a server that finds its folder locked starts with an empty folder. The
        # data of a server that was alone is stored under its first name for good.
        if not self.nodes or (self.folder / "db" / _ALONE).exists():
            return _ALONE
        return self.discovery_address

    @property
    def discovery_address(self) -> str:
        """The address at which other nodes discover this node."""
        return f"{self.address}:{self.discovery_port}"

    def write(self) -> Path:
        """Write the configuration as Spring XML into ``folder``; return the path of the file."""
        template = Template((files("ignite_server") / "server.xml").read_text())
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "server.xml"
        # The file may contain the password of the key store.
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(
            template.substitute(
                work=escape(str(self.folder.absolute())),
                node=escape(self.node),
                folder_attribute=ATTRIBUTE,
                folder_id=ensure_folder_id(self.folder),
                address=escape(self.address),
                nodes="".join(
                    f"<value>{escape(node)}</value>"
                    for node in self.nodes or (self.discovery_address,)
                ),
                tls="" if self.tls is None else self.tls.xml(),
                group=CACHE_GROUP,
                # In an atomic cache, a node that crashed during writes may return with other values
                # than the rest. On a single node, atomic is safe and cheaper.
                atomicity="TRANSACTIONAL" if self.nodes else "ATOMIC",
                # Without cost on one node, and in place when further nodes join.
                backups=self.backups,
                port=self.port,
                discovery_port=self.discovery_port,
                communication_port=self.communication_port,
                wal_mode=_WAL_MODES[self.durability],
                persistent=str(self.durability != "memory").lower(),
                region_mb=_MEMORY_ONLY_MB if self.durability == "memory" else _CACHED_MB,
            )
        )
        return path

    def argv(self, java: Path, jars: Path, recorded_classes: Path | None = None) -> list[str]:
        """Write the configuration; return the command that runs the server in the foreground.

        The server writes a log to the standard output, and stops on SIGTERM. ``recorded_classes``:
        the file to which the server writes its classes when it stops; None: the server reads the
        file of an earlier run, if there is one.
        """
        return [
            *java_argv(java, self.heap_mb),
            *(
                archive_options(class_archive(java, jars))
                if recorded_classes is None
                else [f"-XX:ArchiveClassesAtExit={recorded_classes.absolute()}"]
            ),
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
    """Return the Java command and the JVM options for Ignite on a small machine."""
    return [
        str(java),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    ]


def class_path(jars: Path) -> list[str]:
    """Return the Java options that set the class path to Ignite's jars."""
    # In the same order on each file system, because a class archive is for one class path.
    return ["-cp", ":".join(str(jar) for jar in sorted(jars.absolute().glob("*.jar")))]


def class_archive(java: Path, jars: Path) -> Path:
    """Return the path of the class archive for a Java and a folder of jars; it may not exist."""
    return archive_path(jars, "ignite", java, str(class_path(jars)))


def archive_options(archive: Path) -> list[str]:
    """Return the Java options that use a class archive; empty if it does not exist."""
    if not archive.exists():
        return []
    return [
        f"-XX:SharedArchiveFile={archive.absolute()}",
        # By default, the JVM maps its class archives at another address than recorded, and so
        # changes all of their pages, which are file cache otherwise.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:ArchiveRelocationMode=0",
    ]
