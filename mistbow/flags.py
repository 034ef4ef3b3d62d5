"""Commands with a flag for each field of a settings class."""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings
from rich.markup import escape

from mistbow.errors import MistbowError
from mistbow.os_faults import fault_of
from mistbow.private_files import hide_new_files
from mistbow.trust_settings import TokenSettings, TrustSettings

Settings = TypeVar("Settings", bound=BaseSettings)


def command_of(settings: type[Settings], run: Callable[[Settings], None]) -> Callable[..., None]:
    """Return a Typer command that has a flag for each setting and calls ``run`` with the settings.

    The class ``settings`` reads environment variables for flags that are not given, and checks all
    values.
    """
    prefix = settings.model_config.get("env_prefix", "")

    def command(**given: str | None) -> None:
        from_flags: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        try:
            chosen = settings(**from_flags)
        except ValidationError as error:
            raise typer.BadParameter(_describe(error)) from None
        run(chosen)

    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, _option(name, field, prefix)],
        )
        for name, field in settings.model_fields.items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = settings.__doc__
    return command


def run_service(settings: type[Settings], run: Callable[[Settings], None]) -> None:
    """Run a service as the only command of this process; print expected errors as text."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command_of(settings, run))
    with exit_on_errors():
        app()


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """Hide the files that this process creates, and end it by a text at an expected error.

    Expected are the errors of Mistbow, and faults of the machine such as a full disk.
    """
    hide_new_files()
    try:
        yield
    except MistbowError as error:
        lines = [f"mistbow: {error.message}"]
        if error.hint:
            lines.append(f"  hint: {error.hint}")
        if error.details:
            lines.append(f"  {error.details}")
        sys.exit("\n".join(lines))
    except OSError as error:
        if (fault := fault_of(error)) is None:
            raise
        sys.exit(f"mistbow: {fault.message}\n  hint: {fault.hint}")


def bearer_token(token: str | None) -> str | None:
    """Return ``token``, or else the token that the environment sets; None: no token is set."""
    found = token if token is not None else _token_settings().secret
    if found is not None and not (found.isascii() and found.isprintable()):
        raise typer.BadParameter("the token has a line break or a character beyond ASCII")
    return found


def ca_file() -> Path | None:
    """Return the path in the environment variable MISTBOW_TLS_CA; None: the variable is not set."""
    try:
        return TrustSettings().tls_ca
    except ValidationError as error:
        raise typer.BadParameter(_describe(error)) from None


def _token_settings() -> TokenSettings:
    try:
        return TokenSettings()
    except ValidationError as error:
        raise typer.BadParameter(_describe(error)) from None


def _option(name: str, field: FieldInfo, prefix: str) -> Any:
    default = field.get_default(call_default_factory=True)
    notes = f"[{prefix}{name.upper()}, default: {'none' if default in (None, '') else default}]"
    is_secret = SecretStr in get_args(field.annotation)
    return typer.Option(
        f"--{name.replace('_', '-')}",
        help=f"{field.description} [dim]{escape(notes)}[/dim]",
        show_default=False,
        metavar="SECRET" if is_secret else "VALUE",
    )


def _describe(error: ValidationError) -> str:
    # Without values: one of them may be a secret.
    problems = ((".".join(str(part) for part in p["loc"]), p["msg"]) for p in error.errors())
    return "; ".join(f"{where.replace('_', '-')}: {what}" for where, what in problems)
