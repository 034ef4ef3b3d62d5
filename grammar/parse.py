"""From text to the abstract syntax tree."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

from grammar.ast import Node, Script, Span, Statement
from grammar.build import Builder
from grammar.diagnosis import diagnose, diagnose_token
from grammar.failure import ARITHMETIC, CLAUSES, COMPARATORS, Failure
from grammar.format import format_statement
from grammar.functions import OPERATORS
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.problems import ParseError, Problem, problem_at
from grammar.recognizer import Recognizer
from grammar.rest import rest_of
from grammar.scanner import Token, scan
from grammar.words import tell_keywords

MAX_BYTES = 1_000_000
MAX_STATEMENTS = 10_000
MAX_DEPTH = 100
MAX_PROBLEMS = 100

_OPERATORS = ARITHMETIC | COMPARATORS | {Tree.NOT, Tree.IN}
_LEVELLING = CLAUSES | {Tree.COMMA, Tree.AND, Tree.OR}
_DEEPENING = frozenset({*OPERATORS, "ALLOW"})


def parse(text: str) -> Script:
    """Return the statements of ``text``.

    Raises ParseError, and nothing else, with the problems of all statements; it gives up after
    MAX_PROBLEMS of them.
    """
    problems: list[Problem] = []
    broken: list[list[Token]] = []
    statements = tuple(_statements(text, problems, broken))
    if problems:
        given_up = len(problems) >= MAX_PROBLEMS or len(statements) + len(broken) > MAX_STATEMENTS
        rest = None if given_up else rest_of(statements, broken)
        raise ParseError(tuple(problems[:MAX_PROBLEMS]), rest)
    return Script(statements, span=Span(1, 1, 0, len(text)))


def _statements(
    text: str, problems: list[Problem], broken: list[list[Token]]
) -> Iterator[Statement]:
    """Yield the sound statements of a text, and append the others and what is wrong with them."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        problems.append(Problem(1, 1, 0, f"the text is longer than {MAX_BYTES:,} bytes"))
        return
    recognizer = Recognizer()
    count = 0
    for count, tokens in enumerate(_cut(scan(text)), start=1):
        if count > MAX_STATEMENTS:
            message = f"there are more than {MAX_STATEMENTS:,} statements"
            problems.append(problem_at(tokens[0].span, message, "Submit them in several texts."))
            broken.append(tokens)
        if len(problems) >= MAX_PROBLEMS or count > MAX_STATEMENTS:
            return
        known = len(problems)
        statement = _statement(tokens, recognizer, problems)
        if statement is None or len(problems) > known:
            broken.append(tokens)
        else:
            yield statement
    if count == 0:
        hint = "Write, for example, `load = COMPUTE AVG(cpu.util, 10 SECONDS) EVERY 5 SECONDS`."
        problems.append(Problem(1, 1, 0, "there is no insight in this text", hint))


def _cut(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Yield each statement's tokens, with an EOF token where it ends; empty ones are left out."""
    statement: list[Token] = []
    for token in tokens:
        if token.type == Tree.UNCLOSED_COMMENT:  # what follows is comment, not statements
            yield [*statement, token, _end(token)]
            return
        if token.type != Tree.SEMICOLON:
            statement.append(token)
        elif statement:
            yield [*statement, Token(Tree.EOF, ";", token.offset, token.line, token.column)]
            statement = []
    if statement:
        yield [*statement, _end(statement[-1])]


def _end(last: Token) -> Token:
    length = len(last.text)
    return Token(Tree.EOF, "", last.offset + length, last.line, last.column + length)


def _statement(
    tokens: list[Token], recognizer: Recognizer, problems: list[Problem]
) -> Statement | None:
    unreadable = list(islice(_unreadable(tokens), MAX_PROBLEMS))
    if unreadable:
        problems.extend(unreadable)
        return None
    deep = _first_too_deep(tokens)
    if deep is not None:
        problems.append(_too_deep(deep.span))
        return None
    try:
        tree = recognizer.recognize(tell_keywords(tokens))
        if not isinstance(tree, Failure):
            return _built(tree, tokens, problems)
        problems.append(diagnose(tree))
    except RecursionError:  # the caller's own stack was nearly full
        problems.append(_too_deep(tokens[0].span))
    return None


def _built(tree: Any, tokens: list[Token], problems: list[Problem]) -> Statement | None:
    known = len(problems)
    statement = Builder(problems).statement(tree)
    if (deep := _first_too_deep_in(statement)) is not None:
        problems.append(_too_deep(deep.span))
        return None
    # Some statements are deeper in their canonical text, which must parse too.
    deeper = next((token for token in tokens if token.text.upper() in _DEEPENING), None)
    if deeper is not None and len(problems) == known:
        canonical = [*scan(format_statement(statement))]
        if _first_too_deep(canonical) is not None:
            problems.append(_too_deep(deeper.span))
            return None
    return statement


def _unreadable(tokens: list[Token]) -> Iterator[Problem]:
    end = -1
    for token in tokens:
        problem = diagnose_token(token)
        if problem is not None and token.offset != end:  # of a run, the first says it all
            yield problem
        end = -1 if problem is None else token.offset + len(token.text)


def _first_too_deep(tokens: list[Token]) -> Token | None:
    """Return the first token more than MAX_DEPTH levels deep.

    Every open parenthesis is a level, and every operator before it in its group. That keeps the
    parser from recursing far; operators behind a group make the tree deeper than this tells.
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


def _first_too_deep_in(statement: Statement) -> Node | None:
    """Return the first node with more than MAX_DEPTH others between itself and the statement.

    All that reads a tree recurses, up to six frames a level, on a stack of a thousand.
    """
    waiting: list[tuple[Node, int]] = [(statement, 0)]
    while waiting:
        node, above = waiting.pop()
        if above > MAX_DEPTH + 1:
            return node
        waiting.extend((part, above + 1) for part in reversed(_parts(node)))
    return None


def _parts(node: Node) -> list[Node]:
    names: tuple[str, ...] = node.__match_args__  # all fields but the span
    values = (getattr(node, name) for name in names)
    below = (each if isinstance(each, tuple) else (each,) for each in values)
    return [part for part in chain.from_iterable(below) if isinstance(part, Node)]


def _too_deep(span: Span) -> Problem:
    message = f"this is nested more than {MAX_DEPTH} levels deep"
    hint = "Each parenthesis is a level, and each operator in a row: make it several insights."
    return problem_at(span, message, hint)
