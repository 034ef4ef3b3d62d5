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
        4,1,36,164,2,0,7,0,2,1,7,1,2,2,7,2,2,3,7,3,2,4,7,4,2,5,7,5,2,6,7,
        6,2,7,7,7,2,8,7,8,2,9,7,9,2,10,7,10,1,0,1,0,1,0,1,0,1,0,3,0,28,8,
        0,1,0,1,0,3,0,32,8,0,1,0,1,0,3,0,36,8,0,1,0,3,0,39,8,0,1,0,1,0,1,
        1,1,1,1,1,1,1,5,1,47,8,1,10,1,12,1,50,9,1,1,2,1,2,1,2,1,2,5,2,56,
        8,2,10,2,12,2,59,9,2,1,3,1,3,1,3,1,3,1,4,1,4,1,5,1,5,1,5,1,5,1,5,
        1,5,1,5,1,5,1,5,1,5,3,5,77,8,5,1,5,1,5,3,5,81,8,5,1,5,1,5,1,5,1,
        5,1,5,1,5,1,5,1,5,1,5,3,5,92,8,5,1,5,1,5,1,5,1,5,1,5,1,5,1,5,1,5,
        1,5,1,5,1,5,1,5,1,5,1,5,1,5,1,5,1,5,3,5,111,8,5,1,5,1,5,5,5,115,
        8,5,10,5,12,5,118,9,5,1,6,1,6,1,6,3,6,123,8,6,1,6,1,6,3,6,127,8,
        6,1,7,1,7,1,7,1,7,5,7,133,8,7,10,7,12,7,136,9,7,1,7,1,7,1,8,1,8,
        1,8,1,8,5,8,144,8,8,10,8,12,8,147,9,8,1,8,1,8,1,9,3,9,152,8,9,1,
        9,1,9,3,9,156,8,9,1,10,3,10,159,8,10,1,10,1,10,1,10,1,10,0,1,10,
        11,0,2,4,6,8,10,12,14,16,18,20,0,6,2,0,28,28,30,30,3,0,5,5,10,10,
        29,30,2,0,17,17,22,27,1,0,20,21,1,0,18,19,3,0,5,5,10,10,30,30,180,
        0,22,1,0,0,0,2,42,1,0,0,0,4,51,1,0,0,0,6,60,1,0,0,0,8,64,1,0,0,0,
        10,91,1,0,0,0,12,119,1,0,0,0,14,128,1,0,0,0,16,139,1,0,0,0,18,155,
        1,0,0,0,20,158,1,0,0,0,22,23,5,28,0,0,23,24,5,17,0,0,24,25,5,3,0,
        0,25,27,3,10,5,0,26,28,3,2,1,0,27,26,1,0,0,0,27,28,1,0,0,0,28,31,
        1,0,0,0,29,30,5,11,0,0,30,32,3,10,5,0,31,29,1,0,0,0,31,32,1,0,0,
        0,32,35,1,0,0,0,33,34,5,4,0,0,34,36,3,20,10,0,35,33,1,0,0,0,35,36,
        1,0,0,0,36,38,1,0,0,0,37,39,3,4,2,0,38,37,1,0,0,0,38,39,1,0,0,0,
        39,40,1,0,0,0,40,41,5,0,0,1,41,1,1,0,0,0,42,43,5,2,0,0,43,48,7,0,
        0,0,44,45,5,14,0,0,45,47,7,0,0,0,46,44,1,0,0,0,47,50,1,0,0,0,48,
        46,1,0,0,0,48,49,1,0,0,0,49,3,1,0,0,0,50,48,1,0,0,0,51,52,5,12,0,
        0,52,57,3,6,3,0,53,54,5,1,0,0,54,56,3,6,3,0,55,53,1,0,0,0,56,59,
        1,0,0,0,57,55,1,0,0,0,57,58,1,0,0,0,58,5,1,0,0,0,59,57,1,0,0,0,60,
        61,5,28,0,0,61,62,5,17,0,0,62,63,3,8,4,0,63,7,1,0,0,0,64,65,7,0,
        0,0,65,9,1,0,0,0,66,67,6,5,-1,0,67,68,5,15,0,0,68,69,3,10,5,0,69,
        70,5,16,0,0,70,92,1,0,0,0,71,80,5,28,0,0,72,73,5,15,0,0,73,76,3,
        12,6,0,74,75,5,14,0,0,75,77,3,20,10,0,76,74,1,0,0,0,76,77,1,0,0,
        0,77,78,1,0,0,0,78,79,5,16,0,0,79,81,1,0,0,0,80,72,1,0,0,0,80,81,
        1,0,0,0,81,92,1,0,0,0,82,92,7,1,0,0,83,84,5,19,0,0,84,92,3,10,5,
        10,85,86,7,2,0,0,86,92,3,10,5,6,87,88,5,7,0,0,88,92,3,16,8,0,89,
        90,5,8,0,0,90,92,3,10,5,3,91,66,1,0,0,0,91,71,1,0,0,0,91,82,1,0,
        0,0,91,83,1,0,0,0,91,85,1,0,0,0,91,87,1,0,0,0,91,89,1,0,0,0,92,116,
        1,0,0,0,93,94,10,9,0,0,94,95,7,3,0,0,95,115,3,10,5,10,96,97,10,8,
        0,0,97,98,7,4,0,0,98,115,3,10,5,9,99,100,10,7,0,0,100,101,7,2,0,
        0,101,115,3,10,5,8,102,103,10,2,0,0,103,104,5,1,0,0,104,115,3,10,
        5,3,105,106,10,1,0,0,106,107,5,9,0,0,107,115,3,10,5,2,108,110,10,
        5,0,0,109,111,5,8,0,0,110,109,1,0,0,0,110,111,1,0,0,0,111,112,1,
        0,0,0,112,113,5,7,0,0,113,115,3,16,8,0,114,93,1,0,0,0,114,96,1,0,
        0,0,114,99,1,0,0,0,114,102,1,0,0,0,114,105,1,0,0,0,114,108,1,0,0,
        0,115,118,1,0,0,0,116,114,1,0,0,0,116,117,1,0,0,0,117,11,1,0,0,0,
        118,116,1,0,0,0,119,122,7,0,0,0,120,121,5,6,0,0,121,123,3,14,7,0,
        122,120,1,0,0,0,122,123,1,0,0,0,123,126,1,0,0,0,124,125,5,11,0,0,
        125,127,3,10,5,0,126,124,1,0,0,0,126,127,1,0,0,0,127,13,1,0,0,0,
        128,129,5,15,0,0,129,134,7,0,0,0,130,131,5,14,0,0,131,133,7,0,0,
        0,132,130,1,0,0,0,133,136,1,0,0,0,134,132,1,0,0,0,134,135,1,0,0,
        0,135,137,1,0,0,0,136,134,1,0,0,0,137,138,5,16,0,0,138,15,1,0,0,
        0,139,140,5,15,0,0,140,145,3,18,9,0,141,142,5,14,0,0,142,144,3,18,
        9,0,143,141,1,0,0,0,144,147,1,0,0,0,145,143,1,0,0,0,145,146,1,0,
        0,0,146,148,1,0,0,0,147,145,1,0,0,0,148,149,5,16,0,0,149,17,1,0,
        0,0,150,152,5,19,0,0,151,150,1,0,0,0,151,152,1,0,0,0,152,153,1,0,
        0,0,153,156,5,29,0,0,154,156,7,5,0,0,155,151,1,0,0,0,155,154,1,0,
        0,0,156,19,1,0,0,0,157,159,5,19,0,0,158,157,1,0,0,0,158,159,1,0,
        0,0,159,160,1,0,0,0,160,161,5,29,0,0,161,162,5,28,0,0,162,21,1,0,
        0,0,19,27,31,35,38,48,57,76,80,91,110,114,116,122,126,134,145,151,
        155,158
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
    RULE_settings = 2
    RULE_option = 3
    RULE_setting = 4
    RULE_term = 5
    RULE_stream = 6
    RULE_entities = 7
    RULE_members = 8
    RULE_member = 9
    RULE_interval = 10

    ruleNames =  [ "statement", "grouping", "settings", "option", "setting", 
                   "term", "stream", "entities", "members", "member", "interval" ]

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
            self.options = None # SettingsContext

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


        def settings(self):
            return self.getTypedRuleContext(InsightsParser.SettingsContext,0)


        def getRuleIndex(self):
            return InsightsParser.RULE_statement




    def statement(self):

        localctx = InsightsParser.StatementContext(self, self._ctx, self.state)
        self.enterRule(localctx, 0, self.RULE_statement)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 22
            localctx.name = self.match(InsightsParser.ID)
            self.state = 23
            self.match(InsightsParser.ASSIGN)
            self.state = 24
            self.match(InsightsParser.COMPUTE)
            self.state = 25
            localctx.value = self.term(0)
            self.state = 27
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==2:
                self.state = 26
                localctx.by = self.grouping()


            self.state = 31
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==11:
                self.state = 29
                self.match(InsightsParser.WHEN)
                self.state = 30
                localctx.when = self.term(0)


            self.state = 35
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==4:
                self.state = 33
                self.match(InsightsParser.EVERY)
                self.state = 34
                localctx.every = self.interval()


            self.state = 38
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==12:
                self.state = 37
                localctx.options = self.settings()


            self.state = 40
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
            self._tset76 = None # Token
            self._tset89 = None # Token

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
            self.state = 42
            self.match(InsightsParser.BY)
            self.state = 43
            localctx._tset76 = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==28 or _la==30):
                localctx._tset76 = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            localctx.attributes.append(localctx._tset76)
            self.state = 48
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==14:
                self.state = 44
                self.match(InsightsParser.COMMA)
                self.state = 45
                localctx._tset89 = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==28 or _la==30):
                    localctx._tset89 = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                localctx.attributes.append(localctx._tset89)
                self.state = 50
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class SettingsContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self._option = None # OptionContext
            self.chosen = list() # of OptionContexts

        def WITH(self):
            return self.getToken(InsightsParser.WITH, 0)

        def option(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.OptionContext)
            else:
                return self.getTypedRuleContext(InsightsParser.OptionContext,i)


        def AND(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.AND)
            else:
                return self.getToken(InsightsParser.AND, i)

        def getRuleIndex(self):
            return InsightsParser.RULE_settings




    def settings(self):

        localctx = InsightsParser.SettingsContext(self, self._ctx, self.state)
        self.enterRule(localctx, 4, self.RULE_settings)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 51
            self.match(InsightsParser.WITH)
            self.state = 52
            localctx._option = self.option()
            localctx.chosen.append(localctx._option)
            self.state = 57
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==1:
                self.state = 53
                self.match(InsightsParser.AND)
                self.state = 54
                localctx._option = self.option()
                localctx.chosen.append(localctx._option)
                self.state = 59
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class OptionContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.name = None # Token
            self.value = None # SettingContext

        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def setting(self):
            return self.getTypedRuleContext(InsightsParser.SettingContext,0)


        def getRuleIndex(self):
            return InsightsParser.RULE_option




    def option(self):

        localctx = InsightsParser.OptionContext(self, self._ctx, self.state)
        self.enterRule(localctx, 6, self.RULE_option)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 60
            localctx.name = self.match(InsightsParser.ID)
            self.state = 61
            self.match(InsightsParser.ASSIGN)
            self.state = 62
            localctx.value = self.setting()
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class SettingContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.name = None # Token

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_setting




    def setting(self):

        localctx = InsightsParser.SettingContext(self, self._ctx, self.state)
        self.enterRule(localctx, 8, self.RULE_setting)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 64
            localctx.name = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==28 or _la==30):
                localctx.name = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
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
        _startState = 10
        self.enterRecursionRule(localctx, 10, self.RULE_term, _p)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 91
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [15]:
                localctx = InsightsParser.GroupContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx

                self.state = 67
                self.match(InsightsParser.LPAR)
                self.state = 68
                localctx.inner = self.term(0)
                self.state = 69
                self.match(InsightsParser.RPAR)
                pass
            elif token in [28]:
                localctx = InsightsParser.WordContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 71
                localctx.word = self.match(InsightsParser.ID)
                self.state = 80
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,7,self._ctx)
                if la_ == 1:
                    self.state = 72
                    self.match(InsightsParser.LPAR)
                    self.state = 73
                    localctx.source = self.stream()
                    self.state = 76
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==14:
                        self.state = 74
                        self.match(InsightsParser.COMMA)
                        self.state = 75
                        localctx.window = self.interval()


                    self.state = 78
                    self.match(InsightsParser.RPAR)


                pass
            elif token in [5, 10, 29, 30]:
                localctx = InsightsParser.LiteralContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 82
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
                self.state = 83
                self.match(InsightsParser.MINUS)
                self.state = 84
                localctx.operand = self.term(10)
                pass
            elif token in [17, 22, 23, 24, 25, 26, 27]:
                localctx = InsightsParser.ElidedComparisonContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 85
                localctx.operator = self._input.LT(1)
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 264372224) != 0)):
                    localctx.operator = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 86
                localctx.right = self.term(6)
                pass
            elif token in [7]:
                localctx = InsightsParser.ElidedChoiceContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 87
                self.match(InsightsParser.IN)
                self.state = 88
                localctx.choices = self.members()
                pass
            elif token in [8]:
                localctx = InsightsParser.DenialContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 89
                self.match(InsightsParser.NOT)
                self.state = 90
                localctx.operand = self.term(3)
                pass
            else:
                raise NoViableAltException(self)

            self._ctx.stop = self._input.LT(-1)
            self.state = 116
            self._errHandler.sync(self)
            _alt = self._interp.adaptivePredict(self._input,11,self._ctx)
            while _alt!=2 and _alt!=ATN.INVALID_ALT_NUMBER:
                if _alt==1:
                    if self._parseListeners is not None:
                        self.triggerExitRuleEvent()
                    _prevctx = localctx
                    self.state = 114
                    self._errHandler.sync(self)
                    la_ = self._interp.adaptivePredict(self._input,10,self._ctx)
                    if la_ == 1:
                        localctx = InsightsParser.ArithmeticContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 93
                        if not self.precpred(self._ctx, 9):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 9)")
                        self.state = 94
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==20 or _la==21):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 95
                        localctx.right = self.term(10)
                        pass

                    elif la_ == 2:
                        localctx = InsightsParser.ArithmeticContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 96
                        if not self.precpred(self._ctx, 8):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 8)")
                        self.state = 97
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==18 or _la==19):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 98
                        localctx.right = self.term(9)
                        pass

                    elif la_ == 3:
                        localctx = InsightsParser.ComparisonContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 99
                        if not self.precpred(self._ctx, 7):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 7)")
                        self.state = 100
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 264372224) != 0)):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 101
                        localctx.right = self.term(8)
                        pass

                    elif la_ == 4:
                        localctx = InsightsParser.ConjunctionContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 102
                        if not self.precpred(self._ctx, 2):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 2)")
                        self.state = 103
                        self.match(InsightsParser.AND)
                        self.state = 104
                        localctx.right = self.term(3)
                        pass

                    elif la_ == 5:
                        localctx = InsightsParser.DisjunctionContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 105
                        if not self.precpred(self._ctx, 1):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 1)")
                        self.state = 106
                        self.match(InsightsParser.OR)
                        self.state = 107
                        localctx.right = self.term(2)
                        pass

                    elif la_ == 6:
                        localctx = InsightsParser.ChoiceContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.operand = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 108
                        if not self.precpred(self._ctx, 5):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 5)")
                        self.state = 110
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)
                        if _la==8:
                            self.state = 109
                            localctx.negated = self.match(InsightsParser.NOT)


                        self.state = 112
                        self.match(InsightsParser.IN)
                        self.state = 113
                        localctx.choices = self.members()
                        pass

             
                self.state = 118
                self._errHandler.sync(self)
                _alt = self._interp.adaptivePredict(self._input,11,self._ctx)

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
        self.enterRule(localctx, 12, self.RULE_stream)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 119
            localctx.metric = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==28 or _la==30):
                localctx.metric = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            self.state = 122
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==6:
                self.state = 120
                self.match(InsightsParser.FROM)
                self.state = 121
                localctx.from_ = self.entities()


            self.state = 126
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==11:
                self.state = 124
                self.match(InsightsParser.WHEN)
                self.state = 125
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
            self._tset495 = None # Token
            self._tset508 = None # Token

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
        self.enterRule(localctx, 14, self.RULE_entities)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 128
            self.match(InsightsParser.LPAR)
            self.state = 129
            localctx._tset495 = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==28 or _la==30):
                localctx._tset495 = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            localctx.names.append(localctx._tset495)
            self.state = 134
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==14:
                self.state = 130
                self.match(InsightsParser.COMMA)
                self.state = 131
                localctx._tset508 = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==28 or _la==30):
                    localctx._tset508 = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                localctx.names.append(localctx._tset508)
                self.state = 136
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 137
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
        self.enterRule(localctx, 16, self.RULE_members)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 139
            self.match(InsightsParser.LPAR)
            self.state = 140
            localctx._member = self.member()
            localctx.values.append(localctx._member)
            self.state = 145
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==14:
                self.state = 141
                self.match(InsightsParser.COMMA)
                self.state = 142
                localctx._member = self.member()
                localctx.values.append(localctx._member)
                self.state = 147
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 148
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
        self.enterRule(localctx, 18, self.RULE_member)
        self._la = 0 # Token type
        try:
            self.state = 155
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [19, 29]:
                self.enterOuterAlt(localctx, 1)
                self.state = 151
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==19:
                    self.state = 150
                    localctx.minus = self.match(InsightsParser.MINUS)


                self.state = 153
                localctx.value = self.match(InsightsParser.NUMBER)
                pass
            elif token in [5, 10, 30]:
                self.enterOuterAlt(localctx, 2)
                self.state = 154
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
        self.enterRule(localctx, 20, self.RULE_interval)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 158
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==19:
                self.state = 157
                localctx.minus = self.match(InsightsParser.MINUS)


            self.state = 160
            localctx.count = self.match(InsightsParser.NUMBER)
            self.state = 161
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
        self._predicates[5] = self.term_sempred
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
         




