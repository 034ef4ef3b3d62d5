"""Commands with a flag for each field of a settings class."""

import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings
from rich.markup import escape

from mistbow.errors import MistbowError
from mistbow.os_faults import fault_of
from mistbow.private_files import hide_new_files, home_problem
from mistbow.setting_values import describe_problems, is_secret
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
            raise _refusal(describe_problems(error, settings, from_flags)) from None
        _check_home(chosen, from_flags)
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


def check_settings(settings: type[BaseSettings], variables: Mapping[str, str]) -> None:
    """End the command if the settings of a child process are invalid.

    ``variables``: the environment variables that the process has in addition to those of this one.
    """
    former = dict(os.environ)
    os.environ.update(variables)
    try:
        settings()
    except ValidationError as error:
        raise _refusal(describe_problems(error, settings, {})) from None
    finally:
        os.environ.clear()
        os.environ.update(former)


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
        if error.details and not _repeats_message(error):
            lines.append(f"  {error.details}")
        sys.exit("\n".join(lines))
    except OSError as error:
        if (fault := fault_of(error)) is None:
            raise
        sys.exit(f"mistbow: {fault.message}\n  hint: {fault.hint}")


def _repeats_message(error: MistbowError) -> bool:
    """Return whether the details of an error are texts that its message contains already."""
    details = error.details
    return isinstance(details, list) and all(
        isinstance(each, str) and each in error.message for each in details
    )


def bearer_token(token: str | None) -> str | None:
    """Return ``token``, or else the token that the environment sets; None: no token is set."""
    if token is None:
        return _token_settings().secret
    if not (token.isascii() and token.isprintable()):
        raise typer.BadParameter("the token has a line break or a character beyond ASCII")
    return token


def ca_file() -> Path | None:
    """Return the path in the environment variable MISTBOW_TLS_CA; None: the variable is not set."""
    try:
        return TrustSettings().tls_ca
    except ValidationError as error:
        raise _refusal(describe_problems(error, TrustSettings, {})) from None


def _token_settings() -> TokenSettings:
    try:
        return TokenSettings()
    except ValidationError as error:
        raise _refusal(describe_problems(error, TokenSettings, {})) from None


def _option(name: str, field: FieldInfo, prefix: str) -> Any:
    default = field.get_default(call_default_factory=True, validated_data={})
    notes = f"[{prefix}{name.upper()}, default: {'none' if default in (None, '') else default}]"
    return typer.Option(
        f"--{name.replace('_', '-')}",
        help=f"{field.description} [dim]{escape(notes)}[/dim]",
        show_default=False,
        metavar="SECRET" if is_secret(field) else "VALUE",
    )


def _check_home(chosen: BaseSettings, flags: Collection[str]) -> None:
    """End the command if files cannot be created in the home folder, which is created here."""
    home = getattr(chosen, "home", None)
    if home is not None and (problem := home_problem(home)) is not None:
        source = "--home" if "home" in flags else "MISTBOW_HOME"
        text = f"{source} is {str(home)!r}: it must be a folder in which files can be created"
        raise _refusal(f"{text}: {problem}")


def _refusal(problem: str) -> typer.Exit:
    """Print why the command does not start, in one line that no frame breaks."""
    typer.echo(f"mistbow: {problem}", err=True)
    return typer.Exit(2)
