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
        4,1,64,314,2,0,7,0,2,1,7,1,2,2,7,2,2,3,7,3,2,4,7,4,2,5,7,5,2,6,7,
        6,2,7,7,7,2,8,7,8,2,9,7,9,2,10,7,10,2,11,7,11,2,12,7,12,2,13,7,13,
        2,14,7,14,2,15,7,15,1,0,1,0,1,0,1,0,1,0,1,0,5,0,39,8,0,10,0,12,0,
        42,9,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,
        0,3,0,59,8,0,1,0,1,0,3,0,63,8,0,1,0,1,0,3,0,67,8,0,1,0,1,0,1,0,1,
        0,5,0,73,8,0,10,0,12,0,76,9,0,3,0,78,8,0,3,0,80,8,0,3,0,82,8,0,1,
        0,1,0,1,1,1,1,1,1,1,1,5,1,90,8,1,10,1,12,1,93,9,1,1,2,1,2,3,2,97,
        8,2,1,2,1,2,3,2,101,8,2,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,3,3,
        112,8,3,1,3,1,3,1,3,1,3,5,3,118,8,3,10,3,12,3,121,9,3,1,3,1,3,1,
        3,1,3,3,3,127,8,3,1,3,1,3,1,3,3,3,132,8,3,1,3,1,3,3,3,136,8,3,1,
        3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,3,3,147,8,3,1,3,1,3,1,3,1,3,1,
        3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,3,3,166,8,3,1,
        3,1,3,5,3,170,8,3,10,3,12,3,173,9,3,1,4,1,4,1,4,1,4,5,4,179,8,4,
        10,4,12,4,182,9,4,1,4,1,4,1,5,1,5,3,5,188,8,5,1,5,3,5,191,8,5,1,
        6,1,6,1,6,3,6,196,8,6,1,6,1,6,3,6,200,8,6,1,7,1,7,1,7,1,7,5,7,206,
        8,7,10,7,12,7,209,9,7,1,7,1,7,1,8,1,8,1,8,1,8,5,8,217,8,8,10,8,12,
        8,220,9,8,1,8,1,8,1,9,1,9,3,9,226,8,9,1,10,1,10,1,10,1,11,1,11,1,
        11,1,11,1,11,1,11,3,11,237,8,11,3,11,239,8,11,1,12,1,12,3,12,243,
        8,12,1,12,1,12,1,13,1,13,1,13,1,13,5,13,251,8,13,10,13,12,13,254,
        9,13,3,13,256,8,13,1,13,1,13,1,14,1,14,1,14,1,14,3,14,264,8,14,1,
        15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,
        15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,3,15,290,8,
        15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,1,15,3,15,302,8,
        15,1,15,3,15,305,8,15,1,15,1,15,1,15,1,15,1,15,3,15,312,8,15,1,15,
        0,1,6,16,0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,0,6,2,0,33,33,
        35,35,2,0,5,5,10,10,2,0,22,22,27,32,1,0,25,26,1,0,23,24,3,0,5,5,
        10,10,35,35,361,0,81,1,0,0,0,2,85,1,0,0,0,4,94,1,0,0,0,6,146,1,0,
        0,0,8,174,1,0,0,0,10,190,1,0,0,0,12,192,1,0,0,0,14,201,1,0,0,0,16,
        212,1,0,0,0,18,225,1,0,0,0,20,227,1,0,0,0,22,230,1,0,0,0,24,242,
        1,0,0,0,26,246,1,0,0,0,28,259,1,0,0,0,30,311,1,0,0,0,32,33,5,50,
        0,0,33,34,5,33,0,0,34,35,5,16,0,0,35,40,5,33,0,0,36,37,5,15,0,0,
        37,39,5,33,0,0,38,36,1,0,0,0,39,42,1,0,0,0,40,38,1,0,0,0,40,41,1,
        0,0,0,41,43,1,0,0,0,42,40,1,0,0,0,43,44,5,17,0,0,44,45,5,20,0,0,
        45,46,3,4,2,0,46,47,5,21,0,0,47,82,1,0,0,0,48,79,5,33,0,0,49,50,
        5,14,0,0,50,51,5,63,0,0,51,52,5,6,0,0,52,53,5,33,0,0,53,80,3,26,
        13,0,54,55,5,22,0,0,55,56,5,3,0,0,56,58,3,6,3,0,57,59,3,2,1,0,58,
        57,1,0,0,0,58,59,1,0,0,0,59,62,1,0,0,0,60,61,5,11,0,0,61,63,3,6,
        3,0,62,60,1,0,0,0,62,63,1,0,0,0,63,66,1,0,0,0,64,65,5,4,0,0,65,67,
        3,22,11,0,66,64,1,0,0,0,66,67,1,0,0,0,67,77,1,0,0,0,68,69,5,12,0,
        0,69,74,3,30,15,0,70,71,5,52,0,0,71,73,3,30,15,0,72,70,1,0,0,0,73,
        76,1,0,0,0,74,72,1,0,0,0,74,75,1,0,0,0,75,78,1,0,0,0,76,74,1,0,0,
        0,77,68,1,0,0,0,77,78,1,0,0,0,78,80,1,0,0,0,79,49,1,0,0,0,79,54,
        1,0,0,0,80,82,1,0,0,0,81,32,1,0,0,0,81,48,1,0,0,0,82,83,1,0,0,0,
        83,84,5,0,0,1,84,1,1,0,0,0,85,86,5,2,0,0,86,91,7,0,0,0,87,88,5,15,
        0,0,88,90,7,0,0,0,89,87,1,0,0,0,90,93,1,0,0,0,91,89,1,0,0,0,91,92,
        1,0,0,0,92,3,1,0,0,0,93,91,1,0,0,0,94,96,3,6,3,0,95,97,3,2,1,0,96,
        95,1,0,0,0,96,97,1,0,0,0,97,100,1,0,0,0,98,99,5,11,0,0,99,101,3,
        6,3,0,100,98,1,0,0,0,100,101,1,0,0,0,101,5,1,0,0,0,102,103,6,3,-1,
        0,103,104,5,16,0,0,104,105,3,4,2,0,105,106,5,17,0,0,106,147,1,0,
        0,0,107,108,5,51,0,0,108,147,5,33,0,0,109,126,5,33,0,0,110,112,3,
        8,4,0,111,110,1,0,0,0,111,112,1,0,0,0,112,113,1,0,0,0,113,114,5,
        16,0,0,114,119,3,12,6,0,115,116,5,15,0,0,116,118,3,12,6,0,117,115,
        1,0,0,0,118,121,1,0,0,0,119,117,1,0,0,0,119,120,1,0,0,0,120,122,
        1,0,0,0,121,119,1,0,0,0,122,123,5,17,0,0,123,127,1,0,0,0,124,125,
        5,6,0,0,125,127,3,14,7,0,126,111,1,0,0,0,126,124,1,0,0,0,126,127,
        1,0,0,0,127,147,1,0,0,0,128,131,5,35,0,0,129,130,5,6,0,0,130,132,
        3,14,7,0,131,129,1,0,0,0,131,132,1,0,0,0,132,147,1,0,0,0,133,135,
        5,34,0,0,134,136,5,64,0,0,135,134,1,0,0,0,135,136,1,0,0,0,136,147,
        1,0,0,0,137,147,7,1,0,0,138,139,5,24,0,0,139,147,3,6,3,10,140,141,
        7,2,0,0,141,147,3,6,3,6,142,143,5,7,0,0,143,147,3,16,8,0,144,145,
        5,8,0,0,145,147,3,6,3,3,146,102,1,0,0,0,146,107,1,0,0,0,146,109,
        1,0,0,0,146,128,1,0,0,0,146,133,1,0,0,0,146,137,1,0,0,0,146,138,
        1,0,0,0,146,140,1,0,0,0,146,142,1,0,0,0,146,144,1,0,0,0,147,171,
        1,0,0,0,148,149,10,9,0,0,149,150,7,3,0,0,150,170,3,6,3,10,151,152,
        10,8,0,0,152,153,7,4,0,0,153,170,3,6,3,9,154,155,10,7,0,0,155,156,
        7,2,0,0,156,170,3,6,3,8,157,158,10,2,0,0,158,159,5,1,0,0,159,170,
        3,6,3,3,160,161,10,1,0,0,161,162,5,9,0,0,162,170,3,6,3,2,163,165,
        10,5,0,0,164,166,5,8,0,0,165,164,1,0,0,0,165,166,1,0,0,0,166,167,
        1,0,0,0,167,168,5,7,0,0,168,170,3,16,8,0,169,148,1,0,0,0,169,151,
        1,0,0,0,169,154,1,0,0,0,169,157,1,0,0,0,169,160,1,0,0,0,169,163,
        1,0,0,0,170,173,1,0,0,0,171,169,1,0,0,0,171,172,1,0,0,0,172,7,1,
        0,0,0,173,171,1,0,0,0,174,175,5,18,0,0,175,180,3,10,5,0,176,177,
        5,15,0,0,177,179,3,10,5,0,178,176,1,0,0,0,179,182,1,0,0,0,180,178,
        1,0,0,0,180,181,1,0,0,0,181,183,1,0,0,0,182,180,1,0,0,0,183,184,
        5,19,0,0,184,9,1,0,0,0,185,187,3,24,12,0,186,188,5,64,0,0,187,186,
        1,0,0,0,187,188,1,0,0,0,188,191,1,0,0,0,189,191,5,33,0,0,190,185,
        1,0,0,0,190,189,1,0,0,0,191,11,1,0,0,0,192,195,3,6,3,0,193,194,5,
        2,0,0,194,196,7,0,0,0,195,193,1,0,0,0,195,196,1,0,0,0,196,199,1,
        0,0,0,197,198,5,11,0,0,198,200,3,6,3,0,199,197,1,0,0,0,199,200,1,
        0,0,0,200,13,1,0,0,0,201,202,5,16,0,0,202,207,7,0,0,0,203,204,5,
        15,0,0,204,206,7,0,0,0,205,203,1,0,0,0,206,209,1,0,0,0,207,205,1,
        0,0,0,207,208,1,0,0,0,208,210,1,0,0,0,209,207,1,0,0,0,210,211,5,
        17,0,0,211,15,1,0,0,0,212,213,5,16,0,0,213,218,3,18,9,0,214,215,
        5,15,0,0,215,217,3,18,9,0,216,214,1,0,0,0,217,220,1,0,0,0,218,216,
        1,0,0,0,218,219,1,0,0,0,219,221,1,0,0,0,220,218,1,0,0,0,221,222,
        5,17,0,0,222,17,1,0,0,0,223,226,3,24,12,0,224,226,7,5,0,0,225,223,
        1,0,0,0,225,224,1,0,0,0,226,19,1,0,0,0,227,228,3,24,12,0,228,229,
        5,64,0,0,229,21,1,0,0,0,230,238,3,20,10,0,231,232,5,45,0,0,232,233,
        5,34,0,0,233,234,5,14,0,0,234,236,5,34,0,0,235,237,7,0,0,0,236,235,
        1,0,0,0,236,237,1,0,0,0,237,239,1,0,0,0,238,231,1,0,0,0,238,239,
        1,0,0,0,239,23,1,0,0,0,240,243,5,23,0,0,241,243,5,24,0,0,242,240,
        1,0,0,0,242,241,1,0,0,0,242,243,1,0,0,0,243,244,1,0,0,0,244,245,
        5,34,0,0,245,25,1,0,0,0,246,255,5,16,0,0,247,252,3,28,14,0,248,249,
        5,15,0,0,249,251,3,28,14,0,250,248,1,0,0,0,251,254,1,0,0,0,252,250,
        1,0,0,0,252,253,1,0,0,0,253,256,1,0,0,0,254,252,1,0,0,0,255,247,
        1,0,0,0,255,256,1,0,0,0,256,257,1,0,0,0,257,258,5,17,0,0,258,27,
        1,0,0,0,259,260,7,0,0,0,260,263,5,22,0,0,261,264,3,18,9,0,262,264,
        3,16,8,0,263,261,1,0,0,0,263,262,1,0,0,0,264,29,1,0,0,0,265,266,
        5,59,0,0,266,312,3,24,12,0,267,268,5,60,0,0,268,312,3,24,12,0,269,
        270,5,54,0,0,270,312,3,24,12,0,271,272,5,47,0,0,272,312,3,24,12,
        0,273,274,5,46,0,0,274,275,5,55,0,0,275,312,5,33,0,0,276,312,5,42,
        0,0,277,278,5,43,0,0,278,312,7,0,0,0,279,280,5,53,0,0,280,281,5,
        22,0,0,281,312,3,24,12,0,282,283,5,58,0,0,283,284,5,22,0,0,284,312,
        3,24,12,0,285,286,5,61,0,0,286,287,5,22,0,0,287,289,7,0,0,0,288,
        290,3,26,13,0,289,288,1,0,0,0,289,290,1,0,0,0,290,312,1,0,0,0,291,
        292,5,48,0,0,292,293,3,24,12,0,293,294,5,56,0,0,294,295,3,20,10,
        0,295,312,1,0,0,0,296,297,5,57,0,0,297,298,7,0,0,0,298,299,5,22,
        0,0,299,301,3,18,9,0,300,302,3,24,12,0,301,300,1,0,0,0,301,302,1,
        0,0,0,302,304,1,0,0,0,303,305,5,49,0,0,304,303,1,0,0,0,304,305,1,
        0,0,0,305,312,1,0,0,0,306,307,5,44,0,0,307,308,5,11,0,0,308,312,
        3,6,3,0,309,310,5,62,0,0,310,312,5,35,0,0,311,265,1,0,0,0,311,267,
        1,0,0,0,311,269,1,0,0,0,311,271,1,0,0,0,311,273,1,0,0,0,311,276,
        1,0,0,0,311,277,1,0,0,0,311,279,1,0,0,0,311,282,1,0,0,0,311,285,
        1,0,0,0,311,291,1,0,0,0,311,296,1,0,0,0,311,306,1,0,0,0,311,309,
        1,0,0,0,312,31,1,0,0,0,38,40,58,62,66,74,77,79,81,91,96,100,111,
        119,126,131,135,146,165,169,171,180,187,190,195,199,207,218,225,
        236,238,242,252,255,263,289,301,304,311
    ]

