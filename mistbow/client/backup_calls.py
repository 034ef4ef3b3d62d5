"""Calls for backups; each function builds the call that one client method sends."""

from dataclasses import replace
from urllib.parse import quote

from mistbow.client.backup_model import BackupCut, StreamDeletions
from mistbow.client.transport import Call, get_json, json_of, no_answer


def begin_backup() -> Call[BackupCut]:
    """Begin a backup: fix the positions at which it ends, and stop compaction until it ends."""
    return Call("POST", "/backups", json_of(BackupCut), repeatable=True)


def backup_part(backup: str, stream: str, start: int) -> Call[bytes]:
    """Return the part of a stream that begins at the position ``start``; empty: no rows follow."""
    call = Call(
        "GET",
        f"{_path(backup)}/parts/{quote(stream)}",
        lambda response: bytes(response.content),
        params={"from": start},
    )
    return replace(call, repeatable=True)


def backup_series(backup: str) -> Call[bytes]:
    """Return the metadata of the site's series, as one JSON object a line."""
    path = f"{_path(backup)}/series"
    return Call("GET", path, lambda response: bytes(response.content), repeatable=True)


def backup_deletions(backup: str) -> Call[dict[str, StreamDeletions]]:
    """Return the present tombstones of the streams in a backup, by the name of the stream."""
    return get_json(f"{_path(backup)}/deletions", dict[str, StreamDeletions])


def end_backup(backup: str) -> Call[None]:
    """End a backup: streams are compacted again."""
    return Call("DELETE", _path(backup), no_answer, repeatable=True)


def _path(backup: str) -> str:
    return f"/backups/{quote(backup, safe='')}"
