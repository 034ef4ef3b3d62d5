# Generated from Insights.g4 by ANTLR 4.13.2
# encoding: utf-8
from antlr4 import *
from io import StringIO
import sys
if sys.version_info[1] > 5:
	from typing import TextIO
else:
	from typing.io import TextIO

def serializedATN():
    return [
        4,1,36,140,2,0,7,0,2,1,7,1,2,2,7,2,2,3,7,3,2,4,7,4,2,5,7,5,2,6,7,
        6,2,7,7,7,1,0,1,0,1,0,1,0,1,0,3,0,22,8,0,1,0,1,0,3,0,26,8,0,1,0,
        1,0,3,0,30,8,0,1,0,1,0,1,1,1,1,1,1,1,1,5,1,38,8,1,10,1,12,1,41,9,
        1,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,3,2,53,8,2,1,2,1,2,3,2,
        57,8,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,3,2,68,8,2,1,2,1,2,1,
        2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,1,2,3,2,87,
        8,2,1,2,1,2,5,2,91,8,2,10,2,12,2,94,9,2,1,3,1,3,1,3,3,3,99,8,3,1,
        3,1,3,3,3,103,8,3,1,4,1,4,1,4,1,4,5,4,109,8,4,10,4,12,4,112,9,4,
        1,4,1,4,1,5,1,5,1,5,1,5,5,5,120,8,5,10,5,12,5,123,9,5,1,5,1,5,1,
        6,3,6,128,8,6,1,6,1,6,3,6,132,8,6,1,7,3,7,135,8,7,1,7,1,7,1,7,1,
        7,0,1,4,8,0,2,4,6,8,10,12,14,0,6,2,0,28,28,30,30,3,0,5,5,10,10,29,
        30,2,0,17,17,22,27,1,0,20,21,1,0,18,19,3,0,5,5,10,10,30,30,157,0,
        16,1,0,0,0,2,33,1,0,0,0,4,67,1,0,0,0,6,95,1,0,0,0,8,104,1,0,0,0,
        10,115,1,0,0,0,12,131,1,0,0,0,14,134,1,0,0,0,16,17,5,28,0,0,17,18,
        5,17,0,0,18,19,5,3,0,0,19,21,3,4,2,0,20,22,3,2,1,0,21,20,1,0,0,0,
        21,22,1,0,0,0,22,25,1,0,0,0,23,24,5,11,0,0,24,26,3,4,2,0,25,23,1,
        0,0,0,25,26,1,0,0,0,26,29,1,0,0,0,27,28,5,4,0,0,28,30,3,14,7,0,29,
        27,1,0,0,0,29,30,1,0,0,0,30,31,1,0,0,0,31,32,5,0,0,1,32,1,1,0,0,
        0,33,34,5,2,0,0,34,39,7,0,0,0,35,36,5,14,0,0,36,38,7,0,0,0,37,35,
        1,0,0,0,38,41,1,0,0,0,39,37,1,0,0,0,39,40,1,0,0,0,40,3,1,0,0,0,41,
        39,1,0,0,0,42,43,6,2,-1,0,43,44,5,15,0,0,44,45,3,4,2,0,45,46,5,16,
        0,0,46,68,1,0,0,0,47,56,5,28,0,0,48,49,5,15,0,0,49,52,3,6,3,0,50,
        51,5,14,0,0,51,53,3,14,7,0,52,50,1,0,0,0,52,53,1,0,0,0,53,54,1,0,
        0,0,54,55,5,16,0,0,55,57,1,0,0,0,56,48,1,0,0,0,56,57,1,0,0,0,57,
        68,1,0,0,0,58,68,7,1,0,0,59,60,5,19,0,0,60,68,3,4,2,10,61,62,7,2,
        0,0,62,68,3,4,2,6,63,64,5,7,0,0,64,68,3,10,5,0,65,66,5,8,0,0,66,
        68,3,4,2,3,67,42,1,0,0,0,67,47,1,0,0,0,67,58,1,0,0,0,67,59,1,0,0,
        0,67,61,1,0,0,0,67,63,1,0,0,0,67,65,1,0,0,0,68,92,1,0,0,0,69,70,
        10,9,0,0,70,71,7,3,0,0,71,91,3,4,2,10,72,73,10,8,0,0,73,74,7,4,0,
        0,74,91,3,4,2,9,75,76,10,7,0,0,76,77,7,2,0,0,77,91,3,4,2,8,78,79,
        10,2,0,0,79,80,5,1,0,0,80,91,3,4,2,3,81,82,10,1,0,0,82,83,5,9,0,
        0,83,91,3,4,2,2,84,86,10,5,0,0,85,87,5,8,0,0,86,85,1,0,0,0,86,87,
        1,0,0,0,87,88,1,0,0,0,88,89,5,7,0,0,89,91,3,10,5,0,90,69,1,0,0,0,
        90,72,1,0,0,0,90,75,1,0,0,0,90,78,1,0,0,0,90,81,1,0,0,0,90,84,1,
        0,0,0,91,94,1,0,0,0,92,90,1,0,0,0,92,93,1,0,0,0,93,5,1,0,0,0,94,
        92,1,0,0,0,95,98,7,0,0,0,96,97,5,6,0,0,97,99,3,8,4,0,98,96,1,0,0,
        0,98,99,1,0,0,0,99,102,1,0,0,0,100,101,5,11,0,0,101,103,3,4,2,0,
        102,100,1,0,0,0,102,103,1,0,0,0,103,7,1,0,0,0,104,105,5,15,0,0,105,
        110,7,0,0,0,106,107,5,14,0,0,107,109,7,0,0,0,108,106,1,0,0,0,109,
        112,1,0,0,0,110,108,1,0,0,0,110,111,1,0,0,0,111,113,1,0,0,0,112,
        110,1,0,0,0,113,114,5,16,0,0,114,9,1,0,0,0,115,116,5,15,0,0,116,
        121,3,12,6,0,117,118,5,14,0,0,118,120,3,12,6,0,119,117,1,0,0,0,120,
        123,1,0,0,0,121,119,1,0,0,0,121,122,1,0,0,0,122,124,1,0,0,0,123,
        121,1,0,0,0,124,125,5,16,0,0,125,11,1,0,0,0,126,128,5,19,0,0,127,
        126,1,0,0,0,127,128,1,0,0,0,128,129,1,0,0,0,129,132,5,29,0,0,130,
        132,7,5,0,0,131,127,1,0,0,0,131,130,1,0,0,0,132,13,1,0,0,0,133,135,
        5,19,0,0,134,133,1,0,0,0,134,135,1,0,0,0,135,136,1,0,0,0,136,137,
        5,29,0,0,137,138,5,28,0,0,138,15,1,0,0,0,17,21,25,29,39,52,56,67,
        86,90,92,98,102,110,121,127,131,134
    ]

