"""The recognizer: runs the generated parser on one statement at a time."""

from typing import Any

from antlr4.atn.PredictionMode import PredictionMode
from antlr4.error.Errors import InputMismatchException, RecognitionException
from antlr4.Token import Token as AntlrToken

from grammar.generated.InsightsParser import InsightsParser
from grammar.mismatch import Mismatch
from grammar.scanner import LexicalToken


class Recognizer:
    """Parses statements with ANTLR's prediction mode SLL first, because SLL is fast.

    A statement that fails is parsed again with the prediction mode LL, which decides whether the
    statement is valid. At an error, the second attempt stops as early as possible, at a place where
    all expected tokens are known.
    """

    def __init__(self) -> None:
        self._parser = InsightsParser(_Tokens([]))
        self._parser.buildParseTrees = False  # the labels of the grammar suffice

    def recognize(self, tokens: list[LexicalToken]) -> Any:
        """Return the parse tree of a statement, or the Mismatch at which the parser stopped.

        ``tokens``: the last token must be EOF.
        """
        try:
            return self._run(tokens, PredictionMode.SLL, _Stop(early=False))
        except _StoppedError:
            pass
        try:
            return self._run(tokens, PredictionMode.LL, _Stop(early=True))
        except _StoppedError as stopped:
            cause = stopped.cause
            return Mismatch(
                tokens=tokens,
                index=next(i for i, token in enumerate(tokens) if token is cause.offendingToken),
                rule=cause.ctx.getRuleIndex(),
                expected=frozenset(cause.getExpectedTokens()),
            )

    def _run(self, tokens: list[LexicalToken], mode: Any, strategy: "_Stop") -> Any:
        self._parser._interp.predictionMode = mode
        self._parser._errHandler = strategy
        self._parser.setTokenStream(_Tokens(tokens))
        return self._parser.statement()


class _Tokens:
    """The part of ANTLR's token stream that its parser uses; the last token is EOF."""

    def __init__(self, tokens: list[LexicalToken]) -> None:
        self._tokens = tokens
        self._last = len(tokens) - 1
        self.index = 0

    def LA(self, ahead: int) -> int:  # noqa: N802
        return self._tokens[min(self.index + ahead - 1, self._last)].type

    def LT(self, ahead: int) -> LexicalToken:  # noqa: N802
        if ahead < 0:
            return self._tokens[max(self.index + ahead, 0)]
        return self._tokens[min(self.index + ahead - 1, self._last)]

    def get(self, index: int) -> LexicalToken:
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
    """An error strategy for ANTLR that stops at the first error.

    ``early``: whether to check the next token before every optional part of a rule, where all
    possible tokens are known. Otherwise, the next token is checked only where a token is required.
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
