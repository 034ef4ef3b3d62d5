"""What the commands that use an enabler share: options, the client, input and output."""

import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NoReturn

import httpx
import typer
from rich.console import Console

from analytics.client.enabler import EnablerClient
from grammar import Diagnostic, render
from mistbow.errors import InvalidQueryError, MistbowError
from mistbow.flags import bearer_token, ca_file

out = Console()
err = Console(stderr=True)

Queries = Annotated[
    str, typer.Argument(metavar="FILE|-|TEXT", help="A file of queries, - for stdin, or a text.")
]
Url = Annotated[
    str,
    typer.Option(
        "--enabler-url",
        "--url",
        envvar="MISTBOW_ENABLER_URL",
        help="Address of the analytics enabler.",
    ),
]

URL = "http://127.0.0.1:8000"
"""The address of the enabler on this machine."""


@contextmanager
def enabler_client(url: str, token: str | None, text: str = "") -> Iterator[EnablerClient]:
    """Yield a client of the enabler; print an error of a call, and exit with 1 after the error.

    ``text``: the queries that the printed diagnostics quote.
    """
    try:
        client = EnablerClient(url, token=bearer_token(token), ca=ca_file())
    except httpx.InvalidURL as error:
        raise typer.BadParameter(f"--url {url}: {error}") from None
    try:
        yield client
    except InvalidQueryError as error:
        print_problems([Diagnostic(**problem) for problem in error.details or ()], text)
        raise typer.Exit(1) from None
    except MistbowError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        client.close()


def read_queries(queries: str) -> str:
    """Return the text of queries; ``queries``: a path, ``-`` for stdin, or the text itself."""
    if queries == "-":
        return _decoded(sys.stdin.buffer.read(), "the standard input")
    # A text without any of these is no statement, so it is the name of a file.
    if not any(char in queries for char in "=;\n"):
        path = Path(queries)
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {queries}")
        return read_file(path)
    return queries


def read_file(path: Path) -> str:
    return _decoded(path.read_bytes(), str(path))


def _decoded(data: bytes, origin: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{origin} is not text in UTF-8: {error}") from None


_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""The characters without a shape that ``str.isprintable`` accepts, such as variation selectors."""

_EMOJI_STYLES = "\ufe0e\ufe0f"
_EMOJIS = "‼⁉ℹ↔◻◼◽◾⤴⤵〰〽"
"""The emojis that are not in the category of symbols."""


def visible(text: str) -> str:
    """Return a text in which characters that are invisible, or control the terminal, are codes.

    Such characters are control characters, characters that reorder others, spaces except U+0020,
    and variation selectors except those of an emoji.

    >>> visible("a\\x1b[2J"), visible("north\\u00a0"), visible("north\\ufe0f")
    ('a⟨U+001B⟩[2J', 'north⟨U+00A0⟩', 'north⟨U+FE0F⟩')
    """
    return "".join(
        char if _is_visible(char, former) else f"⟨U+{ord(char):04X}⟩"
        for former, char in pairwise(f" {text}")
    )


def _is_visible(char: str, former: str) -> bool:
    if char in _EMOJI_STYLES:
        is_symbol = unicodedata.category(former) == "So" and not _BLANK.match(former)
        return is_symbol or former in _EMOJIS
    return char.isprintable() and not _BLANK.match(char)


def _fail(error: MistbowError) -> NoReturn:
    err.print("error", style="red", end="")
    err.print(f": {error.message}", highlight=False, markup=False)
    if error.hint is not None:
        err.print(f"hint: {error.hint}", highlight=False, markup=False)
    raise typer.Exit(1)


def print_problems(problems: list[Diagnostic], text: str) -> None:
    for problem in problems:
        style = "red" if problem.severity == "error" else "yellow"
        err.print(render(problem, text), style=style, highlight=False, markup=False)


def print_plain(text: str) -> None:
    out.print(text, end="", highlight=False, markup=False, soft_wrap=True)


def print_json(text: str) -> None:
    print_plain(f"{text}\n")
