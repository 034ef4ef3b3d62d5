"""A command's flags, made from the fields of its settings."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings
from rich.markup import escape

from mistbow.trust_settings import TokenSettings, TrustSettings

Settings = TypeVar("Settings", bound=BaseSettings)


def command_of(settings: type[Settings], run: Callable[[Settings], None]) -> Callable[..., None]:
    """Return a function for Typer: a flag and a variable for each setting, then ``run``.

    The settings themselves read the variables and check every value.
    """
    prefix = settings.model_config.get("env_prefix", "")

    def command(**given: str | None) -> None:
        chosen_by_flag: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        try:
            chosen = settings(**chosen_by_flag)
        except ValidationError as error:
            raise typer.BadParameter(_what_is_wrong(error)) from None
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


def bearer(token: str | None) -> str | None:
    """Return the token given by flag or variable, or else that in MISTBOW_TOKEN_FILE."""
    return token if token is not None else _found().secret


def authorities() -> Path | None:
    """Return the file of MISTBOW_TLS_CA."""
    try:
        return TrustSettings().tls_ca
    except ValidationError as error:
        raise typer.BadParameter(_what_is_wrong(error)) from None


def _found() -> TokenSettings:
    try:
        return TokenSettings()
    except ValidationError as error:
        raise typer.BadParameter(_what_is_wrong(error)) from None


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


def _what_is_wrong(error: ValidationError) -> str:
    # Without the values: one of them may be a secret.
    problems = ((".".join(str(part) for part in p["loc"]), p["msg"]) for p in error.errors())
    return "; ".join(f"{where.replace('_', '-')}: {what}" for where, what in problems)