class InsightsParser ( Parser ):

    grammarFileName = "Insights.g4"

    atn = ATNDeserializer().deserialize(serializedATN())

    decisionsToDFA = [ DFA(ds, i) for i, ds in enumerate(atn.decisionToState) ]

    sharedContextCache = PredictionContextCache()

    literalNames = [ "<INVALID>", "'and'", "'by'", "'compute'", "'every'", 
                     "'false'", "'from'", "'in'", "'not'", "'or'", "'true'", 
                     "'when'", "'with'", "';'", "','", "'('", "')'", "'='", 
                     "'+'", "'-'", "'*'", "'/'", "'>='", "'>'", "'<='", 
                     "'<'", "'=='", "<INVALID>", "<INVALID>", "<INVALID>", 
                     "<INVALID>", "<INVALID>", "<INVALID>", "<INVALID>", 
                     "'/*'" ]

    symbolicNames = [ "<INVALID>", "AND", "BY", "COMPUTE", "EVERY", "FALSE", 
                      "FROM", "IN", "NOT", "OR", "TRUE", "WHEN", "WITH", 
                      "SEMICOLON", "COMMA", "LPAR", "RPAR", "ASSIGN", "PLUS", 
                      "MINUS", "STAR", "SLASH", "GE", "GT", "LE", "LT", 
                      "EQ", "NE", "ID", "NUMBER", "STRING", "LINE_COMMENT", 
                      "BLOCK_COMMENT", "SPACE", "UNCLOSED_COMMENT", "UNCLOSED_STRING", 
                      "UNKNOWN" ]

    RULE_statement = 0
    RULE_grouping = 1
    RULE_term = 2
    RULE_stream = 3
    RULE_entities = 4
    RULE_members = 5
    RULE_member = 6
    RULE_interval = 7

    ruleNames =  [ "statement", "grouping", "term", "stream", "entities", 
                   "members", "member", "interval" ]

    EOF = Token.EOF
    AND=1
    BY=2
    COMPUTE=3
    EVERY=4
    FALSE=5
    FROM=6
    IN=7
    NOT=8
    OR=9
    TRUE=10
    WHEN=11
    WITH=12
    SEMICOLON=13
    COMMA=14
    LPAR=15
    RPAR=16
    ASSIGN=17
    PLUS=18
    MINUS=19
    STAR=20
    SLASH=21
    GE=22
    GT=23
    LE=24
    LT=25
    EQ=26
    NE=27
    ID=28
    NUMBER=29
    STRING=30
    LINE_COMMENT=31
    BLOCK_COMMENT=32
    SPACE=33
    UNCLOSED_COMMENT=34
    UNCLOSED_STRING=35
    UNKNOWN=36

    def __init__(self, input:TokenStream, output:TextIO = sys.stdout):
        super().__init__(input, output)
        self.checkVersion("4.13.2")
        self._interp = ParserATNSimulator(self, self.atn, self.decisionsToDFA, self.sharedContextCache)
        self._predicates = None




    class StatementContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.name = None # Token
            self.value = None # TermContext
            self.by = None # GroupingContext
            self.when = None # TermContext
            self.every = None # IntervalContext

        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)

        def COMPUTE(self):
            return self.getToken(InsightsParser.COMPUTE, 0)

        def EOF(self):
            return self.getToken(InsightsParser.EOF, 0)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.TermContext)
            else:
                return self.getTypedRuleContext(InsightsParser.TermContext,i)


        def WHEN(self):
            return self.getToken(InsightsParser.WHEN, 0)

        def EVERY(self):
            return self.getToken(InsightsParser.EVERY, 0)

        def grouping(self):
            return self.getTypedRuleContext(InsightsParser.GroupingContext,0)


        def interval(self):
            return self.getTypedRuleContext(InsightsParser.IntervalContext,0)


        def getRuleIndex(self):
            return InsightsParser.RULE_statement




    def statement(self):

        localctx = InsightsParser.StatementContext(self, self._ctx, self.state)
        self.enterRule(localctx, 0, self.RULE_statement)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 16
            localctx.name = self.match(InsightsParser.ID)
            self.state = 17
            self.match(InsightsParser.ASSIGN)
            self.state = 18
            self.match(InsightsParser.COMPUTE)
            self.state = 19
            localctx.value = self.term(0)
            self.state = 21
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==2:
                self.state = 20
                localctx.by = self.grouping()


            self.state = 25
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==11:
                self.state = 23
                self.match(InsightsParser.WHEN)
                self.state = 24
                localctx.when = self.term(0)


            self.state = 29
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==4:
                self.state = 27
                self.match(InsightsParser.EVERY)
                self.state = 28
                localctx.every = self.interval()


            self.state = 31
            self.match(InsightsParser.EOF)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class GroupingContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self._ID = None # Token
            self.attributes = list() # of Tokens
            self._STRING = None # Token
            self._tset71 = None # Token
            self._tset84 = None # Token

        def BY(self):
            return self.getToken(InsightsParser.BY, 0)

        def ID(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.ID)
            else:
                return self.getToken(InsightsParser.ID, i)

        def STRING(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.STRING)
            else:
                return self.getToken(InsightsParser.STRING, i)

        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.COMMA)
            else:
                return self.getToken(InsightsParser.COMMA, i)

        def getRuleIndex(self):
            return InsightsParser.RULE_grouping




    def grouping(self):

        localctx = InsightsParser.GroupingContext(self, self._ctx, self.state)
        self.enterRule(localctx, 2, self.RULE_grouping)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 33
            self.match(InsightsParser.BY)
            self.state = 34
            localctx._tset71 = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==28 or _la==30):
                localctx._tset71 = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            localctx.attributes.append(localctx._tset71)
            self.state = 39
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==14:
                self.state = 35
                self.match(InsightsParser.COMMA)
                self.state = 36
                localctx._tset84 = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==28 or _la==30):
                    localctx._tset84 = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                localctx.attributes.append(localctx._tset84)
                self.state = 41
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class TermContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser


        def getRuleIndex(self):
            return InsightsParser.RULE_term

     
        def copyFrom(self, ctx:ParserRuleContext):
            super().copyFrom(ctx)


    class GroupContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.inner = None # TermContext
            self.copyFrom(ctx)

        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)
        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)
        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)



    class DisjunctionContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.left = None # TermContext
            self.right = None # TermContext
            self.copyFrom(ctx)

        def OR(self):
            return self.getToken(InsightsParser.OR, 0)
        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.TermContext)
            else:
                return self.getTypedRuleContext(InsightsParser.TermContext,i)



    class WordContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.word = None # Token
            self.source = None # StreamContext
            self.window = None # IntervalContext
            self.copyFrom(ctx)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)
        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)
        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)
        def stream(self):
            return self.getTypedRuleContext(InsightsParser.StreamContext,0)

        def COMMA(self):
            return self.getToken(InsightsParser.COMMA, 0)
        def interval(self):
            return self.getTypedRuleContext(InsightsParser.IntervalContext,0)



    class ChoiceContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.operand = None # TermContext
            self.negated = None # Token
            self.choices = None # MembersContext
            self.copyFrom(ctx)

        def IN(self):
            return self.getToken(InsightsParser.IN, 0)
        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)

        def members(self):
            return self.getTypedRuleContext(InsightsParser.MembersContext,0)

        def NOT(self):
            return self.getToken(InsightsParser.NOT, 0)


    class NegationContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.operand = None # TermContext
            self.copyFrom(ctx)

        def MINUS(self):
            return self.getToken(InsightsParser.MINUS, 0)
        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)



    class ComparisonContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.left = None # TermContext
            self.operator = None # Token
            self.right = None # TermContext
            self.copyFrom(ctx)

        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.TermContext)
            else:
                return self.getTypedRuleContext(InsightsParser.TermContext,i)

        def GT(self):
            return self.getToken(InsightsParser.GT, 0)
        def GE(self):
            return self.getToken(InsightsParser.GE, 0)
        def LT(self):
            return self.getToken(InsightsParser.LT, 0)
        def LE(self):
            return self.getToken(InsightsParser.LE, 0)
        def EQ(self):
            return self.getToken(InsightsParser.EQ, 0)
        def NE(self):
            return self.getToken(InsightsParser.NE, 0)
        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)


    class LiteralContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.value = None # Token
            self.copyFrom(ctx)

        def NUMBER(self):
            return self.getToken(InsightsParser.NUMBER, 0)
        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)
        def TRUE(self):
            return self.getToken(InsightsParser.TRUE, 0)
        def FALSE(self):
            return self.getToken(InsightsParser.FALSE, 0)


    class ConjunctionContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.left = None # TermContext
            self.right = None # TermContext
            self.copyFrom(ctx)

        def AND(self):
            return self.getToken(InsightsParser.AND, 0)
        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.TermContext)
            else:
                return self.getTypedRuleContext(InsightsParser.TermContext,i)



    class ElidedComparisonContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.operator = None # Token
            self.right = None # TermContext
            self.copyFrom(ctx)

        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)

        def GT(self):
            return self.getToken(InsightsParser.GT, 0)
        def GE(self):
            return self.getToken(InsightsParser.GE, 0)
        def LT(self):
            return self.getToken(InsightsParser.LT, 0)
        def LE(self):
            return self.getToken(InsightsParser.LE, 0)
        def EQ(self):
            return self.getToken(InsightsParser.EQ, 0)
        def NE(self):
            return self.getToken(InsightsParser.NE, 0)
        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)


    class DenialContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.operand = None # TermContext
            self.copyFrom(ctx)

        def NOT(self):
            return self.getToken(InsightsParser.NOT, 0)
        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)



    class ElidedChoiceContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.choices = None # MembersContext
            self.copyFrom(ctx)

        def IN(self):
            return self.getToken(InsightsParser.IN, 0)
        def members(self):
            return self.getTypedRuleContext(InsightsParser.MembersContext,0)



    class ArithmeticContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.left = None # TermContext
            self.operator = None # Token
            self.right = None # TermContext
            self.copyFrom(ctx)

        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.TermContext)
            else:
                return self.getTypedRuleContext(InsightsParser.TermContext,i)

        def STAR(self):
            return self.getToken(InsightsParser.STAR, 0)
        def SLASH(self):
            return self.getToken(InsightsParser.SLASH, 0)
        def PLUS(self):
            return self.getToken(InsightsParser.PLUS, 0)
        def MINUS(self):
            return self.getToken(InsightsParser.MINUS, 0)



    def term(self, _p:int=0):
        _parentctx = self._ctx
        _parentState = self.state
        localctx = InsightsParser.TermContext(self, self._ctx, _parentState)
        _prevctx = localctx
        _startState = 4
        self.enterRecursionRule(localctx, 4, self.RULE_term, _p)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 67
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [15]:
                localctx = InsightsParser.GroupContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx

                self.state = 43
                self.match(InsightsParser.LPAR)
                self.state = 44
                localctx.inner = self.term(0)
                self.state = 45
                self.match(InsightsParser.RPAR)
                pass
            elif token in [28]:
                localctx = InsightsParser.WordContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 47
                localctx.word = self.match(InsightsParser.ID)
                self.state = 56
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,5,self._ctx)
                if la_ == 1:
                    self.state = 48
                    self.match(InsightsParser.LPAR)
                    self.state = 49
                    localctx.source = self.stream()
                    self.state = 52
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==14:
                        self.state = 50
                        self.match(InsightsParser.COMMA)
                        self.state = 51
                        localctx.window = self.interval()


                    self.state = 54
                    self.match(InsightsParser.RPAR)


                pass
            elif token in [5, 10, 29, 30]:
                localctx = InsightsParser.LiteralContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 58
                localctx.value = self._input.LT(1)
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 1610613792) != 0)):
                    localctx.value = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                pass
            elif token in [19]:
                localctx = InsightsParser.NegationContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 59
                self.match(InsightsParser.MINUS)
                self.state = 60
                localctx.operand = self.term(10)
                pass
            elif token in [17, 22, 23, 24, 25, 26, 27]:
                localctx = InsightsParser.ElidedComparisonContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 61
                localctx.operator = self._input.LT(1)
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 264372224) != 0)):
                    localctx.operator = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 62
                localctx.right = self.term(6)
                pass
            elif token in [7]:
                localctx = InsightsParser.ElidedChoiceContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 63
                self.match(InsightsParser.IN)
                self.state = 64
                localctx.choices = self.members()
                pass
            elif token in [8]:
                localctx = InsightsParser.DenialContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 65
                self.match(InsightsParser.NOT)
                self.state = 66
                localctx.operand = self.term(3)
                pass
            else:
                raise NoViableAltException(self)

            self._ctx.stop = self._input.LT(-1)
            self.state = 92
            self._errHandler.sync(self)
            _alt = self._interp.adaptivePredict(self._input,9,self._ctx)
            while _alt!=2 and _alt!=ATN.INVALID_ALT_NUMBER:
                if _alt==1:
                    if self._parseListeners is not None:
                        self.triggerExitRuleEvent()
                    _prevctx = localctx
                    self.state = 90
                    self._errHandler.sync(self)
                    la_ = self._interp.adaptivePredict(self._input,8,self._ctx)
                    if la_ == 1:
                        localctx = InsightsParser.ArithmeticContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 69
                        if not self.precpred(self._ctx, 9):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 9)")
                        self.state = 70
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==20 or _la==21):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 71
                        localctx.right = self.term(10)
                        pass

                    elif la_ == 2:
                        localctx = InsightsParser.ArithmeticContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 72
                        if not self.precpred(self._ctx, 8):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 8)")
                        self.state = 73
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==18 or _la==19):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 74
                        localctx.right = self.term(9)
                        pass

                    elif la_ == 3:
                        localctx = InsightsParser.ComparisonContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 75
                        if not self.precpred(self._ctx, 7):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 7)")
                        self.state = 76
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 264372224) != 0)):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 77
                        localctx.right = self.term(8)
                        pass

                    elif la_ == 4:
                        localctx = InsightsParser.ConjunctionContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 78
                        if not self.precpred(self._ctx, 2):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 2)")
                        self.state = 79
                        self.match(InsightsParser.AND)
                        self.state = 80
                        localctx.right = self.term(3)
                        pass

                    elif la_ == 5:
                        localctx = InsightsParser.DisjunctionContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 81
                        if not self.precpred(self._ctx, 1):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 1)")
                        self.state = 82
                        self.match(InsightsParser.OR)
                        self.state = 83
                        localctx.right = self.term(2)
                        pass

                    elif la_ == 6:
                        localctx = InsightsParser.ChoiceContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.operand = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 84
                        if not self.precpred(self._ctx, 5):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 5)")
                        self.state = 86
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)
                        if _la==8:
                            self.state = 85
                            localctx.negated = self.match(InsightsParser.NOT)


                        self.state = 88
                        self.match(InsightsParser.IN)
                        self.state = 89
                        localctx.choices = self.members()
                        pass

             
                self.state = 94
                self._errHandler.sync(self)
                _alt = self._interp.adaptivePredict(self._input,9,self._ctx)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.unrollRecursionContexts(_parentctx)
        return localctx


    class StreamContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.metric = None # Token
            self.from_ = None # EntitiesContext
            self.when = None # TermContext

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)

        def FROM(self):
            return self.getToken(InsightsParser.FROM, 0)

        def WHEN(self):
            return self.getToken(InsightsParser.WHEN, 0)

        def entities(self):
            return self.getTypedRuleContext(InsightsParser.EntitiesContext,0)


        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)


        def getRuleIndex(self):
            return InsightsParser.RULE_stream




    def stream(self):

        localctx = InsightsParser.StreamContext(self, self._ctx, self.state)
        self.enterRule(localctx, 6, self.RULE_stream)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 95
            localctx.metric = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==28 or _la==30):
                localctx.metric = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            self.state = 98
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==6:
                self.state = 96
                self.match(InsightsParser.FROM)
                self.state = 97
                localctx.from_ = self.entities()


            self.state = 102
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==11:
                self.state = 100
                self.match(InsightsParser.WHEN)
                self.state = 101
                localctx.when = self.term(0)


        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class EntitiesContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self._ID = None # Token
            self.names = list() # of Tokens
            self._STRING = None # Token
            self._tset435 = None # Token
            self._tset448 = None # Token

        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)

        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)

        def ID(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.ID)
            else:
                return self.getToken(InsightsParser.ID, i)

        def STRING(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.STRING)
            else:
                return self.getToken(InsightsParser.STRING, i)

        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.COMMA)
            else:
                return self.getToken(InsightsParser.COMMA, i)

        def getRuleIndex(self):
            return InsightsParser.RULE_entities




    def entities(self):

        localctx = InsightsParser.EntitiesContext(self, self._ctx, self.state)
        self.enterRule(localctx, 8, self.RULE_entities)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 104
            self.match(InsightsParser.LPAR)
            self.state = 105
            localctx._tset435 = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==28 or _la==30):
                localctx._tset435 = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            localctx.names.append(localctx._tset435)
            self.state = 110
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==14:
                self.state = 106
                self.match(InsightsParser.COMMA)
                self.state = 107
                localctx._tset448 = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==28 or _la==30):
                    localctx._tset448 = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                localctx.names.append(localctx._tset448)
                self.state = 112
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 113
            self.match(InsightsParser.RPAR)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class MembersContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self._member = None # MemberContext
            self.values = list() # of MemberContexts

        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)

        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)

        def member(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.MemberContext)
            else:
                return self.getTypedRuleContext(InsightsParser.MemberContext,i)


        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.COMMA)
            else:
                return self.getToken(InsightsParser.COMMA, i)

        def getRuleIndex(self):
            return InsightsParser.RULE_members




    def members(self):

        localctx = InsightsParser.MembersContext(self, self._ctx, self.state)
        self.enterRule(localctx, 10, self.RULE_members)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 115
            self.match(InsightsParser.LPAR)
            self.state = 116
            localctx._member = self.member()
            localctx.values.append(localctx._member)
            self.state = 121
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==14:
                self.state = 117
                self.match(InsightsParser.COMMA)
                self.state = 118
                localctx._member = self.member()
                localctx.values.append(localctx._member)
                self.state = 123
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 124
            self.match(InsightsParser.RPAR)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class MemberContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.minus = None # Token
            self.value = None # Token

        def NUMBER(self):
            return self.getToken(InsightsParser.NUMBER, 0)

        def MINUS(self):
            return self.getToken(InsightsParser.MINUS, 0)

        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)

        def TRUE(self):
            return self.getToken(InsightsParser.TRUE, 0)

        def FALSE(self):
            return self.getToken(InsightsParser.FALSE, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_member




    def member(self):

        localctx = InsightsParser.MemberContext(self, self._ctx, self.state)
        self.enterRule(localctx, 12, self.RULE_member)
        self._la = 0 # Token type
        try:
            self.state = 131
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [19, 29]:
                self.enterOuterAlt(localctx, 1)
                self.state = 127
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==19:
                    self.state = 126
                    localctx.minus = self.match(InsightsParser.MINUS)


                self.state = 129
                localctx.value = self.match(InsightsParser.NUMBER)
                pass
            elif token in [5, 10, 30]:
                self.enterOuterAlt(localctx, 2)
                self.state = 130
                localctx.value = self._input.LT(1)
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 1073742880) != 0)):
                    localctx.value = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                pass
            else:
                raise NoViableAltException(self)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class IntervalContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.minus = None # Token
            self.count = None # Token
            self.unit = None # Token

        def NUMBER(self):
            return self.getToken(InsightsParser.NUMBER, 0)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def MINUS(self):
            return self.getToken(InsightsParser.MINUS, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_interval




    def interval(self):

        localctx = InsightsParser.IntervalContext(self, self._ctx, self.state)
        self.enterRule(localctx, 14, self.RULE_interval)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 134
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==19:
                self.state = 133
                localctx.minus = self.match(InsightsParser.MINUS)


            self.state = 136
            localctx.count = self.match(InsightsParser.NUMBER)
            self.state = 137
            localctx.unit = self.match(InsightsParser.ID)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx



    def sempred(self, localctx:RuleContext, ruleIndex:int, predIndex:int):
        if self._predicates == None:
            self._predicates = dict()
        self._predicates[2] = self.term_sempred
        pred = self._predicates.get(ruleIndex, None)
        if pred is None:
            raise Exception("No predicate with index:" + str(ruleIndex))
        else:
            return pred(localctx, predIndex)

    def term_sempred(self, localctx:TermContext, predIndex:int):
            if predIndex == 0:
                return self.precpred(self._ctx, 9)
         

            if predIndex == 1:
                return self.precpred(self._ctx, 8)
         

            if predIndex == 2:
                return self.precpred(self._ctx, 7)
         

            if predIndex == 3:
                return self.precpred(self._ctx, 2)
         

            if predIndex == 4:
                return self.precpred(self._ctx, 1)
         

            if predIndex == 5:
                return self.precpred(self._ctx, 5)
         




