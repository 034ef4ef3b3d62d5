"""The tokens of one statement through the generated parser."""

from typing import Any

from antlr4.atn.PredictionMode import PredictionMode
from antlr4.error.Errors import InputMismatchException, RecognitionException
from antlr4.Token import Token as AntlrToken

from grammar.failure import Failure
from grammar.generated.InsightsParser import InsightsParser
from grammar.scanner import Token


class Recognizer:
    """Turns the tokens of one statement after the other into parse trees.

    First by SLL prediction, which is fast. Only a statement that fails goes through LL prediction,
    which has the last word, and which stops as early as it can to learn all that was expected.
    """

    def __init__(self) -> None:
        self._parser = InsightsParser(_Tokens([]))
        self._parser.buildParseTrees = False  # the grammar labels all that is read; no more is kept

    def recognize(self, tokens: list[Token]) -> Any:
        """Return the ``statement`` tree of tokens that end with the EOF token, or the Failure."""
        try:
            return self._run(tokens, PredictionMode.SLL, _Stop(early=False))
        except _StoppedError:
            pass
        try:
            return self._run(tokens, PredictionMode.LL, _Stop(early=True))
        except _StoppedError as stopped:
            cause = stopped.cause
            return Failure(
                tokens=tokens,
                index=next(i for i, token in enumerate(tokens) if token is cause.offendingToken),
                rule=cause.ctx.getRuleIndex(),
                expected=frozenset(cause.getExpectedTokens()),
            )

    def _run(self, tokens: list[Token], mode: Any, strategy: "_Stop") -> Any:
        self._parser._interp.predictionMode = mode
        self._parser._errHandler = strategy
        self._parser.setTokenStream(_Tokens(tokens))
        return self._parser.statement()


class _Tokens:
    """As much of an ANTLR token stream as its parser uses; the last token is EOF."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._last = len(tokens) - 1
        self.index = 0

    def LA(self, ahead: int) -> int:  # noqa: N802
        return self._tokens[min(self.index + ahead - 1, self._last)].type

    def LT(self, ahead: int) -> Token:  # noqa: N802
        if ahead < 0:
            return self._tokens[max(self.index + ahead, 0)]
        return self._tokens[min(self.index + ahead - 1, self._last)]

    def get(self, index: int) -> Token:
        return self._tokens[index]

    def consume(self) -> None:
        self.index += 1

    def seek(self, index: int) -> None:
        self.index = index

    def mark(self) -> int:
        return 0

    def release(self, marker: int) -> None:
        pass


class _StoppedError(Exception):
    def __init__(self, cause: RecognitionException) -> None:
        super().__init__(cause)
        self.cause = cause


class _Stop:
    """ANTLR's "error strategy" that ends at the first error.

    ``early`` checks before every optional part, where all that may follow is still known, instead
    of at the next token that must be there.
    """

    def __init__(self, *, early: bool) -> None:
        self._early = early

    def sync(self, parser: Any) -> None:
        if self._early:
            possible = parser.atn.nextTokens(parser.atn.states[parser.state])
            if parser._input.LA(1) not in possible and AntlrToken.EPSILON not in possible:
                raise _StoppedError(InputMismatchException(parser))

    def recover(self, _parser: Any, cause: RecognitionException) -> None:
        raise _StoppedError(cause)

    def recoverInline(self, parser: Any) -> None:  # noqa: N802
        raise _StoppedError(InputMismatchException(parser))

    def inErrorRecoveryMode(self, _parser: Any) -> bool:  # noqa: N802
        return False

    def reset(self, parser: Any) -> None:
        pass

    def reportMatch(self, parser: Any) -> None:  # noqa: N802
        pass

    def reportError(self, parser: Any, cause: RecognitionException) -> None:  # noqa: N802
        pass
