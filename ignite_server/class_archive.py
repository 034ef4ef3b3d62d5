"""The class archive of Ignite's JVM, created once per installation, which shortens its start.

The JVM maps the classes from the file, parsed and verified, instead of reading them from jars
(application class-data sharing, JEP 350). Several JVMs of a machine share its memory. A JVM ignores
a file that another JVM wrote, or that was created for other jars.
"""

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from ignite_server.config import IgniteConfig, class_archive
from ignite_server.server import IgniteServer
from mistbow.errors import MistbowError, UnavailableError
from mistbow.java import find_java, replace_class_archive
from storage_agent.ignite.client import HISTORICAL, IgniteClient

_DUMP_S = 120.0
_CONNECT_S = 30.0


def ensure_class_archive(jars: Path, console: Console) -> None:
    """Create the archive for the jars in a folder if it does not exist; this takes about 20 s.

    If creating fails, the reason is printed to ``console``; Ignite then starts more slowly. In a
    folder that cannot be written to, no archive is created.
    """
    archive = class_archive(find_java(), jars)
    if archive.exists() or not os.access(jars, os.W_OK):
        return
    partial = archive.with_suffix(f".{os.getpid()}")
    try:
        with console.status("Preparing Ignite (once): writing an archive of its classes"):
            _record(jars, partial)
    except (MistbowError, OSError) as error:
        partial.unlink(missing_ok=True)
        console.print(
            f"Ignite starts more slowly: its class archive failed: {error}", highlight=False
        )
        return
    replace_class_archive(archive, partial)
    console.print("Ignite is prepared: it starts faster now", highlight=False)


def _record(jars: Path, archive: Path) -> None:
    """Run an Ignite that writes the classes of its start and of its use to a file at its end.

    Raises ``UnavailableError`` if Ignite does not start, or writes no file.
    """
    with TemporaryDirectory() as home:
        server = IgniteServer(Path(home), jars=jars, recorded_classes=archive)
        with server:
            asyncio.run(_use(server.config))
            server.stop(_DUMP_S)
        if not archive.exists():
            raise UnavailableError("Ignite wrote no file", details=server.log.read_text()[-2000:])


async def _use(config: IgniteConfig) -> None:
    """Create the caches, and send each kind of request that an agent sends."""
    client = IgniteClient([(config.address, config.port)], folder=config.folder)
    client.start()
    try:
        await client.wait_connected(_CONNECT_S)
        await client.put(HISTORICAL, "a", b"1")
        await client.put_all(HISTORICAL, {"b": b"2", "c": b"3"})
        await client.put_if_absent(HISTORICAL, "d", "4")
        await client.replace(HISTORICAL, "d", "4", "5")
        await client.get_all(HISTORICAL, ("a", "b"))
        await client.keys(HISTORICAL, "a")
        await client.remove_all(HISTORICAL, ("a", "b"))
        await client.query("SELECT CONSISTENT_ID FROM SYS.NODES")
    finally:
        await client.close()
