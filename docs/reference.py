"""Write the tables of the pages settings.md, metrics.md and commands.md from the code.

``make reference`` writes the pages. ``tests/test_reference_pages.py`` compares them with the code.
The text of a page before the mark is written by hand.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.settings import EnablerSettings
from analytics_worker.settings import WorkerSettings
from command_line.app import app
from ignite_server.settings import IgniteSettings
from mistbow.settings import ServiceSettings
from monitoring_agent.settings import MonitorSettings
from storage_agent.settings import AgentSettings
from suite.settings import NodeSettings, RunSettings, StorageSettings

DOCS = Path(__file__).resolve().parent
MARK = "<!-- Generated from the code by `make reference`: the rest of this page -->"

_SERVICES = {
    "mistbow": "All services",
    "storage_agent": "Storage agent",
    "analytics_worker": "Analytics worker",
    "analytics_enabler": "Analytics enabler",
    "monitoring_agent": "Monitoring agent",
}
"""Package -> the service that it contains."""

_SETTINGS: Mapping[str, tuple[type[BaseSettings], ...]] = {
    "All services": (ServiceSettings,),
    "Storage agent": (AgentSettings, ServiceSettings),
    "Analytics worker": (WorkerSettings, ServiceSettings),
    "Analytics enabler": (EnablerSettings, ServiceSettings),
    "Monitoring agent": (MonitorSettings, ServiceSettings),
    "Ignite": (IgniteSettings,),
    "mistbow storage": (StorageSettings, IgniteSettings, ServiceSettings),
    "mistbow supervise": (NodeSettings, ServiceSettings),
    "mistbow run": (RunSettings, IgniteSettings, ServiceSettings),
}
"""Section -> the class of its settings, and the classes whose settings other sections describe."""

_SECTIONS = {
    "run": "mistbow run",
    "agent": "Storage agent",
    "worker": "Analytics worker",
    "enabler": "Analytics enabler",
    "monitor": "Monitoring agent",
    "supervise": "mistbow supervise",
    "setup": "Ignite",
    "restore": "Ignite",
    "storage": "mistbow storage",
    "storage accept-loss": "Ignite",
}
"""A command with an option for each of its settings -> the section of these settings."""

_TARGETS = {"MISTBOW_AGENT_URL": "storage agent", "MISTBOW_ENABLER_URL": "enabler"}
"""The variable of an option with an address -> the service at this address."""

_OF_SETTING = re.compile(r"\[dim\]\\?\[MISTBOW_")
"""A pattern of the help of an option for a setting."""

_NO_LIMIT = 10**9
"""The upper bound from which on a setting is shown as unlimited."""


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text)


def pages() -> dict[str, str]:
    """Return the name and the text of each page."""
    made = {"settings.md": _settings(), "metrics.md": _metrics(), "commands.md": _commands()}
    return {name: _page(DOCS / name, lines) for name, lines in made.items()}


def _page(file: Path, lines: Iterator[str]) -> str:
    written, mark, _ = file.read_text().partition(MARK)
    if not mark:
        raise ValueError(f"{file.name} lacks the line {MARK}")
    return "\n".join([f"{written}{MARK}", "", *lines]).rstrip() + "\n"


def _table(*columns: str, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        cells = [cell.replace("|", r"\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
    yield ""


# Settings


def _settings() -> Iterator[str]:
    for section, (settings, *others) in _SETTINGS.items():
        known = {(n, _meaning(f), _default(f)) for o in others for n, f in o.model_fields.items()}
        fields = {
            name: field
            for name, field in settings.model_fields.items()
            if (name, _meaning(field), _default(field)) not in known
        }
        yield from (f"## {section}", "")
        yield from _table(
            "setting", "default", "values", "meaning", rows=map(_setting_row, fields.items())
        )


def _setting_row(named: tuple[str, FieldInfo]) -> tuple[str, ...]:
    name, field = named
    return f"`MISTBOW_{name.upper()}`", _default(field), _values(field), _meaning(field)


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "the host name"
    default = field.default
    if default in (None, ""):
        return "none" if default == "" or type(None) in get_args(field.annotation) else "computed"
    return f"`{_plain(default)}`"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _values(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    if field.annotation is bool:
        return "`true`, `false`"
    bounds: dict[str, float] = {
        name: getattr(each, name)
        for each in _constraints(field)
        for name in ("gt", "ge", "le")
        if hasattr(each, name)
    }
    upper = f" to {_number(bounds['le'])}" if bounds.get("le", _NO_LIMIT) < _NO_LIMIT else ""
    if "gt" in bounds:
        return f"above {_number(bounds['gt'])}{upper}"
    if "ge" in bounds:
        return f"{_number(bounds['ge'])}{upper}" if upper else f"from {_number(bounds['ge'])}"
    return ""


def _constraints(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    for part in get_args(field.annotation):
        for each in getattr(part, "__metadata__", ()):
            yield from each.metadata if isinstance(each, FieldInfo) else (each,)


def _number(value: float) -> str:
    return f"{value:,.15g}"


def _meaning(field: FieldInfo) -> str:
    return _escaped(field.description or "")


def _escaped(text: str) -> str:
    return text.replace("*", r"\*").replace("<", r"\<")


# Metrics


class _NoDemands:
    """The demand estimates of an enabler without fragments."""

    median_errors: Mapping[str, float] = {}

    def fragments(self) -> tuple[()]:
        return ()


_ARGUMENTS: Mapping[str, object] = {
    "DemandCollector": _NoDemands(),
    "FogCollector": lambda: Fog(()),
    "FragmentCollector": lambda: (),
}
"""Class of a collector -> the argument with which it yields its metrics, without values."""


def _metrics() -> Iterator[str]:
    for package, section in _SERVICES.items():
        yield from (f"## {section}", "")
        yield from _table("metric", "type", "labels", "meaning", rows=_metric_rows(package))


def _metric_rows(package: str) -> Iterator[tuple[str, ...]]:
    root = DOCS.parent
    for file in sorted((root / package).rglob("*.py")):
        if "prometheus_client" not in file.read_text():
            continue
        module = import_module(".".join(file.relative_to(root).with_suffix("").parts))
        for each in vars(module).values():
            if isinstance(each, MetricWrapperBase):
                yield from _rows_of(each)
            elif getattr(each, "__module__", "") == module.__name__ and Collector in _bases(each):
                yield from _rows_of(each(_ARGUMENTS[each.__name__]))


def _bases(kind: object) -> tuple[type, ...]:
    return kind.__mro__ if isinstance(kind, type) else ()


def _rows_of(collector: Any) -> Iterator[tuple[str, ...]]:
    for family in collector.collect():
        labels: Any = getattr(collector, "_labelnames", None) or getattr(family, "_labelnames", ())
        name = f"{family.name}_total" if family.type == "counter" else family.name
        listed = ", ".join(f"`{label}`" for label in labels)
        yield f"`{name}`", family.type, listed, _escaped(family.documentation)


# Commands


def _commands() -> Iterator[str]:
    root = typer.main.get_command(app)
    found = dict(_leaves(root, ""))
    yield from _table(
        "command", "sends requests to", "meaning", rows=map(_command_row, found.items())
    )
    for path, command in found.items():
        yield from _command(path, command)


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and the object of each command; a group that does something is one too."""
    if path and (not hasattr(command, "commands") or command.invoke_without_command):
        yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _leaves(each, f"{path} {name}".strip())