class InsightsParser ( Parser ):

    grammarFileName = "Insights.g4"

    atn = ATNDeserializer().deserialize(serializedATN())

    decisionsToDFA = [ DFA(ds, i) for i, ds in enumerate(atn.decisionToState) ]

    sharedContextCache = PredictionContextCache()

    literalNames = [ "<INVALID>", "'and'", "'by'", "'compute'", "'every'", 
                     "'false'", "'from'", "'in'", "'not'", "'or'", "'true'", 
                     "'when'", "'with'", "';'", "':'", "','", "'('", "')'", 
                     "'['", "']'", "'{'", "'}'", "'='", "'+'", "'-'", "'*'", 
                     "'/'", "'>='", "'>'", "'<='", "'<'", "'=='", "<INVALID>", 
                     "<INVALID>", "<INVALID>", "<INVALID>", "<INVALID>", 
                     "<INVALID>", "<INVALID>", "'/*'" ]

    symbolicNames = [ "<INVALID>", "AND", "BY", "COMPUTE", "EVERY", "FALSE", 
                      "FROM", "IN", "NOT", "OR", "TRUE", "WHEN", "WITH", 
                      "SEMICOLON", "COLON", "COMMA", "LPAR", "RPAR", "LBRACKET", 
                      "RBRACKET", "LBRACE", "RBRACE", "ASSIGN", "PLUS", 
                      "MINUS", "STAR", "SLASH", "GE", "GT", "LE", "LT", 
                      "EQ", "NE", "ID", "NUMBER", "STRING", "LINE_COMMENT", 
                      "BLOCK_COMMENT", "SPACE", "UNCLOSED_COMMENT", "UNCLOSED_STRING", 
                      "UNKNOWN", "ADAM", "ALGORITHM", "ALLOW", "AT", "AWARENESS", 
                      "CONFIDENCE", "COST_CAP", "DEDICATED", "FUNCTION", 
                      "INSIGHT", "JOINT", "K", "MAX_ERROR", "ON", "PER", 
                      "PLACEMENT_ON", "R", "SALIENCE", "SAMPLE", "SCHEDULER", 
                      "SIGNATURE", "STREAM", "UNIT" ]

    RULE_statement = 0
    RULE_grouping = 1
    RULE_scope = 2
    RULE_term = 3
    RULE_parameters = 4
    RULE_parameter = 5
    RULE_piece = 6
    RULE_entities = 7
    RULE_members = 8
    RULE_member = 9
    RULE_interval = 10
    RULE_rhythm = 11
    RULE_number = 12
    RULE_settings = 13
    RULE_setting = 14
    RULE_option = 15

    ruleNames =  [ "statement", "grouping", "scope", "term", "parameters", 
                   "parameter", "piece", "entities", "members", "member", 
                   "interval", "rhythm", "number", "settings", "setting", 
                   "option" ]

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
    COLON=14
    COMMA=15
    LPAR=16
    RPAR=17
    LBRACKET=18
    RBRACKET=19
    LBRACE=20
    RBRACE=21
    ASSIGN=22
    PLUS=23
    MINUS=24
    STAR=25
    SLASH=26
    GE=27
    GT=28
    LE=29
    LT=30
    EQ=31
    NE=32
    ID=33
    NUMBER=34
    STRING=35
    LINE_COMMENT=36
    BLOCK_COMMENT=37
    SPACE=38
    UNCLOSED_COMMENT=39
    UNCLOSED_STRING=40
    UNKNOWN=41
    ADAM=42
    ALGORITHM=43
    ALLOW=44
    AT=45
    AWARENESS=46
    CONFIDENCE=47
    COST_CAP=48
    DEDICATED=49
    FUNCTION=50
    INSIGHT=51
    JOINT=52
    K=53
    MAX_ERROR=54
    ON=55
    PER=56
    PLACEMENT_ON=57
    R=58
    SALIENCE=59
    SAMPLE=60
    SCHEDULER=61
    SIGNATURE=62
    STREAM=63
    UNIT=64

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
            self._ID = None # Token
            self.takes = list() # of Tokens
            self.body = None # ScopeContext
            self.provider = None # Token
            self.given = None # SettingsContext
            self.value = None # TermContext
            self.by = None # GroupingContext
            self.when = None # TermContext
            self.every = None # RhythmContext
            self._option = None # OptionContext
            self.chosen = list() # of OptionContexts

        def EOF(self):
            return self.getToken(InsightsParser.EOF, 0)

        def FUNCTION(self):
            return self.getToken(InsightsParser.FUNCTION, 0)

        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)

        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)

        def LBRACE(self):
            return self.getToken(InsightsParser.LBRACE, 0)

        def RBRACE(self):
            return self.getToken(InsightsParser.RBRACE, 0)

        def ID(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.ID)
            else:
                return self.getToken(InsightsParser.ID, i)

        def scope(self):
            return self.getTypedRuleContext(InsightsParser.ScopeContext,0)


        def COLON(self):
            return self.getToken(InsightsParser.COLON, 0)

        def STREAM(self):
            return self.getToken(InsightsParser.STREAM, 0)

        def FROM(self):
            return self.getToken(InsightsParser.FROM, 0)

        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)

        def COMPUTE(self):
            return self.getToken(InsightsParser.COMPUTE, 0)

        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.COMMA)
            else:
                return self.getToken(InsightsParser.COMMA, i)

        def settings(self):
            return self.getTypedRuleContext(InsightsParser.SettingsContext,0)


        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.TermContext)
            else:
                return self.getTypedRuleContext(InsightsParser.TermContext,i)


        def WHEN(self):
            return self.getToken(InsightsParser.WHEN, 0)

        def EVERY(self):
            return self.getToken(InsightsParser.EVERY, 0)

        def WITH(self):
            return self.getToken(InsightsParser.WITH, 0)

        def grouping(self):
            return self.getTypedRuleContext(InsightsParser.GroupingContext,0)


        def rhythm(self):
            return self.getTypedRuleContext(InsightsParser.RhythmContext,0)


        def option(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.OptionContext)
            else:
                return self.getTypedRuleContext(InsightsParser.OptionContext,i)


        def JOINT(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.JOINT)
            else:
                return self.getToken(InsightsParser.JOINT, i)

        def getRuleIndex(self):
            return InsightsParser.RULE_statement




    def statement(self):

        localctx = InsightsParser.StatementContext(self, self._ctx, self.state)
        self.enterRule(localctx, 0, self.RULE_statement)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 81
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [50]:
                self.state = 32
                self.match(InsightsParser.FUNCTION)
                self.state = 33
                localctx.name = self.match(InsightsParser.ID)
                self.state = 34
                self.match(InsightsParser.LPAR)
                self.state = 35
                localctx._ID = self.match(InsightsParser.ID)
                localctx.takes.append(localctx._ID)
                self.state = 40
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while _la==15:
                    self.state = 36
                    self.match(InsightsParser.COMMA)
                    self.state = 37
                    localctx._ID = self.match(InsightsParser.ID)
                    localctx.takes.append(localctx._ID)
                    self.state = 42
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                self.state = 43
                self.match(InsightsParser.RPAR)
                self.state = 44
                self.match(InsightsParser.LBRACE)
                self.state = 45
                localctx.body = self.scope()
                self.state = 46
                self.match(InsightsParser.RBRACE)
                pass
            elif token in [33]:
                self.state = 48
                localctx.name = self.match(InsightsParser.ID)
                self.state = 79
                self._errHandler.sync(self)
                token = self._input.LA(1)
                if token in [14]:
                    self.state = 49
                    self.match(InsightsParser.COLON)
                    self.state = 50
                    self.match(InsightsParser.STREAM)
                    self.state = 51
                    self.match(InsightsParser.FROM)
                    self.state = 52
                    localctx.provider = self.match(InsightsParser.ID)
                    self.state = 53
                    localctx.given = self.settings()
                    pass
                elif token in [22]:
                    self.state = 54
                    self.match(InsightsParser.ASSIGN)
                    self.state = 55
                    self.match(InsightsParser.COMPUTE)
                    self.state = 56
                    localctx.value = self.term(0)
                    self.state = 58
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==2:
                        self.state = 57
                        localctx.by = self.grouping()


                    self.state = 62
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==11:
                        self.state = 60
                        self.match(InsightsParser.WHEN)
                        self.state = 61
                        localctx.when = self.term(0)


                    self.state = 66
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==4:
                        self.state = 64
                        self.match(InsightsParser.EVERY)
                        self.state = 65
                        localctx.every = self.rhythm()


                    self.state = 77
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==12:
                        self.state = 68
                        self.match(InsightsParser.WITH)
                        self.state = 69
                        localctx._option = self.option()
                        localctx.chosen.append(localctx._option)
                        self.state = 74
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)
                        while _la==52:
                            self.state = 70
                            self.match(InsightsParser.JOINT)
                            self.state = 71
                            localctx._option = self.option()
                            localctx.chosen.append(localctx._option)
                            self.state = 76
                            self._errHandler.sync(self)
                            _la = self._input.LA(1)



                    pass
                else:
                    raise NoViableAltException(self)

                pass
            else:
                raise NoViableAltException(self)

            self.state = 83
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
            self._tset224 = None # Token
            self._tset237 = None # Token

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
            self.state = 85
            self.match(InsightsParser.BY)
            self.state = 86
            localctx._tset224 = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==33 or _la==35):
                localctx._tset224 = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            localctx.attributes.append(localctx._tset224)
            self.state = 91
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==15:
                self.state = 87
                self.match(InsightsParser.COMMA)
                self.state = 88
                localctx._tset237 = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx._tset237 = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                localctx.attributes.append(localctx._tset237)
                self.state = 93
                self._errHandler.sync(self)
                _la = self._input.LA(1)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ScopeContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.value = None # TermContext
            self.by = None # GroupingContext
            self.when = None # TermContext

        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.TermContext)
            else:
                return self.getTypedRuleContext(InsightsParser.TermContext,i)


        def WHEN(self):
            return self.getToken(InsightsParser.WHEN, 0)

        def grouping(self):
            return self.getTypedRuleContext(InsightsParser.GroupingContext,0)


        def getRuleIndex(self):
            return InsightsParser.RULE_scope




    def scope(self):

        localctx = InsightsParser.ScopeContext(self, self._ctx, self.state)
        self.enterRule(localctx, 4, self.RULE_scope)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 94
            localctx.value = self.term(0)
            self.state = 96
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==2:
                self.state = 95
                localctx.by = self.grouping()


            self.state = 100
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==11:
                self.state = 98
                self.match(InsightsParser.WHEN)
                self.state = 99
                localctx.when = self.term(0)


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
            self.inner = None # ScopeContext
            self.copyFrom(ctx)

        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)
        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)
        def scope(self):
            return self.getTypedRuleContext(InsightsParser.ScopeContext,0)



    class WordContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.word = None # Token
            self.in_ = None # ParametersContext
            self._piece = None # PieceContext
            self.pieces = list() # of PieceContexts
            self.from_ = None # EntitiesContext
            self.copyFrom(ctx)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)
        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)
        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)
        def FROM(self):
            return self.getToken(InsightsParser.FROM, 0)
        def piece(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.PieceContext)
            else:
                return self.getTypedRuleContext(InsightsParser.PieceContext,i)

        def entities(self):
            return self.getTypedRuleContext(InsightsParser.EntitiesContext,0)

        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.COMMA)
            else:
                return self.getToken(InsightsParser.COMMA, i)
        def parameters(self):
            return self.getTypedRuleContext(InsightsParser.ParametersContext,0)



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



    class ReferenceContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.name = None # Token
            self.copyFrom(ctx)

        def INSIGHT(self):
            return self.getToken(InsightsParser.INSIGHT, 0)
        def ID(self):
            return self.getToken(InsightsParser.ID, 0)


    class AmountContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.value = None # Token
            self.unit = None # Token
            self.copyFrom(ctx)

        def NUMBER(self):
            return self.getToken(InsightsParser.NUMBER, 0)
        def UNIT(self):
            return self.getToken(InsightsParser.UNIT, 0)


    class DenialContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.operand = None # TermContext
            self.copyFrom(ctx)

        def NOT(self):
            return self.getToken(InsightsParser.NOT, 0)
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



    class QuotedContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.word = None # Token
            self.from_ = None # EntitiesContext
            self.copyFrom(ctx)

        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)
        def FROM(self):
            return self.getToken(InsightsParser.FROM, 0)
        def entities(self):
            return self.getTypedRuleContext(InsightsParser.EntitiesContext,0)



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


    class ElidedChoiceContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.choices = None # MembersContext
            self.copyFrom(ctx)

        def IN(self):
            return self.getToken(InsightsParser.IN, 0)
        def members(self):
            return self.getTypedRuleContext(InsightsParser.MembersContext,0)



    class TruthContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.value = None # Token
            self.copyFrom(ctx)

        def TRUE(self):
            return self.getToken(InsightsParser.TRUE, 0)
        def FALSE(self):
            return self.getToken(InsightsParser.FALSE, 0)


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
        _startState = 6
        self.enterRecursionRule(localctx, 6, self.RULE_term, _p)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 146
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [16]:
                localctx = InsightsParser.GroupContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx

                self.state = 103
                self.match(InsightsParser.LPAR)
                self.state = 104
                localctx.inner = self.scope()
                self.state = 105
                self.match(InsightsParser.RPAR)
                pass
            elif token in [51]:
                localctx = InsightsParser.ReferenceContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 107
                self.match(InsightsParser.INSIGHT)
                self.state = 108
                localctx.name = self.match(InsightsParser.ID)
                pass
            elif token in [33]:
                localctx = InsightsParser.WordContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 109
                localctx.word = self.match(InsightsParser.ID)
                self.state = 126
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,13,self._ctx)
                if la_ == 1:
                    self.state = 111
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==18:
                        self.state = 110
                        localctx.in_ = self.parameters()


                    self.state = 113
                    self.match(InsightsParser.LPAR)
                    self.state = 114
                    localctx._piece = self.piece()
                    localctx.pieces.append(localctx._piece)
                    self.state = 119
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    while _la==15:
                        self.state = 115
                        self.match(InsightsParser.COMMA)
                        self.state = 116
                        localctx._piece = self.piece()
                        localctx.pieces.append(localctx._piece)
                        self.state = 121
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)

                    self.state = 122
                    self.match(InsightsParser.RPAR)

                elif la_ == 2:
                    self.state = 124
                    self.match(InsightsParser.FROM)
                    self.state = 125
                    localctx.from_ = self.entities()


                pass
            elif token in [35]:
                localctx = InsightsParser.QuotedContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 128
                localctx.word = self.match(InsightsParser.STRING)
                self.state = 131
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,14,self._ctx)
                if la_ == 1:
                    self.state = 129
                    self.match(InsightsParser.FROM)
                    self.state = 130
                    localctx.from_ = self.entities()


                pass
            elif token in [34]:
                localctx = InsightsParser.AmountContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 133
                localctx.value = self.match(InsightsParser.NUMBER)
                self.state = 135
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,15,self._ctx)
                if la_ == 1:
                    self.state = 134
                    localctx.unit = self.match(InsightsParser.UNIT)


                pass
            elif token in [5, 10]:
                localctx = InsightsParser.TruthContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 137
                localctx.value = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==5 or _la==10):
                    localctx.value = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                pass
            elif token in [24]:
                localctx = InsightsParser.NegationContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 138
                self.match(InsightsParser.MINUS)
                self.state = 139
                localctx.operand = self.term(10)
                pass
            elif token in [22, 27, 28, 29, 30, 31, 32]:
                localctx = InsightsParser.ElidedComparisonContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 140
                localctx.operator = self._input.LT(1)
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 8459911168) != 0)):
                    localctx.operator = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 141
                localctx.right = self.term(6)
                pass
            elif token in [7]:
                localctx = InsightsParser.ElidedChoiceContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 142
                self.match(InsightsParser.IN)
                self.state = 143
                localctx.choices = self.members()
                pass
            elif token in [8]:
                localctx = InsightsParser.DenialContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 144
                self.match(InsightsParser.NOT)
                self.state = 145
                localctx.operand = self.term(3)
                pass
            else:
                raise NoViableAltException(self)

            self._ctx.stop = self._input.LT(-1)
            self.state = 171
            self._errHandler.sync(self)
            _alt = self._interp.adaptivePredict(self._input,19,self._ctx)
            while _alt!=2 and _alt!=ATN.INVALID_ALT_NUMBER:
                if _alt==1:
                    if self._parseListeners is not None:
                        self.triggerExitRuleEvent()
                    _prevctx = localctx
                    self.state = 169
                    self._errHandler.sync(self)
                    la_ = self._interp.adaptivePredict(self._input,18,self._ctx)
                    if la_ == 1:
                        localctx = InsightsParser.ArithmeticContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 148
                        if not self.precpred(self._ctx, 9):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 9)")
                        self.state = 149
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==25 or _la==26):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 150
                        localctx.right = self.term(10)
                        pass

                    elif la_ == 2:
                        localctx = InsightsParser.ArithmeticContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 151
                        if not self.precpred(self._ctx, 8):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 8)")
                        self.state = 152
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==23 or _la==24):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 153
                        localctx.right = self.term(9)
                        pass

                    elif la_ == 3:
                        localctx = InsightsParser.ComparisonContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 154
                        if not self.precpred(self._ctx, 7):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 7)")
                        self.state = 155
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 8459911168) != 0)):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 156
                        localctx.right = self.term(8)
                        pass

                    elif la_ == 4:
                        localctx = InsightsParser.ConjunctionContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 157
                        if not self.precpred(self._ctx, 2):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 2)")
                        self.state = 158
                        self.match(InsightsParser.AND)
                        self.state = 159
                        localctx.right = self.term(3)
                        pass

                    elif la_ == 5:
                        localctx = InsightsParser.DisjunctionContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 160
                        if not self.precpred(self._ctx, 1):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 1)")
                        self.state = 161
                        self.match(InsightsParser.OR)
                        self.state = 162
                        localctx.right = self.term(2)
                        pass

                    elif la_ == 6:
                        localctx = InsightsParser.ChoiceContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.operand = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 163
                        if not self.precpred(self._ctx, 5):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 5)")
                        self.state = 165
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)
                        if _la==8:
                            self.state = 164
                            localctx.negated = self.match(InsightsParser.NOT)


                        self.state = 167
                        self.match(InsightsParser.IN)
                        self.state = 168
                        localctx.choices = self.members()
                        pass

             
                self.state = 173
                self._errHandler.sync(self)
                _alt = self._interp.adaptivePredict(self._input,19,self._ctx)

        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.unrollRecursionContexts(_parentctx)
        return localctx


    class ParametersContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self._parameter = None # ParameterContext
            self.given = list() # of ParameterContexts

        def LBRACKET(self):
            return self.getToken(InsightsParser.LBRACKET, 0)

        def RBRACKET(self):
            return self.getToken(InsightsParser.RBRACKET, 0)

        def parameter(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.ParameterContext)
            else:
                return self.getTypedRuleContext(InsightsParser.ParameterContext,i)


        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.COMMA)
            else:
                return self.getToken(InsightsParser.COMMA, i)

        def getRuleIndex(self):
            return InsightsParser.RULE_parameters




    def parameters(self):

        localctx = InsightsParser.ParametersContext(self, self._ctx, self.state)
        self.enterRule(localctx, 8, self.RULE_parameters)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 174
            self.match(InsightsParser.LBRACKET)
            self.state = 175
            localctx._parameter = self.parameter()
            localctx.given.append(localctx._parameter)
            self.state = 180
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==15:
                self.state = 176
                self.match(InsightsParser.COMMA)
                self.state = 177
                localctx._parameter = self.parameter()
                localctx.given.append(localctx._parameter)
                self.state = 182
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 183
            self.match(InsightsParser.RBRACKET)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ParameterContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.amount = None # NumberContext
            self.unit = None # Token
            self.name = None # Token

        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)


        def UNIT(self):
            return self.getToken(InsightsParser.UNIT, 0)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_parameter




    def parameter(self):

        localctx = InsightsParser.ParameterContext(self, self._ctx, self.state)
        self.enterRule(localctx, 10, self.RULE_parameter)
        self._la = 0 # Token type
        try:
            self.state = 190
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23, 24, 34]:
                self.enterOuterAlt(localctx, 1)
                self.state = 185
                localctx.amount = self.number()
                self.state = 187
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==64:
                    self.state = 186
                    localctx.unit = self.match(InsightsParser.UNIT)


                pass
            elif token in [33]:
                self.enterOuterAlt(localctx, 2)
                self.state = 189
                localctx.name = self.match(InsightsParser.ID)
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


    class PieceContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.value = None # TermContext
            self.by = None # Token
            self.when = None # TermContext

        def term(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.TermContext)
            else:
                return self.getTypedRuleContext(InsightsParser.TermContext,i)


        def BY(self):
            return self.getToken(InsightsParser.BY, 0)

        def WHEN(self):
            return self.getToken(InsightsParser.WHEN, 0)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_piece




    def piece(self):

        localctx = InsightsParser.PieceContext(self, self._ctx, self.state)
        self.enterRule(localctx, 12, self.RULE_piece)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 192
            localctx.value = self.term(0)
            self.state = 195
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==2:
                self.state = 193
                self.match(InsightsParser.BY)
                self.state = 194
                localctx.by = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx.by = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()


            self.state = 199
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==11:
                self.state = 197
                self.match(InsightsParser.WHEN)
                self.state = 198
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
            self._tset713 = None # Token
            self._tset726 = None # Token

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
            self.state = 201
            self.match(InsightsParser.LPAR)
            self.state = 202
            localctx._tset713 = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==33 or _la==35):
                localctx._tset713 = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            localctx.names.append(localctx._tset713)
            self.state = 207
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==15:
                self.state = 203
                self.match(InsightsParser.COMMA)
                self.state = 204
                localctx._tset726 = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx._tset726 = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                localctx.names.append(localctx._tset726)
                self.state = 209
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 210
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
            self.state = 212
            self.match(InsightsParser.LPAR)
            self.state = 213
            localctx._member = self.member()
            localctx.values.append(localctx._member)
            self.state = 218
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==15:
                self.state = 214
                self.match(InsightsParser.COMMA)
                self.state = 215
                localctx._member = self.member()
                localctx.values.append(localctx._member)
                self.state = 220
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 221
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
            self.amount = None # NumberContext
            self.value = None # Token

        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)


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
            self.state = 225
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23, 24, 34]:
                self.enterOuterAlt(localctx, 1)
                self.state = 223
                localctx.amount = self.number()
                pass
            elif token in [5, 10, 35]:
                self.enterOuterAlt(localctx, 2)
                self.state = 224
                localctx.value = self._input.LT(1)
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 34359739424) != 0)):
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
            self.amount = None # NumberContext
            self.unit = None # Token

        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)


        def UNIT(self):
            return self.getToken(InsightsParser.UNIT, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_interval




    def interval(self):

        localctx = InsightsParser.IntervalContext(self, self._ctx, self.state)
        self.enterRule(localctx, 20, self.RULE_interval)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 227
            localctx.amount = self.number()
            self.state = 228
            localctx.unit = self.match(InsightsParser.UNIT)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class RhythmContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.every = None # IntervalContext
            self.hour = None # Token
            self.minute = None # Token
            self.zone = None # Token

        def interval(self):
            return self.getTypedRuleContext(InsightsParser.IntervalContext,0)


        def AT(self):
            return self.getToken(InsightsParser.AT, 0)

        def COLON(self):
            return self.getToken(InsightsParser.COLON, 0)

        def NUMBER(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.NUMBER)
            else:
                return self.getToken(InsightsParser.NUMBER, i)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_rhythm




    def rhythm(self):

        localctx = InsightsParser.RhythmContext(self, self._ctx, self.state)
        self.enterRule(localctx, 22, self.RULE_rhythm)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 230
            localctx.every = self.interval()
            self.state = 238
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==45:
                self.state = 231
                self.match(InsightsParser.AT)
                self.state = 232
                localctx.hour = self.match(InsightsParser.NUMBER)
                self.state = 233
                self.match(InsightsParser.COLON)
                self.state = 234
                localctx.minute = self.match(InsightsParser.NUMBER)
                self.state = 236
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==33 or _la==35:
                    self.state = 235
                    localctx.zone = self._input.LT(1)
                    _la = self._input.LA(1)
                    if not(_la==33 or _la==35):
                        localctx.zone = self._errHandler.recoverInline(self)
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


    class NumberContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.minus = None # Token
            self.value = None # Token

        def NUMBER(self):
            return self.getToken(InsightsParser.NUMBER, 0)

        def PLUS(self):
            return self.getToken(InsightsParser.PLUS, 0)

        def MINUS(self):
            return self.getToken(InsightsParser.MINUS, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_number




    def number(self):

        localctx = InsightsParser.NumberContext(self, self._ctx, self.state)
        self.enterRule(localctx, 24, self.RULE_number)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 242
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23]:
                self.state = 240
                self.match(InsightsParser.PLUS)
                pass
            elif token in [24]:
                self.state = 241
                localctx.minus = self.match(InsightsParser.MINUS)
                pass
            elif token in [34]:
                pass
            else:
                pass
            self.state = 244
            localctx.value = self.match(InsightsParser.NUMBER)
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
            self._setting = None # SettingContext
            self.pairs = list() # of SettingContexts

        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)

        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)

        def setting(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.SettingContext)
            else:
                return self.getTypedRuleContext(InsightsParser.SettingContext,i)


        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.COMMA)
            else:
                return self.getToken(InsightsParser.COMMA, i)

        def getRuleIndex(self):
            return InsightsParser.RULE_settings




    def settings(self):

        localctx = InsightsParser.SettingsContext(self, self._ctx, self.state)
        self.enterRule(localctx, 26, self.RULE_settings)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 246
            self.match(InsightsParser.LPAR)
            self.state = 255
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==33 or _la==35:
                self.state = 247
                localctx._setting = self.setting()
                localctx.pairs.append(localctx._setting)
                self.state = 252
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while _la==15:
                    self.state = 248
                    self.match(InsightsParser.COMMA)
                    self.state = 249
                    localctx._setting = self.setting()
                    localctx.pairs.append(localctx._setting)
                    self.state = 254
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)



            self.state = 257
            self.match(InsightsParser.RPAR)
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
            self.key = None # Token
            self.value = None # MemberContext
            self.values = None # MembersContext

        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)

        def member(self):
            return self.getTypedRuleContext(InsightsParser.MemberContext,0)


        def members(self):
            return self.getTypedRuleContext(InsightsParser.MembersContext,0)


        def getRuleIndex(self):
            return InsightsParser.RULE_setting




    def setting(self):

        localctx = InsightsParser.SettingContext(self, self._ctx, self.state)
        self.enterRule(localctx, 28, self.RULE_setting)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 259
            localctx.key = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==33 or _la==35):
                localctx.key = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            self.state = 260
            self.match(InsightsParser.ASSIGN)
            self.state = 263
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [5, 10, 23, 24, 34, 35]:
                self.state = 261
                localctx.value = self.member()
                pass
            elif token in [16]:
                self.state = 262
                localctx.values = self.members()
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


    class OptionContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser


        def getRuleIndex(self):
            return InsightsParser.RULE_option

     
        def copyFrom(self, ctx:ParserRuleContext):
            super().copyFrom(ctx)



    class SampleContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.amount = None # NumberContext
            self.copyFrom(ctx)

        def SAMPLE(self):
            return self.getToken(InsightsParser.SAMPLE, 0)
        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)



    class AwarenessContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.what = None # Token
            self.copyFrom(ctx)

        def AWARENESS(self):
            return self.getToken(InsightsParser.AWARENESS, 0)
        def ON(self):
            return self.getToken(InsightsParser.ON, 0)
        def ID(self):
            return self.getToken(InsightsParser.ID, 0)


    class SchedulerContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.name = None # Token
            self.given = None # SettingsContext
            self.copyFrom(ctx)

        def SCHEDULER(self):
            return self.getToken(InsightsParser.SCHEDULER, 0)
        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)
        def ID(self):
            return self.getToken(InsightsParser.ID, 0)
        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)
        def settings(self):
            return self.getTypedRuleContext(InsightsParser.SettingsContext,0)



    class PlacementOnContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.key = None # Token
            self.value = None # MemberContext
            self.count = None # NumberContext
            self.own = None # Token
            self.copyFrom(ctx)

        def PLACEMENT_ON(self):
            return self.getToken(InsightsParser.PLACEMENT_ON, 0)
        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)
        def member(self):
            return self.getTypedRuleContext(InsightsParser.MemberContext,0)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)
        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)
        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)

        def DEDICATED(self):
            return self.getToken(InsightsParser.DEDICATED, 0)


    class RangeContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.range_ = None # NumberContext
            self.copyFrom(ctx)

        def R(self):
            return self.getToken(InsightsParser.R, 0)
        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)
        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)



    class AlgorithmContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.name = None # Token
            self.copyFrom(ctx)

        def ALGORITHM(self):
            return self.getToken(InsightsParser.ALGORITHM, 0)
        def ID(self):
            return self.getToken(InsightsParser.ID, 0)
        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)


    class AllowContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.when = None # TermContext
            self.copyFrom(ctx)

        def ALLOW(self):
            return self.getToken(InsightsParser.ALLOW, 0)
        def WHEN(self):
            return self.getToken(InsightsParser.WHEN, 0)
        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)



    class AdamContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.copyFrom(ctx)

        def ADAM(self):
            return self.getToken(InsightsParser.ADAM, 0)


    class CostCapContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.amount = None # NumberContext
            self.per = None # IntervalContext
            self.copyFrom(ctx)

        def COST_CAP(self):
            return self.getToken(InsightsParser.COST_CAP, 0)
        def PER(self):
            return self.getToken(InsightsParser.PER, 0)
        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)

        def interval(self):
            return self.getTypedRuleContext(InsightsParser.IntervalContext,0)



    class ConfidenceContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.share = None # NumberContext
            self.copyFrom(ctx)

        def CONFIDENCE(self):
            return self.getToken(InsightsParser.CONFIDENCE, 0)
        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)



    class SalienceContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.level = None # NumberContext
            self.copyFrom(ctx)

        def SALIENCE(self):
            return self.getToken(InsightsParser.SALIENCE, 0)
        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)



    class SignatureContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.name = None # Token
            self.copyFrom(ctx)

        def SIGNATURE(self):
            return self.getToken(InsightsParser.SIGNATURE, 0)
        def STRING(self):
            return self.getToken(InsightsParser.STRING, 0)


    class NeighboursContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.count = None # NumberContext
            self.copyFrom(ctx)

        def K(self):
            return self.getToken(InsightsParser.K, 0)
        def ASSIGN(self):
            return self.getToken(InsightsParser.ASSIGN, 0)
        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)



    class MaxErrorContext(OptionContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.OptionContext
            super().__init__(parser)
            self.share = None # NumberContext
            self.copyFrom(ctx)

        def MAX_ERROR(self):
            return self.getToken(InsightsParser.MAX_ERROR, 0)
        def number(self):
            return self.getTypedRuleContext(InsightsParser.NumberContext,0)




    def option(self):

        localctx = InsightsParser.OptionContext(self, self._ctx, self.state)
        self.enterRule(localctx, 30, self.RULE_option)
        self._la = 0 # Token type
        try:
            self.state = 311
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [59]:
                localctx = InsightsParser.SalienceContext(self, localctx)
                self.enterOuterAlt(localctx, 1)
                self.state = 265
                self.match(InsightsParser.SALIENCE)
                self.state = 266
                localctx.level = self.number()
                pass
            elif token in [60]:
                localctx = InsightsParser.SampleContext(self, localctx)
                self.enterOuterAlt(localctx, 2)
                self.state = 267
                self.match(InsightsParser.SAMPLE)
                self.state = 268
                localctx.amount = self.number()
                pass
            elif token in [54]:
                localctx = InsightsParser.MaxErrorContext(self, localctx)
                self.enterOuterAlt(localctx, 3)
                self.state = 269
                self.match(InsightsParser.MAX_ERROR)
                self.state = 270
                localctx.share = self.number()
                pass
            elif token in [47]:
                localctx = InsightsParser.ConfidenceContext(self, localctx)
                self.enterOuterAlt(localctx, 4)
                self.state = 271
                self.match(InsightsParser.CONFIDENCE)
                self.state = 272
                localctx.share = self.number()
                pass
            elif token in [46]:
                localctx = InsightsParser.AwarenessContext(self, localctx)
                self.enterOuterAlt(localctx, 5)
                self.state = 273
                self.match(InsightsParser.AWARENESS)
                self.state = 274
                self.match(InsightsParser.ON)
                self.state = 275
                localctx.what = self.match(InsightsParser.ID)
                pass
            elif token in [42]:
                localctx = InsightsParser.AdamContext(self, localctx)
                self.enterOuterAlt(localctx, 6)
                self.state = 276
                self.match(InsightsParser.ADAM)
                pass
            elif token in [43]:
                localctx = InsightsParser.AlgorithmContext(self, localctx)
                self.enterOuterAlt(localctx, 7)
                self.state = 277
                self.match(InsightsParser.ALGORITHM)
                self.state = 278
                localctx.name = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx.name = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                pass
            elif token in [53]:
                localctx = InsightsParser.NeighboursContext(self, localctx)
                self.enterOuterAlt(localctx, 8)
                self.state = 279
                self.match(InsightsParser.K)
                self.state = 280
                self.match(InsightsParser.ASSIGN)
                self.state = 281
                localctx.count = self.number()
                pass
            elif token in [58]:
                localctx = InsightsParser.RangeContext(self, localctx)
                self.enterOuterAlt(localctx, 9)
                self.state = 282
                self.match(InsightsParser.R)
                self.state = 283
                self.match(InsightsParser.ASSIGN)
                self.state = 284
                localctx.range_ = self.number()
                pass
            elif token in [61]:
                localctx = InsightsParser.SchedulerContext(self, localctx)
                self.enterOuterAlt(localctx, 10)
                self.state = 285
                self.match(InsightsParser.SCHEDULER)
                self.state = 286
                self.match(InsightsParser.ASSIGN)
                self.state = 287
                localctx.name = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx.name = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 289
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==16:
                    self.state = 288
                    localctx.given = self.settings()


                pass
            elif token in [48]:
                localctx = InsightsParser.CostCapContext(self, localctx)
                self.enterOuterAlt(localctx, 11)
                self.state = 291
                self.match(InsightsParser.COST_CAP)
                self.state = 292
                localctx.amount = self.number()
                self.state = 293
                self.match(InsightsParser.PER)
                self.state = 294
                localctx.per = self.interval()
                pass
            elif token in [57]:
                localctx = InsightsParser.PlacementOnContext(self, localctx)
                self.enterOuterAlt(localctx, 12)
                self.state = 296
                self.match(InsightsParser.PLACEMENT_ON)
                self.state = 297
                localctx.key = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx.key = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 298
                self.match(InsightsParser.ASSIGN)
                self.state = 299
                localctx.value = self.member()
                self.state = 301
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if (((_la) & ~0x3f) == 0 and ((1 << _la) & 17205035008) != 0):
                    self.state = 300
                    localctx.count = self.number()


                self.state = 304
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==49:
                    self.state = 303
                    localctx.own = self.match(InsightsParser.DEDICATED)


                pass
            elif token in [44]:
                localctx = InsightsParser.AllowContext(self, localctx)
                self.enterOuterAlt(localctx, 13)
                self.state = 306
                self.match(InsightsParser.ALLOW)
                self.state = 307
                self.match(InsightsParser.WHEN)
                self.state = 308
                localctx.when = self.term(0)
                pass
            elif token in [62]:
                localctx = InsightsParser.SignatureContext(self, localctx)
                self.enterOuterAlt(localctx, 14)
                self.state = 309
                self.match(InsightsParser.SIGNATURE)
                self.state = 310
                localctx.name = self.match(InsightsParser.STRING)
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



    def sempred(self, localctx:RuleContext, ruleIndex:int, predIndex:int):
        if self._predicates == None:
            self._predicates = dict()
        self._predicates[3] = self.term_sempred
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
         




