"""The options of WITH by which insights are placed, and their results read."""

from collections.abc import Iterator
from typing import TypeVar

from analytics_enabler.semantics.definition import Options
from analytics_enabler.semantics.findings import Findings, did_you_mean, nearest
from grammar import ast
from mistbow.errors import InvalidRequestError
from mistbow.fog.constraints import Cap, Confinement
from mistbow.fog.jobs import Setting
from mistbow.plan.attributes import canonical
from mistbow.plan.fragments import MOST_SALIENCE
from mistbow.schedulers.registry import names
from mistbow.schedulers.settings import Declared, declared
from mistbow.streams.signatures import SIGNATURE_FORM, is_signature

O = TypeVar("O", bound=ast.Option)  # noqa: E741 - as N is of nodes

_ONCE: tuple[tuple[type[ast.Option], str, str], ...] = (
    (ast.Scheduler, "SCHEDULER", "Name one scheduler."),
    (ast.PlacementOn, "PLACEMENT_ON", "Give the nodes that are meant a label of their own."),
    (ast.CostCap, "COST_CAP", "Keep the lower one."),
    (ast.Allow, "ALLOW", "Join the conditions: `ALLOW WHEN (a AND b)`."),
    (ast.Signature, "SIGNATURE", "Keep one; a token may carry several."),
    (ast.Salience, "SALIENCE", "Keep the higher one."),
)


def scheduler_of(insight: ast.Insight, findings: Findings) -> str | None:
    """Return the scheduler that an insight names, if any."""
    named = _first(insight, ast.Scheduler)
    if named is None:
        return None
    # Looked up each time: a package that is installed now counts from now on.
    installed = names()
    if named.name not in installed:
        near = nearest(named.name, installed)
        findings.error(
            named.span,
            f"there is no scheduler `{named.name}`",
            did_you_mean(near) if near else f"There are {', '.join(installed)}.",
        )
    return named.name


def options_of(insight: ast.Insight, findings: Findings) -> Options:
    """Return what an insight's WITH says; where ``findings`` gained an error, without that."""
    for kind, word, hint in _ONCE:
        for other in [option for option in insight.options if isinstance(option, kind)][1:]:
            findings.error(other.span, f"{word} is given twice", hint)
    cap = _first(insight, ast.CostCap)
    return Options(
        settings=_settings(insight, findings),
        confined=_confinement(insight),
        cap=None if cap is None else Cap(amount=cap.amount, per_ms=cap.per.millis),
        signature=_signature(insight, findings),
        salience=_salience(insight, findings),
    )


def is_signed(insight: ast.Insight, signature: str) -> bool:
    """Tell whether an insight has this signature."""
    return ast.Signature(signature) in insight.options


def _first(insight: ast.Insight, kind: type[O]) -> O | None:
    return next((option for option in insight.options if isinstance(option, kind)), None)


def _confinement(insight: ast.Insight) -> Confinement | None:
    option = _first(insight, ast.PlacementOn)
    if option is None:
        return None
    return Confinement(
        # Of an attribute's other names, a node has but one as a label of its own.
        label="node" if canonical(option.key) == "node" else option.key,
        value=_label(option.value),
        count=option.count,
        dedicated=option.dedicated,
    )


def _label(value: ast.Value) -> str:
    """Return a value as labels have it, which are texts."""
    match value:
        case ast.Boolean(truth):
            return "true" if truth else "false"
        case ast.Number(number):
            return f"{number:.15g}"
        case ast.Text(text):
            return text


def _signature(insight: ast.Insight, findings: Findings) -> str | None:
    option = _first(insight, ast.Signature)
    if option is None or is_signature(option.name):
        return None if option is None else option.name
    findings.error(
        option.span,
        f"`{option.name}` is no signature",
        f"{SIGNATURE_FORM[0].upper()}{SIGNATURE_FORM[1:]}, as in `SIGNATURE 'board'`.",
    )
    return None


def _salience(insight: ast.Insight, findings: Findings) -> int:
    option = _first(insight, ast.Salience)
    if option is None or option.level <= MOST_SALIENCE:
        return 0 if option is None else option.level
    findings.error(
        option.span,
        f"a SALIENCE of {option.level:,} is too high",
        f"It goes from 0, which is meant where nothing is said, to {MOST_SALIENCE}.",
    )
    return 0


def _settings(insight: ast.Insight, findings: Findings) -> tuple[tuple[str, Setting], ...]:
    option = _first(insight, ast.Scheduler)
    if option is None or not option.settings or option.name not in names():
        return ()
    try:
        known = declared(option.name)
    except InvalidRequestError as error:
        findings.error(option.span, error.message, "Leave its settings out for now.")
        return ()
    settings = dict(_known(option, known, findings))
    return tuple(sorted(settings.items()))


def _known(
    option: ast.Scheduler, known: Declared, findings: Findings
) -> Iterator[tuple[str, Setting]]:
    seen: set[str] = set()
    for setting in option.settings:
        value = _value(setting)
        if setting.key in seen:
            findings.error(setting.span, f"`{setting.key}` is given twice", "Keep one.")
        elif setting.key not in known.schemas:
            near = nearest(setting.key, known.schemas)
            takes = ", ".join(known.schemas)
            findings.error(
                setting.span,
                f"the scheduler `{option.name}` has no setting `{setting.key}`",
                did_you_mean(near) if near else f"It takes {takes or 'none'}.",
            )
        elif problem := known.problem(setting.key, value):
            findings.error(
                setting.span,
                f"the setting `{setting.key}` of `{option.name}`: {problem}",
                known.describe(setting.key),
            )
        else:
            yield setting.key, value
        seen.add(setting.key)


def _value(setting: ast.Setting) -> Setting:
    values = tuple(each.value for each in setting.values)
    return values[0] if len(values) == 1 else values