def _command_row(named: tuple[str, Any]) -> tuple[str, ...]:
    path, command = named
    targets = [_TARGETS[p.envvar] for p in command.params if p.envvar in _TARGETS]
    summary = _help(command).partition("\n\n")[0]
    link = f"[`mistbow {path}`](#mistbow-{path.replace(' ', '-')})"
    return link, " and ".join(targets), _escaped(summary)


def _help(command: Any) -> str:
    paragraphs = (command.help or "").strip().split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _command(path: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    own = [p for p in options if not _OF_SETTING.search(p.help or "")]
    words = " ".join(
        ["mistbow", path, *map(_usage, arguments), *(["[OPTIONS]"] if options else [])]
    )
    yield from (f"## mistbow {path}", "", f"`{words}`", "", _escaped(_help(command)), "")
    if len(own) < len(options):
        section = _SECTIONS[path]
        anchor = section.lower().replace(" ", "-")
        link = f"[settings of {section}](settings.md#{anchor})"
        yield f"The command has an option for each of the {link}, such as `{options[-1].opts[0]}`."
        yield ""
    if arguments or own:
        yield from _table(
            "argument or option", "default", "meaning", rows=map(_option_row, arguments + own)
        )


def _usage(argument: Any) -> str:
    name: str = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _option_row(option: Any) -> tuple[str, ...]:
    if option.param_type_name == "argument":
        return f"`{_usage(option)}`", "", _escaped(option.help or "")
    names = ", ".join(f"`{name}`" for name in option.opts)
    variable = f" Also set by `{option.envvar}`." if option.envvar else ""
    default = option.default
    if option.required:
        shown = "required"
    elif default in (None, "", False, PydanticUndefined):
        shown = ""
    else:
        shown = f"`{_plain(default)}`"
    return names, shown, _escaped(option.help or "") + variable


if __name__ == "__main__":
    main()
