"""The completion of a text of insights at a caret.

The words before the caret in its statement determine what may follow; the text may be incomplete.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from analytics.editor_models import Completion, Completions, ItemKind
from analytics.plan.attributes import canonical
from analytics.plan.functions import BUILT_IN, FUNCTIONS
from analytics_enabler.semantics.diagnostics import nearest
from grammar.functions import ALIASES
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.keywords import OPTIONS
from grammar.scanner import LexicalToken, comments, scan
from grammar.units import MILLIS

MAX_ITEMS = 50

_CLAUSES = ("BY", "WHEN", "EVERY", "WITH")
_COMPARATORS = frozenset(
    {Tree.GT, Tree.GE, Tree.LT, Tree.LE, Tree.EQ, Tree.NE, Tree.PLUS, Tree.MINUS, Tree.STAR,
     Tree.SLASH, Tree.NOT, Tree.COMPUTE}
)  # fmt: skip
_EQUALS = frozenset({Tree.EQ, Tree.NE})
_OPTION_TEXTS = {
    "SALIENCE": ("SALIENCE 5", "importance under overload"),
    "SAMPLE": ("SAMPLE 0.1", "compute from a sample of the points"),
    "MAX_ERROR": ("MAX_ERROR 0.05", "sample as much as this error permits"),
    "CONFIDENCE": ("CONFIDENCE 0.95", "of the bounds of samples"),
    "ADAM": ("ADAM", "adaptive sampling at the source"),
    "SCHEDULER": ("SCHEDULER = ", "how the insight is placed"),
    "COST_CAP": ("COST_CAP 1 PER 1 HOUR", "the maximum cost"),
    "PLACEMENT_ON": ("PLACEMENT_ON ", "the nodes that may run it"),
    "SIGNATURE": ("SIGNATURE '", "who may read the results"),
    "ALGORITHM": ("ALGORITHM pmcod", "how outliers are found"),
    "ALLOW": ("ALLOW WHEN ", ""),
    "AWARENESS": ("AWARENESS ON ", ""),
    "K": ("K = 50", "neighbours of an outlier"),
    "R": ("R = 0.5", "distance to a neighbour"),
}
_DETAILS = {
    "AVG": "mean of the values", "SUM": "sum of the values", "COUNT": "number of values",
    "MIN": "least value", "MAX": "greatest value", "MEDIAN": "middle value",
    "MODE": "most frequent value", "SDEV": "standard deviation", "VARIANCE": "variance",
    "GEOMETRIC_MEAN": "geometric mean", "PERCENTILE": "value below which p percent lie",
    "CORRELATION": "Pearson's correlation of two metrics", "FORECAST": "forecast for h intervals",
    "RATE": "increase per second of a counter", "TOP_K": "the k greatest values",
    "HISTOGRAM": "number of values in n bins", "OUTLIER_DETECTION": "values far from others",
    "RUNNING_MEAN": "mean since the start", "RUNNING_MAX": "greatest value since the start",
    "RUNNING_MIN": "least value since the start", "RUNNING_COUNT": "number since the start",
    "RUNNING_SDEV": "standard deviation since the start", "DIFF": "difference of two values",
    "EWMA": "exponentially weighted mean", "PEWMA": "probabilistic weighted mean",
    "GEOHASH": "cell of a position",
}  # fmt: skip

_EXAMPLES: dict[str, float] = {
    name: function.parameter.example
    for name, function in FUNCTIONS.items()
    if function.parameter is not None
}
_PARAMETERS = _EXAMPLES | {"PERCENTILE": 95.0}
"""Function -> its most frequent parameter, or the example of its definition."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a text may use; ``attributes``: attribute -> the values seen."""

    metrics: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Collection[str]] = field(default_factory=dict)
    entities: Collection[str] = ()
    sites: Collection[str] = ()
    insights: Collection[str] = ()
    schedulers: Collection[str] = ()
    operators: Collection[str] = ()


def complete(text: str, line: int, column: int, vocabulary: Vocabulary) -> Completions:
    """Return the completions before a column of a line (both from 1) of a text."""
    offset = _offset(text, line, column)
    before, word = _before(text, offset)
    start = offset - len(word)
    is_comment = _is_in_comment(text[:offset])
    items = [] if is_comment else [*_ranked(word, _candidates(before, word, vocabulary))]
    if not word and text[:offset][-1:].isalnum():
        # A number that ends at the caret is separated from what follows.
        items = [each.model_copy(update={"insert": f" {each.insert}"}) for each in items]
    shown_line = text.count("\n", 0, start) + 1
    return Completions(
        line=shown_line,
        column=start - (text.rfind("\n", 0, start) + 1) + 1,
        length=len(word),
        items=items[:MAX_ITEMS],
        truncated=len(items) > MAX_ITEMS,
    )


def _offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        end = text.find("\n", start)
        if end < 0:
            return len(text)
        start = end + 1
    end = text.find("\n", start)
    return min(start + column - 1, len(text) if end < 0 else end)


def _is_in_comment(before: str) -> bool:
    """Return whether a caret after a text is in a comment: then ``*/`` would belong to it."""
    return any(end > len(before) for _, end in comments(f"{before}*/"))


