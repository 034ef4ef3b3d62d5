"""Sessions of services: who can begin one, and which requests belong to it."""

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from mistbow.auth.audiences import LocalEnd, OwnAddresses
from mistbow.auth.service_key import Challenge, RawHeaders, RequestSignature, ServiceKey
from mistbow.auth.service_key import sign_request as sign
from mistbow.auth.service_sessions import LIFETIME_S, ServiceSessions
from mistbow.errors import MisdirectedError, UnauthorizedError

KEY = ServiceKey("of-the-fog")
LOCAL = LocalEnd("http", "127.0.0.1", 8300)
HERE = "http://127.0.0.1:8300"
NONCE = "0123456789abcdef" * 2
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HEADERS = ((b"content-type", b"text/plain"), (b"mistbow-entity-prefix", b"bus-"))


class ManualSeconds:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Client:
    """A client with a session, which signs requests."""

    def __init__(self, sessions: ServiceSessions, challenge: Challenge, nonce: str) -> None:
        self.sessions = sessions
        self.key = KEY.session_key(challenge, nonce)

    def signature(
        self,
        number: int,
        target: bytes = b"/put?site=b",
        headers: RawHeaders = HEADERS,
        body: str = EMPTY,
    ) -> RequestSignature:
        mac = sign(self.key, number, "POST", target, body, headers)
        return RequestSignature(NONCE, number, body, mac)

    def is_accepted(self, number: int) -> bool:
        return self.sessions.accept(self.signature(number), "POST", b"/put?site=b", HEADERS)


async def begin(sessions: ServiceSessions) -> Client:
    challenge = KEY.challenge(NONCE, HERE)
    answer = await sessions.answer(challenge, LOCAL)
    assert KEY.is_valid_answer(challenge, answer)
    return Client(sessions, challenge, answer.nonce)


def new_sessions(*urls: str, seconds: ManualSeconds | None = None) -> ServiceSessions:
    return ServiceSessions(KEY, OwnAddresses(urls), seconds or ManualSeconds())


def test_service_key_is_hkdf_of_the_token() -> None:
    kdf = HKDF(SHA256(), 32, salt=None, info=b"mistbow service authentication 1")
    assert ServiceKey("of-the-fog")._key == kdf.derive(b"of-the-fog")


async def test_challenge_with_another_key_is_rejected() -> None:
    challenge = ServiceKey("other").challenge(NONCE, HERE)
    with pytest.raises(UnauthorizedError, match="another service key"):
        await new_sessions().answer(challenge, LOCAL)


@pytest.mark.parametrize(
    ("audience", "local", "is_own"),
    [
        (HERE, LOCAL, True),
        ("http://localhost:8300", LOCAL, True),
        ("http://edge:8300", LOCAL, True),  # advertised
        ("https://edge:443/agent", LOCAL, True),  # of the settings
        (HERE, LocalEnd("http", "::ffff:127.0.0.1", 8300), True),
        ("http://[::1]:8300", LocalEnd("http", "::1", 8300), True),
        ("http://127.0.0.1:8301", LOCAL, False),
        ("https://127.0.0.1:8300", LOCAL, False),
        ("http://127.0.0.2:8300", LOCAL, False),
        (HERE, LocalEnd("http", "10.0.0.1", 8300), False),
        (HERE, LocalEnd("http", None, None), False),
        ("http://127.0.0.1:8300/path", LOCAL, False),
        ("http://no-such-host.invalid:8300", LOCAL, False),
        ("http://h:x", LOCAL, False),
        ("", LOCAL, False),
    ],
)
async def test_challenge_is_answered_at_own_addresses_only(
    audience: str, local: LocalEnd, is_own: bool
) -> None:
    sessions = new_sessions("http://edge:8300/", "https://Edge/agent")
    challenge = KEY.challenge(NONCE, audience)
    if is_own:
        assert KEY.is_valid_answer(challenge, await sessions.answer(challenge, local))
    else:
        with pytest.raises(MisdirectedError, match="is not an address of this service"):
            await sessions.answer(challenge, local)


async def test_answer_to_another_challenge_is_not_valid() -> None:
    challenge = KEY.challenge(NONCE, HERE)
    answer = await new_sessions().answer(challenge, LOCAL)
    for other in (KEY.challenge("f" * 32, HERE), KEY.challenge(NONCE, "http://127.0.0.1:1")):
        assert not KEY.is_valid_answer(other, answer)
    assert not ServiceKey("other").is_valid_answer(challenge, answer)


async def test_signed_request_is_accepted_once() -> None:
    client = await begin(new_sessions())
    assert client.is_accepted(1)
    assert not client.is_accepted(1)
    assert client.is_accepted(3)
    assert client.is_accepted(2)
    assert not client.is_accepted(2)


async def test_altered_request_is_rejected() -> None:
    client = await begin(new_sessions())
    good = client.signature(1)
    accept = client.sessions.accept
    assert not accept(good, "DELETE", b"/put?site=b", HEADERS)
    assert not accept(good, "POST", b"/put?site=c", HEADERS)
    assert not accept(good, "POST", b"/put", HEADERS)
    assert not accept(good, "POST", b"/put?site=b", HEADERS[:1])
    assert not accept(good, "POST", b"/put?site=b", (*HEADERS, (b"mistbow-caller", b"x")))
    other_body = RequestSignature(good.session, good.number, "0" * 64, good.mac)
    assert not accept(other_body, "POST", b"/put?site=b", HEADERS)
    other_number = RequestSignature(good.session, 2, good.body, good.mac)
    assert not accept(other_number, "POST", b"/put?site=b", HEADERS)
    other_session = RequestSignature("f" * 32, 1, good.body, good.mac)
    assert not accept(other_session, "POST", b"/put?site=b", HEADERS)
    # Nothing of this has used the number; what proxies add is not signed.
    assert accept(good, "POST", b"/put?site=b", (*HEADERS[::-1], (b"via", b"1.1 proxy")))


async def test_session_ends_by_the_clock_of_the_server() -> None:
    seconds = ManualSeconds()
    client = await begin(new_sessions(seconds=seconds))
    seconds.now = LIFETIME_S - 1
    assert client.is_accepted(1)
    seconds.now = LIFETIME_S + 1
    assert not client.is_accepted(2)


async def test_repeated_challenge_does_not_accept_used_numbers_again() -> None:
    seconds = ManualSeconds()
    sessions = new_sessions(seconds=seconds)
    client = await begin(sessions)
    assert client.is_accepted(1)
    seconds.now = 100.4
    challenge = KEY.challenge(NONCE, HERE)
    again = await sessions.answer(challenge, LOCAL)
    assert again.lifetime_s == LIFETIME_S - 101
    assert KEY.session_key(challenge, again.nonce) == client.key
    assert not client.is_accepted(1)
    # After the end of the session, it begins another one: with another key.
    seconds.now = 700.0
    later = await sessions.answer(challenge, LOCAL)
    assert KEY.session_key(challenge, later.nonce) != client.key


@given(st.lists(st.integers(1, 40_000) | st.integers(1, 50), max_size=50))
async def test_no_number_is_accepted_twice(numbers: list[int]) -> None:
    client = await begin(new_sessions())
    accepted = [number for number in numbers if client.is_accepted(number)]
    assert len(accepted) == len(set(accepted))
    # A number is rejected only if it was used, or is far behind the greatest one.
    assert {n for n in numbers if n > max(numbers) - 16_384} <= set(accepted)


async def test_number_far_ahead_costs_nothing() -> None:
    client = await begin(new_sessions())
    assert client.is_accepted(10**15 - 1)
    assert not client.is_accepted(5)
