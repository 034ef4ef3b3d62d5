"""The parser: parses a text into a syntax tree."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import Any

from grammar.ast import Script, Span, Statement, SyntaxNode
from grammar.build import StatementBuilder
from grammar.diagnostics import Diagnostic, ParseError, diagnostic_at
from grammar.format import format_statement
from grammar.functions import OPERATORS
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.keywords import classify_keywords
from grammar.mismatch import ARITHMETIC, CLAUSES, COMPARATORS, Mismatch
from grammar.recognizer import Recognizer
from grammar.recovery import recover
from grammar.scanner import LexicalToken, scan
from grammar.syntax_errors import diagnose, diagnose_token
from grammar.trees import children

MAX_BYTES = 1_000_000
MAX_STATEMENTS = 10_000
MAX_DEPTH = 100
MAX_PROBLEMS = 100

_OPERATORS = ARITHMETIC | COMPARATORS | {Tree.NOT, Tree.IN}
_LEVELLING = CLAUSES | {Tree.COMMA, Tree.AND, Tree.OR}
_ENDING = frozenset("~|")
"""Invalid signs after which a statement is in another language."""

_DEEPENING = frozenset({*OPERATORS, "ALLOW"})


Names = Callable[[], Collection[str]]


def parse(text: str) -> Script:
    """Return the syntax tree of a text.

    Raises only ParseError, with the diagnostics of all statements; parsing stops after MAX_PROBLEMS
    diagnostics.
    """
    problems: list[Diagnostic] = []
    broken: list[list[LexicalToken]] = []
    statements = tuple(_statements(text, problems, broken))
    if problems:
        given_up = len(problems) >= MAX_PROBLEMS or len(statements) + len(broken) > MAX_STATEMENTS
        rest = None if given_up else recover(statements, broken)
        raise ParseError(tuple(problems[:MAX_PROBLEMS]), rest)
    return Script(statements, span=Span(1, 1, 0, len(text)))


def _statements(
    text: str, problems: list[Diagnostic], broken: list[list[LexicalToken]]
) -> Iterator[Statement]:
    """Yield the valid statements of a text.

    Append the tokens of each invalid statement to ``broken``, and the diagnostics to ``problems``.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        problems.append(Diagnostic(1, 1, 0, f"the text is longer than {MAX_BYTES:,} bytes"))
        return
    recognizer = Recognizer()
    # Few texts need the names: they are looked up at the first call that may lack a unit.
    defined = lru_cache(maxsize=1)(lambda: frozenset(_defined_functions(text)))
    faulty = lru_cache(maxsize=1)(lambda: frozenset(_functions_without_parameters(text)))
    count = 0
    for count, tokens in enumerate(_cut(scan(text)), start=1):
        if count > MAX_STATEMENTS:
            message = f"there are more than {MAX_STATEMENTS:,} statements"
            problems.append(diagnostic_at(tokens[0].span, message, "Submit them in several texts."))
            broken.append(tokens)
        if len(problems) >= MAX_PROBLEMS or count > MAX_STATEMENTS:
            return
        known = len(problems)
        statement = _statement(tokens, recognizer, problems, defined, faulty)
        if statement is None or len(problems) > known:
            broken.append(tokens)
        else:
            yield statement
    if count == 0:
        hint = "Write, for example, `load = COMPUTE AVG(cpu.util, 10 SECONDS) EVERY 5 SECONDS`."
        problems.append(Diagnostic(1, 1, 0, "there is no insight in this text", hint))


def _defined_functions(text: str) -> Iterator[str]:
    """Yield each name that follows the word FUNCTION, including names in invalid statements."""
    for word, name in pairwise(scan(text)):
        if word.text.upper() == "FUNCTION":
            yield name.text.upper()


def _functions_without_parameters(text: str) -> Iterator[str]:
    """Yield the name of each function that is defined without a parameter, which is an error."""
    tokens = [*scan(text)]
    for word, name, opening, closing in zip(
        tokens, tokens[1:], tokens[2:], tokens[3:], strict=False
    ):
        if word.text.upper() == "FUNCTION" and (opening.text, closing.text) == ("(", ")"):
            yield name.text.upper()


def _is_call_of(mismatch: Mismatch, names: Names) -> bool:
    """Return whether a statement has an empty call, such as ``f()``, of one of some functions."""
    if mismatch.found.type != Tree.RPAR or mismatch.kind(-1) != Tree.LPAR or mismatch.index < 3:
        return False
    return mismatch.tokens[mismatch.index - 2].text.upper() in names()