def _before(text: str, offset: int) -> tuple[list[LexicalToken], str]:
    """Return (the tokens of the statement before the caret, the word that ends at the caret)."""
    tokens: list[LexicalToken] = []
    for token in scan(text[:offset]):
        if token.type == Tree.SEMICOLON:
            tokens = []
        else:
            tokens.append(token)
    last = tokens[-1] if tokens else None
    is_word = last is not None and last.offset + len(last.text) == offset and _is_word(last)
    if last is None or not is_word:
        return tokens, ""
    return tokens[:-1], last.text


def _is_word(token: LexicalToken) -> bool:
    return token.text[0].isalpha() or token.text[0] in "_\"'"


def _candidates(
    tokens: list[LexicalToken], word: str, vocabulary: Vocabulary
) -> Iterator[Completion]:
    if len(tokens) == 1 and tokens[0].type == Tree.ID:
        yield _item("= COMPUTE ", "snippet", "an insight", label="= COMPUTE")
        yield _item(": STREAM FROM ", "snippet", "a stream of another source")
        return
    if not tokens:
        yield _item("name = COMPUTE ", "snippet", "a new insight", label="name = COMPUTE …")
        yield _item("FUNCTION ", "keyword", "a user-defined function")
        return
    last = tokens[-1]
    if last.type == Tree.ASSIGN and len(tokens) == 2:
        yield _item("COMPUTE ", "keyword", "")
        return
    call = _open_call(tokens)
    clause = _clause(tokens)
    if last.type == Tree.NUMBER and _is_duration(tokens, call):
        yield from _units(with_points=tokens[-2].type == Tree.EVERY)
    elif last.text.upper() == "INSIGHT" and call is None:
        yield from _of_kind(vocabulary.insights, "insight")
    elif (named := _compared_attribute(tokens)) is not None:
        yield from _values(named, word, vocabulary)
    elif call is not None and _is_from(tokens, call):
        yield from _quoted(vocabulary.entities, "entity", word)
    elif clause == "WITH" and call is None:
        yield from _options(tokens, vocabulary)
    elif clause == "BY" and last.type in (Tree.BY, Tree.COMMA):
        yield from _attributes(vocabulary)
    elif last.type in _COMPARATORS or last.type in (Tree.WHEN, Tree.AND, Tree.OR, Tree.LPAR):
        yield from _terms(tokens, call, clause, vocabulary)
    elif last.type == Tree.COMMA and call is not None:
        yield from _of_kind(("10 SECONDS", "1 MINUTE", "10 MINUTES", "1 HOUR"), "snippet")
        yield from _metrics(vocabulary)
    elif last.type == Tree.EVERY:
        yield from _of_kind(("5 SECONDS", "10 SECONDS", "1 MINUTE"), "snippet")
    elif call is not None:
        yield from _of_kind(("WHEN ", "FROM (", "BY "), "keyword")
    else:
        used = {token.text.upper() for token in tokens}
        following = _CLAUSES[_CLAUSES.index(clause) + 1 :] if clause in _CLAUSES else _CLAUSES
        if clause == "WHEN":
            yield from _of_kind(("AND ", "OR ", "IN ("), "keyword")
        yield from (_item(f"{each} ", "keyword", "") for each in following if each not in used)


def _terms(
    tokens: list[LexicalToken], call: int | None, clause: str | None, vocabulary: Vocabulary
) -> Iterator[Completion]:
    """Yield the possible beginnings of a value or a condition."""
    is_argument = call is not None and tokens[-1].type == Tree.LPAR and call > 0
    if is_argument and tokens[-2].type in (Tree.ID, Tree.RBRACKET):
        yield from _metrics(vocabulary)
        yield from _functions(vocabulary)
        return
    if tokens[-1].type in (Tree.WHEN, Tree.AND, Tree.OR, Tree.NOT):
        yield from _attributes(vocabulary)
    yield from _functions(vocabulary)
    yield from _metrics(vocabulary)
    if vocabulary.insights and call is None and clause is None:
        yield _item("INSIGHT ", "keyword", "the results of another insight")


def _options(tokens: list[LexicalToken], vocabulary: Vocabulary) -> Iterator[Completion]:
    words = [token.text.upper() for token in tokens]
    if words[-1] in ("WITH", "AND"):
        for name in OPTIONS:
            if name not in words:
                insert, detail = _OPTION_TEXTS.get(name, (f"{name} ", ""))
                yield _item(insert, "option", detail, label=name)
    elif words[-2:] == ["SCHEDULER", "="]:
        yield from _of_kind(vocabulary.schedulers, "scheduler")
    elif words[-1] == "SCHEDULER":
        yield _item("= ", "keyword", "")
    elif words[-1] == "PLACEMENT_ON":
        yield from _attributes(vocabulary)
    else:
        yield _item("AND ", "keyword", "a further option")


def _open_call(tokens: list[LexicalToken]) -> int | None:
    """Return the index of the innermost parenthesis that is open; None: none is open."""
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.type == Tree.LPAR:
            opened.append(index)
        elif token.type == Tree.RPAR and opened:
            opened.pop()
    return opened[-1] if opened else None


