"""The id of an Ignite folder, by which an agent recognizes the Ignite of its own home.

Ignite reports the id of its folder as an attribute of the node. All Ignites that serve a single
node have the same name, so the name does not distinguish them.
"""

from pathlib import Path
from uuid import uuid4

ATTRIBUTE = "mistbow.folder"
"""The attribute of an Ignite node with the id of the node's folder (``server.xml``)."""

NODE_FOLDERS = "SELECT VALUE FROM SYS.NODE_ATTRIBUTES WHERE NAME = 'mistbow.folder'"
"""The SQL query for the ids of the folders of all nodes of a cluster."""


def folder_id_file(folder: Path) -> Path:
    """Return the path of the file with the id of an Ignite folder."""
    return folder.absolute() / "folder_id"


def read_folder_id(folder: Path) -> str | None:
    """Return the id of an Ignite folder; None: no Ignite was ever started in the folder."""
    try:
        return folder_id_file(folder).read_text().strip() or None
    except FileNotFoundError:
        return None


def ensure_folder_id(folder: Path) -> str:
    """Return the id of an Ignite folder; a folder without an id gets a random one."""
    found = read_folder_id(folder)
    if found is None:
        found = uuid4().hex
        path = folder_id_file(folder)
        path.touch(mode=0o600)
        path.write_text(found)
    return found
