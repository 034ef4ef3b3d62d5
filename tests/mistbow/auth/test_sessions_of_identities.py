"""Sessions of services with identities at a server."""

import secrets
from datetime import timedelta

import pytest

from mistbow.auth import service_sessions
from mistbow.auth.audiences import LocalEnd, OwnAddresses
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile
from mistbow.auth.identity_proof import make_challenge
from mistbow.auth.service_key import RequestSignature, sign_request
from mistbow.auth.service_sessions import ServiceSessions
from mistbow.clock import utc_now
from mistbow.errors import UnauthorizedError

HERE = "http://127.0.0.1:8300"
LOCAL = LocalEnd("http", "127.0.0.1", 8300)
END = utc_now() + timedelta(days=1)
EMPTY = "0" * 64


class Session:
    """A session of a client that has proven its identity."""

    def __init__(self, sessions: ServiceSessions, nonce: str, key: bytes) -> None:
        self._sessions, self._nonce, self._key = sessions, nonce, key
        self._number = 0

    @classmethod
    async def begin(cls, sessions: ServiceSessions, client: IdentityFile) -> "Session":
        proof = make_challenge(client.current(), secrets.token_hex(16), HERE)
        answer = await sessions.answer_signed(proof.challenge, LOCAL)
        return cls(sessions, proof.challenge.nonce, proof.finish(client.current(), answer)[0])

    def is_accepted(self) -> bool:
        self._number += 1
        mac = sign_request(self._key, self._number, "GET", b"/get", EMPTY, ())
        signature = RequestSignature(self._nonce, self._number, EMPTY, mac)
        return self._sessions.accept(signature, "GET", b"/get", ()) is not None


async def test_one_service_does_not_end_the_sessions_of_others(
    fog: FogKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_sessions, "_MAX_SESSIONS", 20)
    monkeypatch.setattr(service_sessions, "_MAX_SESSIONS_OF_SERVICE", 5, raising=False)
    server, edge, core = (
        IdentityFile(fog.issue(name, "agent", name, END)) for name in ("server", "edge", "core")
    )
    sessions = ServiceSessions(None, OwnAddresses([HERE]), identity=server)
    other = await Session.begin(sessions, core)
    many = [await Session.begin(sessions, edge) for _ in range(30)]
    assert other.is_accepted()
    assert [each.is_accepted() for each in many] == [False] * 25 + [True] * 5


async def test_error_of_a_server_without_a_valid_identity_names_no_path(fog: FogKeys) -> None:
    path = fog.issue("server", "agent", "here", END)
    client = IdentityFile(fog.issue("client", "agent", "there", END))
    sessions = ServiceSessions(None, OwnAddresses([HERE]), identity=IdentityFile(path))
    path.unlink()
    with pytest.raises(UnauthorizedError, match="no valid identity") as error:
        await Session.begin(sessions, client)
    assert str(path) not in error.value.message


async def test_challenge_begins_one_session_and_names_the_dialled_address(fog: FogKeys) -> None:
    server = IdentityFile(fog.issue("server", "agent", "here", END))
    client = IdentityFile(fog.issue("client", "agent", "there", END)).current()
    sessions = ServiceSessions(None, OwnAddresses([HERE]), identity=server)
    proof = make_challenge(client, secrets.token_hex(16), HERE)
    await sessions.answer_signed(proof.challenge, LOCAL)
    with pytest.raises(UnauthorizedError, match="received before"):
        await sessions.answer_signed(proof.challenge, LOCAL)