def _clause(tokens: list[LexicalToken]) -> str | None:
    """Return the clause at the end of the tokens, outside of parentheses that are closed."""
    found: dict[int, str | None] = {0: None}
    depth = 0
    for token in tokens:
        if token.type == Tree.LPAR:
            depth += 1
            found[depth] = None
        elif token.type == Tree.RPAR:
            depth = max(0, depth - 1)
        elif token.text.upper() in _CLAUSES:
            found[depth] = token.text.upper()
    return found.get(depth)


def _compared_attribute(tokens: list[LexicalToken]) -> str | None:
    """Return the attribute whose value may follow; None: no attribute is compared."""
    last = tokens[-1]
    if last.type in _EQUALS and len(tokens) > 1 and tokens[-2].type == Tree.ID:
        return tokens[-2].text
    call = _open_call(tokens)
    if call is None or call < 2 or tokens[call - 1].type != Tree.IN:
        return None
    if last.type not in (Tree.LPAR, Tree.COMMA):
        return None
    named = tokens[call - 3] if tokens[call - 2].type == Tree.NOT and call > 2 else tokens[call - 2]
    return named.text if named.type == Tree.ID else None


def _is_from(tokens: list[LexicalToken], call: int) -> bool:
    return tokens[call - 1].type == Tree.FROM and tokens[-1].type in (Tree.LPAR, Tree.COMMA)


def _values(attribute: str, word: str, vocabulary: Vocabulary) -> Iterator[Completion]:
    name = canonical(attribute)
    if name == "site":
        yield from _quoted(vocabulary.sites, "site", word)
        return
    values = vocabulary.attributes.get(name, ())
    yield from _quoted(values or (vocabulary.entities if name == "entityID" else ()), "value", word)


def _functions(vocabulary: Vocabulary) -> Iterator[Completion]:
    for name in sorted(BUILT_IN):
        bracket = f"[{_PARAMETERS[name]:g}]" if name in _PARAMETERS else ""
        yield _item(f"{name}{bracket}(", "function", _DETAILS.get(name, ""), label=name)
    for alias in sorted(ALIASES):
        yield _item(f"{alias}(", "function", f"the same as {ALIASES[alias]}", label=alias)
    for name in sorted(vocabulary.operators):
        yield _item(f"{name}(", "function", "an operator of another package", label=name)


def _metrics(vocabulary: Vocabulary) -> Iterator[Completion]:
    for name, detail in sorted(vocabulary.metrics.items()):
        yield _item(_name(name), "metric", detail, label=name)


def _attributes(vocabulary: Vocabulary) -> Iterator[Completion]:
    names = {"node", "site", "entityID", *vocabulary.attributes}
    for name in sorted(names):
        yield _item(_name(name), "attribute", "", label=name)


def _is_duration(tokens: list[LexicalToken], call: int | None) -> bool:
    """Return whether the number at the end needs a unit: an interval, a window or an offset."""
    if len(tokens) < 2:
        return False
    before = tokens[-2]
    is_argument = before.type == Tree.COMMA and call is not None
    return is_argument or before.text.upper() in ("EVERY", "PER")


def _units(*, with_points: bool) -> Iterator[Completion]:
    # Seconds first: they are the most frequent.
    names = sorted(MILLIS, key=lambda name: name != "SECONDS")
    yield from (_item(name, "unit", "") for name in names)
    if with_points:
        yield _item("POINTS", "unit", "")


def _of_kind(names: Iterable[str], kind: ItemKind) -> Iterator[Completion]:
    yield from (_item(name, kind, "") for name in names)


def _quoted(names: Iterable[str], kind: ItemKind, word: str) -> Iterator[Completion]:
    quote = word[0] if word[:1] in ("'", '"') else '"'
    for name in sorted(names):
        escaped = name.replace("\\", "\\\\").replace(quote, f"\\{quote}")
        if name.isprintable():
            yield _item(f"{quote}{escaped}{quote}", kind, "", label=name)


def _name(name: str) -> str:
    """Return a name in the form for a text: quoted if necessary."""
    plain = name.replace(".", "_").replace("_", "a")
    is_plain = plain.isascii() and plain.isalnum() and not name[0].isdigit()
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return name if is_plain and ".." not in name and name[-1] != "." else f'"{escaped}"'


def _item(insert: str, kind: ItemKind, detail: str, *, label: str | None = None) -> Completion:
    return Completion(
        label=insert.strip() if label is None else label, kind=kind, insert=insert, detail=detail
    )


def _ranked(word: str, candidates: Iterable[Completion]) -> list[Completion]:
    """Return the candidates that match a word: first those with this prefix, then the others.

    If none does, the candidates with the most similar labels are returned.
    """
    items = list({(each.label, each.insert): each for each in candidates}.values())
    plain = word.strip("\"'").lower()
    first = [each for each in items if each.label.lower().startswith(plain)]
    rest = [each for each in items if plain in each.label.lower() and each not in first]
    if first or rest or not plain:
        return [*first, *rest]
    similar = nearest(word, [each.label for each in items])
    return [each for each in items if each.label in similar]