def _cut(tokens: Iterable[LexicalToken]) -> Iterator[list[LexicalToken]]:
    """Yield the tokens of each statement, with an EOF token at the end; skip empty statements.

    A `;` in parentheses and before a number separates arguments, and ends no statement.
    """
    statement: list[LexicalToken] = []
    depth = 0
    for token, following in pairwise(chain(tokens, (None,))):
        assert token is not None  # noqa: S101
        if token.type == Tree.UNCLOSED_COMMENT:  # the rest of the text is a comment
            yield [*statement, token, _end(token)]
            return
        depth += (token.type == Tree.LPAR) - (token.type == Tree.RPAR)
        inside = depth > 0 and following is not None and following.type == Tree.NUMBER
        if token.type != Tree.SEMICOLON or inside:
            statement.append(token)
        elif statement:
            yield [*statement, LexicalToken(Tree.EOF, ";", token.offset, token.line, token.column)]
            statement, depth = [], 0
    if statement:
        yield [*statement, _end(statement[-1])]


def _end(last: LexicalToken) -> LexicalToken:
    length = len(last.text)
    return LexicalToken(Tree.EOF, "", last.offset + length, last.line, last.column + length)


def _statement(
    tokens: list[LexicalToken],
    recognizer: Recognizer,
    problems: list[Diagnostic],
    defined: Names,
    faulty: Names,
) -> Statement | None:
    """Return a valid statement, or None.

    ``faulty``: the functions whose definitions are reported, so that their calls are not.
    """
    unreadable = list(islice(_unreadable(tokens), MAX_PROBLEMS))
    if unreadable:
        problems.extend(unreadable)
        return None
    deep = _first_too_deep(tokens)
    if deep is not None:
        problems.append(_too_deep(deep.span))
        return None
    try:
        tree = recognizer.recognize(classify_keywords(tokens))
        if not isinstance(tree, Mismatch):
            return _built(tree, tokens, problems, defined)
        is_definition = tokens[0].text.upper() == "FUNCTION"
        if is_definition or not _is_call_of(tree, faulty):
            problems.append(diagnose(tree))
    except RecursionError:  # the caller's own stack was nearly full
        problems.append(_too_deep(tokens[0].span))
    return None


def _built(
    tree: Any, tokens: list[LexicalToken], problems: list[Diagnostic], defined: Names
) -> Statement | None:
    known = len(problems)
    statement = StatementBuilder(problems, defined).statement(tree)
    if (deep := _first_too_deep_in(statement)) is not None:
        problems.append(_too_deep(deep.span))
        return None
    # The canonical text of some statements is deeper, and must parse too.
    deeper = next((token for token in tokens if _deepens(token)), None)
    if deeper is not None and len(problems) == known:
        canonical = [*scan(format_statement(statement))]
        if _first_too_deep(canonical) is not None:
            problems.append(_too_deep(deeper.span))
            return None
    return statement


def _deepens(token: LexicalToken) -> bool:
    return token.type == Tree.KEYED or token.text.upper() in _DEEPENING


def _unreadable(tokens: list[LexicalToken]) -> Iterator[Diagnostic]:
    end, seen = -1, set()
    for token, following in pairwise([*tokens, tokens[-1]]):
        problem = diagnose_token(token, following)
        # One diagnostic for adjacent invalid tokens, and for the same sign again.
        if problem is not None and token.offset != end and token.text not in seen:
            yield problem
            if token.text in _ENDING:
                return
        if problem is not None:
            seen.add(token.text)
        end = -1 if problem is None else token.offset + len(token.text)


def _first_too_deep(tokens: list[LexicalToken]) -> LexicalToken | None:
    """Return the first token that is nested more than MAX_DEPTH levels deep; otherwise None.

    The levels of a token are the open parentheses around the token, and the operators before the
    token in each open group. Limiting the levels limits the recursion of the parser. Operators
    after a group also deepen the tree, but this function does not count them.
    """
    groups, depth = [0], 0
    for token in tokens:
        if token.type == Tree.LPAR:
            groups.append(0)
            depth += 1
        elif token.type == Tree.RPAR and len(groups) > 1:
            depth -= 1 + groups.pop()
        elif token.type in _LEVELLING:
            depth -= groups[-1]
            groups[-1] = 0
        elif token.type in _OPERATORS:
            groups[-1] += 1
            depth += 1
        if depth > MAX_DEPTH:
            return token
    return None


def _first_too_deep_in(statement: Statement) -> SyntaxNode | None:
    """Return the first node with more than MAX_DEPTH nodes between the statement and the node.

    Return None if the statement has no such node. Functions over trees recurse with up to six
    frames per level; Python allows 1,000 frames.
    """
    waiting: list[tuple[SyntaxNode, int]] = [(statement, 0)]
    while waiting:
        node, above = waiting.pop()
        if above > MAX_DEPTH + 1:
            return node
        waiting.extend((part, above + 1) for part in reversed(children(node)))
    return None


def _too_deep(span: Span) -> Diagnostic:
    message = f"this is nested more than {MAX_DEPTH} levels deep"
    hint = "Each parenthesis and each chained operator is a level: divide it into several insights."
    return diagnostic_at(span, message, hint)
