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
        4,1,65,344,2,0,7,0,2,1,7,1,2,2,7,2,2,3,7,3,2,4,7,4,2,5,7,5,2,6,7,
        6,2,7,7,7,2,8,7,8,2,9,7,9,2,10,7,10,2,11,7,11,2,12,7,12,2,13,7,13,
        2,14,7,14,2,15,7,15,2,16,7,16,1,0,1,0,1,0,1,0,1,0,1,0,5,0,41,8,0,
        10,0,12,0,44,9,0,1,0,1,0,1,0,1,0,3,0,50,8,0,1,0,1,0,1,0,1,0,1,0,
        1,0,1,0,1,0,1,0,1,0,1,0,1,0,3,0,64,8,0,1,0,1,0,3,0,68,8,0,1,0,1,
        0,3,0,72,8,0,1,0,1,0,1,0,1,0,5,0,78,8,0,10,0,12,0,81,9,0,3,0,83,
        8,0,3,0,85,8,0,3,0,87,8,0,1,0,1,0,1,1,1,1,1,1,1,1,5,1,95,8,1,10,
        1,12,1,98,9,1,1,2,1,2,3,2,102,8,2,1,2,1,2,3,2,106,8,2,1,3,1,3,1,
        3,1,3,1,3,1,3,1,3,1,3,1,3,3,3,117,8,3,1,3,1,3,1,3,1,3,5,3,123,8,
        3,10,3,12,3,126,9,3,1,3,1,3,1,3,1,3,3,3,132,8,3,1,3,1,3,1,3,3,3,
        137,8,3,1,3,1,3,3,3,141,8,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,
        3,3,152,8,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,1,3,
        1,3,1,3,1,3,1,3,1,3,1,3,1,3,5,3,174,8,3,10,3,12,3,177,9,3,1,3,1,
        3,3,3,181,8,3,1,3,1,3,5,3,185,8,3,10,3,12,3,188,9,3,1,4,1,4,1,4,
        1,4,5,4,194,8,4,10,4,12,4,197,9,4,1,4,1,4,1,5,1,5,3,5,203,8,5,1,
        5,3,5,206,8,5,1,6,1,6,1,6,3,6,211,8,6,1,6,1,6,3,6,215,8,6,1,7,1,
        7,1,7,1,7,5,7,221,8,7,10,7,12,7,224,9,7,1,7,1,7,1,8,1,8,1,8,1,8,
        1,8,1,8,5,8,234,8,8,10,8,12,8,237,9,8,1,8,1,8,3,8,241,8,8,1,9,1,
        9,1,9,1,9,5,9,247,8,9,10,9,12,9,250,9,9,1,9,1,9,1,10,1,10,3,10,256,
        8,10,1,11,1,11,1,11,1,12,1,12,1,12,1,12,1,12,1,12,3,12,267,8,12,
        3,12,269,8,12,1,13,1,13,3,13,273,8,13,1,13,1,13,1,14,1,14,1,14,1,
        14,5,14,281,8,14,10,14,12,14,284,9,14,3,14,286,8,14,1,14,1,14,1,
        15,1,15,1,15,1,15,3,15,294,8,15,1,16,1,16,1,16,1,16,1,16,1,16,1,
        16,1,16,1,16,1,16,1,16,1,16,1,16,1,16,1,16,1,16,1,16,1,16,1,16,1,
        16,1,16,1,16,1,16,1,16,3,16,320,8,16,1,16,1,16,1,16,1,16,1,16,1,
        16,1,16,1,16,1,16,1,16,3,16,332,8,16,1,16,3,16,335,8,16,1,16,1,16,
        1,16,1,16,1,16,3,16,342,8,16,1,16,0,1,6,17,0,2,4,6,8,10,12,14,16,
        18,20,22,24,26,28,30,32,0,6,2,0,33,33,35,35,2,0,5,5,10,10,2,0,22,
        22,27,32,1,0,25,26,1,0,23,24,4,0,5,5,10,10,33,33,35,35,395,0,86,
        1,0,0,0,2,90,1,0,0,0,4,99,1,0,0,0,6,151,1,0,0,0,8,189,1,0,0,0,10,
        205,1,0,0,0,12,207,1,0,0,0,14,216,1,0,0,0,16,240,1,0,0,0,18,242,
        1,0,0,0,20,255,1,0,0,0,22,257,1,0,0,0,24,260,1,0,0,0,26,272,1,0,
        0,0,28,276,1,0,0,0,30,289,1,0,0,0,32,341,1,0,0,0,34,35,5,50,0,0,
        35,36,5,33,0,0,36,37,5,16,0,0,37,42,5,33,0,0,38,39,5,15,0,0,39,41,
        5,33,0,0,40,38,1,0,0,0,41,44,1,0,0,0,42,40,1,0,0,0,42,43,1,0,0,0,
        43,45,1,0,0,0,44,42,1,0,0,0,45,46,5,17,0,0,46,49,5,20,0,0,47,50,
        3,4,2,0,48,50,3,18,9,0,49,47,1,0,0,0,49,48,1,0,0,0,50,51,1,0,0,0,
        51,52,5,21,0,0,52,87,1,0,0,0,53,84,5,33,0,0,54,55,5,14,0,0,55,56,
        5,64,0,0,56,57,5,6,0,0,57,58,5,33,0,0,58,85,3,28,14,0,59,60,5,22,
        0,0,60,61,5,3,0,0,61,63,3,6,3,0,62,64,3,2,1,0,63,62,1,0,0,0,63,64,
        1,0,0,0,64,67,1,0,0,0,65,66,5,11,0,0,66,68,3,6,3,0,67,65,1,0,0,0,
        67,68,1,0,0,0,68,71,1,0,0,0,69,70,5,4,0,0,70,72,3,24,12,0,71,69,
        1,0,0,0,71,72,1,0,0,0,72,82,1,0,0,0,73,74,5,12,0,0,74,79,3,32,16,
        0,75,76,5,52,0,0,76,78,3,32,16,0,77,75,1,0,0,0,78,81,1,0,0,0,79,
        77,1,0,0,0,79,80,1,0,0,0,80,83,1,0,0,0,81,79,1,0,0,0,82,73,1,0,0,
        0,82,83,1,0,0,0,83,85,1,0,0,0,84,54,1,0,0,0,84,59,1,0,0,0,85,87,
        1,0,0,0,86,34,1,0,0,0,86,53,1,0,0,0,87,88,1,0,0,0,88,89,5,0,0,1,
        89,1,1,0,0,0,90,91,5,2,0,0,91,96,7,0,0,0,92,93,5,15,0,0,93,95,7,
        0,0,0,94,92,1,0,0,0,95,98,1,0,0,0,96,94,1,0,0,0,96,97,1,0,0,0,97,
        3,1,0,0,0,98,96,1,0,0,0,99,101,3,6,3,0,100,102,3,2,1,0,101,100,1,
        0,0,0,101,102,1,0,0,0,102,105,1,0,0,0,103,104,5,11,0,0,104,106,3,
        6,3,0,105,103,1,0,0,0,105,106,1,0,0,0,106,5,1,0,0,0,107,108,6,3,
        -1,0,108,109,5,16,0,0,109,110,3,4,2,0,110,111,5,17,0,0,111,152,1,
        0,0,0,112,113,5,51,0,0,113,152,5,33,0,0,114,131,5,33,0,0,115,117,
        3,8,4,0,116,115,1,0,0,0,116,117,1,0,0,0,117,118,1,0,0,0,118,119,
        5,16,0,0,119,124,3,12,6,0,120,121,5,15,0,0,121,123,3,12,6,0,122,
        120,1,0,0,0,123,126,1,0,0,0,124,122,1,0,0,0,124,125,1,0,0,0,125,
        127,1,0,0,0,126,124,1,0,0,0,127,128,5,17,0,0,128,132,1,0,0,0,129,
        130,5,6,0,0,130,132,3,14,7,0,131,116,1,0,0,0,131,129,1,0,0,0,131,
        132,1,0,0,0,132,152,1,0,0,0,133,136,5,35,0,0,134,135,5,6,0,0,135,
        137,3,14,7,0,136,134,1,0,0,0,136,137,1,0,0,0,137,152,1,0,0,0,138,
        140,5,34,0,0,139,141,5,65,0,0,140,139,1,0,0,0,140,141,1,0,0,0,141,
        152,1,0,0,0,142,152,7,1,0,0,143,144,5,24,0,0,144,152,3,6,3,10,145,
        146,7,2,0,0,146,152,3,6,3,6,147,148,5,7,0,0,148,152,3,16,8,0,149,
        150,5,8,0,0,150,152,3,6,3,3,151,107,1,0,0,0,151,112,1,0,0,0,151,
        114,1,0,0,0,151,133,1,0,0,0,151,138,1,0,0,0,151,142,1,0,0,0,151,
        143,1,0,0,0,151,145,1,0,0,0,151,147,1,0,0,0,151,149,1,0,0,0,152,
        186,1,0,0,0,153,154,10,9,0,0,154,155,7,3,0,0,155,185,3,6,3,10,156,
        157,10,8,0,0,157,158,7,4,0,0,158,185,3,6,3,9,159,160,10,7,0,0,160,
        161,7,2,0,0,161,185,3,6,3,8,162,163,10,2,0,0,163,164,5,1,0,0,164,
        185,3,6,3,3,165,166,10,1,0,0,166,167,5,9,0,0,167,185,3,6,3,2,168,
        169,10,11,0,0,169,170,5,54,0,0,170,175,7,0,0,0,171,172,5,15,0,0,
        172,174,7,0,0,0,173,171,1,0,0,0,174,177,1,0,0,0,175,173,1,0,0,0,
        175,176,1,0,0,0,176,185,1,0,0,0,177,175,1,0,0,0,178,180,10,5,0,0,
        179,181,5,8,0,0,180,179,1,0,0,0,180,181,1,0,0,0,181,182,1,0,0,0,
        182,183,5,7,0,0,183,185,3,16,8,0,184,153,1,0,0,0,184,156,1,0,0,0,
        184,159,1,0,0,0,184,162,1,0,0,0,184,165,1,0,0,0,184,168,1,0,0,0,
        184,178,1,0,0,0,185,188,1,0,0,0,186,184,1,0,0,0,186,187,1,0,0,0,
        187,7,1,0,0,0,188,186,1,0,0,0,189,190,5,18,0,0,190,195,3,10,5,0,
        191,192,5,15,0,0,192,194,3,10,5,0,193,191,1,0,0,0,194,197,1,0,0,
        0,195,193,1,0,0,0,195,196,1,0,0,0,196,198,1,0,0,0,197,195,1,0,0,
        0,198,199,5,19,0,0,199,9,1,0,0,0,200,202,3,26,13,0,201,203,5,65,
        0,0,202,201,1,0,0,0,202,203,1,0,0,0,203,206,1,0,0,0,204,206,5,33,
        0,0,205,200,1,0,0,0,205,204,1,0,0,0,206,11,1,0,0,0,207,210,3,6,3,
        0,208,209,5,2,0,0,209,211,7,0,0,0,210,208,1,0,0,0,210,211,1,0,0,
        0,211,214,1,0,0,0,212,213,5,11,0,0,213,215,3,6,3,0,214,212,1,0,0,
        0,214,215,1,0,0,0,215,13,1,0,0,0,216,217,5,16,0,0,217,222,7,0,0,
        0,218,219,5,15,0,0,219,221,7,0,0,0,220,218,1,0,0,0,221,224,1,0,0,
        0,222,220,1,0,0,0,222,223,1,0,0,0,223,225,1,0,0,0,224,222,1,0,0,
        0,225,226,5,17,0,0,226,15,1,0,0,0,227,241,3,18,9,0,228,229,5,33,
        0,0,229,230,5,16,0,0,230,235,3,12,6,0,231,232,5,15,0,0,232,234,3,
        12,6,0,233,231,1,0,0,0,234,237,1,0,0,0,235,233,1,0,0,0,235,236,1,
        0,0,0,236,238,1,0,0,0,237,235,1,0,0,0,238,239,5,17,0,0,239,241,1,
        0,0,0,240,227,1,0,0,0,240,228,1,0,0,0,241,17,1,0,0,0,242,243,5,16,
        0,0,243,248,3,20,10,0,244,245,5,15,0,0,245,247,3,20,10,0,246,244,
        1,0,0,0,247,250,1,0,0,0,248,246,1,0,0,0,248,249,1,0,0,0,249,251,
        1,0,0,0,250,248,1,0,0,0,251,252,5,17,0,0,252,19,1,0,0,0,253,256,
        3,26,13,0,254,256,7,5,0,0,255,253,1,0,0,0,255,254,1,0,0,0,256,21,
        1,0,0,0,257,258,3,26,13,0,258,259,5,65,0,0,259,23,1,0,0,0,260,268,
        3,22,11,0,261,262,5,45,0,0,262,263,5,34,0,0,263,264,5,14,0,0,264,
        266,5,34,0,0,265,267,7,0,0,0,266,265,1,0,0,0,266,267,1,0,0,0,267,
        269,1,0,0,0,268,261,1,0,0,0,268,269,1,0,0,0,269,25,1,0,0,0,270,273,
        5,23,0,0,271,273,5,24,0,0,272,270,1,0,0,0,272,271,1,0,0,0,272,273,
        1,0,0,0,273,274,1,0,0,0,274,275,5,34,0,0,275,27,1,0,0,0,276,285,
        5,16,0,0,277,282,3,30,15,0,278,279,5,15,0,0,279,281,3,30,15,0,280,
        278,1,0,0,0,281,284,1,0,0,0,282,280,1,0,0,0,282,283,1,0,0,0,283,
        286,1,0,0,0,284,282,1,0,0,0,285,277,1,0,0,0,285,286,1,0,0,0,286,
        287,1,0,0,0,287,288,5,17,0,0,288,29,1,0,0,0,289,290,7,0,0,0,290,
        293,5,22,0,0,291,294,3,20,10,0,292,294,3,18,9,0,293,291,1,0,0,0,
        293,292,1,0,0,0,294,31,1,0,0,0,295,296,5,60,0,0,296,342,3,26,13,
        0,297,298,5,61,0,0,298,342,3,26,13,0,299,300,5,55,0,0,300,342,3,
        26,13,0,301,302,5,47,0,0,302,342,3,26,13,0,303,304,5,46,0,0,304,
        305,5,56,0,0,305,342,5,33,0,0,306,342,5,42,0,0,307,308,5,43,0,0,
        308,342,7,0,0,0,309,310,5,53,0,0,310,311,5,22,0,0,311,342,3,26,13,
        0,312,313,5,59,0,0,313,314,5,22,0,0,314,342,3,26,13,0,315,316,5,
        62,0,0,316,317,5,22,0,0,317,319,7,0,0,0,318,320,3,28,14,0,319,318,
        1,0,0,0,319,320,1,0,0,0,320,342,1,0,0,0,321,322,5,48,0,0,322,323,
        3,26,13,0,323,324,5,57,0,0,324,325,3,22,11,0,325,342,1,0,0,0,326,
        327,5,58,0,0,327,328,7,0,0,0,328,329,5,22,0,0,329,331,3,20,10,0,
        330,332,3,26,13,0,331,330,1,0,0,0,331,332,1,0,0,0,332,334,1,0,0,
        0,333,335,5,49,0,0,334,333,1,0,0,0,334,335,1,0,0,0,335,342,1,0,0,
        0,336,337,5,44,0,0,337,338,5,11,0,0,338,342,3,6,3,0,339,340,5,63,
        0,0,340,342,7,0,0,0,341,295,1,0,0,0,341,297,1,0,0,0,341,299,1,0,
        0,0,341,301,1,0,0,0,341,303,1,0,0,0,341,306,1,0,0,0,341,307,1,0,
        0,0,341,309,1,0,0,0,341,312,1,0,0,0,341,315,1,0,0,0,341,321,1,0,
        0,0,341,326,1,0,0,0,341,336,1,0,0,0,341,339,1,0,0,0,342,33,1,0,0,
        0,42,42,49,63,67,71,79,82,84,86,96,101,105,116,124,131,136,140,151,
        175,180,184,186,195,202,205,210,214,222,235,240,248,255,266,268,
        272,282,285,293,319,331,334,341
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
                      "INSIGHT", "JOINT", "K", "KEYED", "MAX_ERROR", "ON", 
                      "PER", "PLACEMENT_ON", "R", "SALIENCE", "SAMPLE", 
                      "SCHEDULER", "SIGNATURE", "STREAM", "UNIT" ]

    RULE_statement = 0
    RULE_grouping = 1
    RULE_scope = 2
    RULE_term = 3
    RULE_parameters = 4
    RULE_parameter = 5
    RULE_piece = 6
    RULE_entities = 7
    RULE_listing = 8
    RULE_members = 9
    RULE_member = 10
    RULE_interval = 11
    RULE_rhythm = 12
    RULE_number = 13
    RULE_settings = 14
    RULE_setting = 15
    RULE_option = 16

    ruleNames =  [ "statement", "grouping", "scope", "term", "parameters", 
                   "parameter", "piece", "entities", "listing", "members", 
                   "member", "interval", "rhythm", "number", "settings", 
                   "setting", "option" ]

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
    KEYED=54
    MAX_ERROR=55
    ON=56
    PER=57
    PLACEMENT_ON=58
    R=59
    SALIENCE=60
    SAMPLE=61
    SCHEDULER=62
    SIGNATURE=63
    STREAM=64
    UNIT=65

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
            self.listed = None # MembersContext
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

        def scope(self):
            return self.getTypedRuleContext(InsightsParser.ScopeContext,0)


        def members(self):
            return self.getTypedRuleContext(InsightsParser.MembersContext,0)


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
            self.state = 86
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [50]:
                self.state = 34
                self.match(InsightsParser.FUNCTION)
                self.state = 35
                localctx.name = self.match(InsightsParser.ID)
                self.state = 36
                self.match(InsightsParser.LPAR)
                self.state = 37
                localctx._ID = self.match(InsightsParser.ID)
                localctx.takes.append(localctx._ID)
                self.state = 42
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while _la==15:
                    self.state = 38
                    self.match(InsightsParser.COMMA)
                    self.state = 39
                    localctx._ID = self.match(InsightsParser.ID)
                    localctx.takes.append(localctx._ID)
                    self.state = 44
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                self.state = 45
                self.match(InsightsParser.RPAR)
                self.state = 46
                self.match(InsightsParser.LBRACE)
                self.state = 49
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,1,self._ctx)
                if la_ == 1:
                    self.state = 47
                    localctx.body = self.scope()
                    pass

                elif la_ == 2:
                    self.state = 48
                    localctx.listed = self.members()
                    pass


                self.state = 51
                self.match(InsightsParser.RBRACE)
                pass
            elif token in [33]:
                self.state = 53
                localctx.name = self.match(InsightsParser.ID)
                self.state = 84
                self._errHandler.sync(self)
                token = self._input.LA(1)
                if token in [14]:
                    self.state = 54
                    self.match(InsightsParser.COLON)
                    self.state = 55
                    self.match(InsightsParser.STREAM)
                    self.state = 56
                    self.match(InsightsParser.FROM)
                    self.state = 57
                    localctx.provider = self.match(InsightsParser.ID)
                    self.state = 58
                    localctx.given = self.settings()
                    pass
                elif token in [22]:
                    self.state = 59
                    self.match(InsightsParser.ASSIGN)
                    self.state = 60
                    self.match(InsightsParser.COMPUTE)
                    self.state = 61
                    localctx.value = self.term(0)
                    self.state = 63
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==2:
                        self.state = 62
                        localctx.by = self.grouping()


                    self.state = 67
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==11:
                        self.state = 65
                        self.match(InsightsParser.WHEN)
                        self.state = 66
                        localctx.when = self.term(0)


                    self.state = 71
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==4:
                        self.state = 69
                        self.match(InsightsParser.EVERY)
                        self.state = 70
                        localctx.every = self.rhythm()


                    self.state = 82
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==12:
                        self.state = 73
                        self.match(InsightsParser.WITH)
                        self.state = 74
                        localctx._option = self.option()
                        localctx.chosen.append(localctx._option)
                        self.state = 79
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)
                        while _la==52:
                            self.state = 75
                            self.match(InsightsParser.JOINT)
                            self.state = 76
                            localctx._option = self.option()
                            localctx.chosen.append(localctx._option)
                            self.state = 81
                            self._errHandler.sync(self)
                            _la = self._input.LA(1)



                    pass
                else:
                    raise NoViableAltException(self)

                pass
            else:
                raise NoViableAltException(self)

            self.state = 88
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
            self._tset237 = None # Token
            self._tset250 = None # Token

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
            self.state = 90
            self.match(InsightsParser.BY)
            self.state = 91
            localctx._tset237 = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==33 or _la==35):
                localctx._tset237 = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            localctx.attributes.append(localctx._tset237)
            self.state = 96
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==15:
                self.state = 92
                self.match(InsightsParser.COMMA)
                self.state = 93
                localctx._tset250 = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx._tset250 = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                localctx.attributes.append(localctx._tset250)
                self.state = 98
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
            self.state = 99
            localctx.value = self.term(0)
            self.state = 101
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==2:
                self.state = 100
                localctx.by = self.grouping()


            self.state = 105
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==11:
                self.state = 103
                self.match(InsightsParser.WHEN)
                self.state = 104
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
            self.choices = None # ListingContext
            self.copyFrom(ctx)

        def IN(self):
            return self.getToken(InsightsParser.IN, 0)
        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)

        def listing(self):
            return self.getTypedRuleContext(InsightsParser.ListingContext,0)

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



    class KeyedContext(TermContext):

        def __init__(self, parser, ctx:ParserRuleContext): # actually a InsightsParser.TermContext
            super().__init__(parser)
            self.operand = None # TermContext
            self._ID = None # Token
            self.attributes = list() # of Tokens
            self._STRING = None # Token
            self._tset597 = None # Token
            self._tset625 = None # Token
            self.copyFrom(ctx)

        def KEYED(self):
            return self.getToken(InsightsParser.KEYED, 0)
        def term(self):
            return self.getTypedRuleContext(InsightsParser.TermContext,0)

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
            self.choices = None # ListingContext
            self.copyFrom(ctx)

        def IN(self):
            return self.getToken(InsightsParser.IN, 0)
        def listing(self):
            return self.getTypedRuleContext(InsightsParser.ListingContext,0)



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
            self.state = 151
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [16]:
                localctx = InsightsParser.GroupContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx

                self.state = 108
                self.match(InsightsParser.LPAR)
                self.state = 109
                localctx.inner = self.scope()
                self.state = 110
                self.match(InsightsParser.RPAR)
                pass
            elif token in [51]:
                localctx = InsightsParser.ReferenceContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 112
                self.match(InsightsParser.INSIGHT)
                self.state = 113
                localctx.name = self.match(InsightsParser.ID)
                pass
            elif token in [33]:
                localctx = InsightsParser.WordContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 114
                localctx.word = self.match(InsightsParser.ID)
                self.state = 131
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,14,self._ctx)
                if la_ == 1:
                    self.state = 116
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    if _la==18:
                        self.state = 115
                        localctx.in_ = self.parameters()


                    self.state = 118
                    self.match(InsightsParser.LPAR)
                    self.state = 119
                    localctx._piece = self.piece()
                    localctx.pieces.append(localctx._piece)
                    self.state = 124
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)
                    while _la==15:
                        self.state = 120
                        self.match(InsightsParser.COMMA)
                        self.state = 121
                        localctx._piece = self.piece()
                        localctx.pieces.append(localctx._piece)
                        self.state = 126
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)

                    self.state = 127
                    self.match(InsightsParser.RPAR)

                elif la_ == 2:
                    self.state = 129
                    self.match(InsightsParser.FROM)
                    self.state = 130
                    localctx.from_ = self.entities()


                pass
            elif token in [35]:
                localctx = InsightsParser.QuotedContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 133
                localctx.word = self.match(InsightsParser.STRING)
                self.state = 136
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,15,self._ctx)
                if la_ == 1:
                    self.state = 134
                    self.match(InsightsParser.FROM)
                    self.state = 135
                    localctx.from_ = self.entities()


                pass
            elif token in [34]:
                localctx = InsightsParser.AmountContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 138
                localctx.value = self.match(InsightsParser.NUMBER)
                self.state = 140
                self._errHandler.sync(self)
                la_ = self._interp.adaptivePredict(self._input,16,self._ctx)
                if la_ == 1:
                    self.state = 139
                    localctx.unit = self.match(InsightsParser.UNIT)


                pass
            elif token in [5, 10]:
                localctx = InsightsParser.TruthContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 142
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
                self.state = 143
                self.match(InsightsParser.MINUS)
                self.state = 144
                localctx.operand = self.term(10)
                pass
            elif token in [22, 27, 28, 29, 30, 31, 32]:
                localctx = InsightsParser.ElidedComparisonContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 145
                localctx.operator = self._input.LT(1)
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 8459911168) != 0)):
                    localctx.operator = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 146
                localctx.right = self.term(6)
                pass
            elif token in [7]:
                localctx = InsightsParser.ElidedChoiceContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 147
                self.match(InsightsParser.IN)
                self.state = 148
                localctx.choices = self.listing()
                pass
            elif token in [8]:
                localctx = InsightsParser.DenialContext(self, localctx)
                self._ctx = localctx
                _prevctx = localctx
                self.state = 149
                self.match(InsightsParser.NOT)
                self.state = 150
                localctx.operand = self.term(3)
                pass
            else:
                raise NoViableAltException(self)

            self._ctx.stop = self._input.LT(-1)
            self.state = 186
            self._errHandler.sync(self)
            _alt = self._interp.adaptivePredict(self._input,21,self._ctx)
            while _alt!=2 and _alt!=ATN.INVALID_ALT_NUMBER:
                if _alt==1:
                    if self._parseListeners is not None:
                        self.triggerExitRuleEvent()
                    _prevctx = localctx
                    self.state = 184
                    self._errHandler.sync(self)
                    la_ = self._interp.adaptivePredict(self._input,20,self._ctx)
                    if la_ == 1:
                        localctx = InsightsParser.ArithmeticContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 153
                        if not self.precpred(self._ctx, 9):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 9)")
                        self.state = 154
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==25 or _la==26):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 155
                        localctx.right = self.term(10)
                        pass

                    elif la_ == 2:
                        localctx = InsightsParser.ArithmeticContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 156
                        if not self.precpred(self._ctx, 8):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 8)")
                        self.state = 157
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==23 or _la==24):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 158
                        localctx.right = self.term(9)
                        pass

                    elif la_ == 3:
                        localctx = InsightsParser.ComparisonContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 159
                        if not self.precpred(self._ctx, 7):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 7)")
                        self.state = 160
                        localctx.operator = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 8459911168) != 0)):
                            localctx.operator = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        self.state = 161
                        localctx.right = self.term(8)
                        pass

                    elif la_ == 4:
                        localctx = InsightsParser.ConjunctionContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 162
                        if not self.precpred(self._ctx, 2):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 2)")
                        self.state = 163
                        self.match(InsightsParser.AND)
                        self.state = 164
                        localctx.right = self.term(3)
                        pass

                    elif la_ == 5:
                        localctx = InsightsParser.DisjunctionContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.left = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 165
                        if not self.precpred(self._ctx, 1):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 1)")
                        self.state = 166
                        self.match(InsightsParser.OR)
                        self.state = 167
                        localctx.right = self.term(2)
                        pass

                    elif la_ == 6:
                        localctx = InsightsParser.KeyedContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.operand = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 168
                        if not self.precpred(self._ctx, 11):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 11)")
                        self.state = 169
                        self.match(InsightsParser.KEYED)
                        self.state = 170
                        localctx._tset597 = self._input.LT(1)
                        _la = self._input.LA(1)
                        if not(_la==33 or _la==35):
                            localctx._tset597 = self._errHandler.recoverInline(self)
                        else:
                            self._errHandler.reportMatch(self)
                            self.consume()
                        localctx.attributes.append(localctx._tset597)
                        self.state = 175
                        self._errHandler.sync(self)
                        _alt = self._interp.adaptivePredict(self._input,18,self._ctx)
                        while _alt!=2 and _alt!=ATN.INVALID_ALT_NUMBER:
                            if _alt==1:
                                self.state = 171
                                self.match(InsightsParser.COMMA)
                                self.state = 172
                                localctx._tset625 = self._input.LT(1)
                                _la = self._input.LA(1)
                                if not(_la==33 or _la==35):
                                    localctx._tset625 = self._errHandler.recoverInline(self)
                                else:
                                    self._errHandler.reportMatch(self)
                                    self.consume()
                                localctx.attributes.append(localctx._tset625) 
                            self.state = 177
                            self._errHandler.sync(self)
                            _alt = self._interp.adaptivePredict(self._input,18,self._ctx)

                        pass

                    elif la_ == 7:
                        localctx = InsightsParser.ChoiceContext(self, InsightsParser.TermContext(self, _parentctx, _parentState))
                        localctx.operand = _prevctx
                        self.pushNewRecursionContext(localctx, _startState, self.RULE_term)
                        self.state = 178
                        if not self.precpred(self._ctx, 5):
                            from antlr4.error.Errors import FailedPredicateException
                            raise FailedPredicateException(self, "self.precpred(self._ctx, 5)")
                        self.state = 180
                        self._errHandler.sync(self)
                        _la = self._input.LA(1)
                        if _la==8:
                            self.state = 179
                            localctx.negated = self.match(InsightsParser.NOT)


                        self.state = 182
                        self.match(InsightsParser.IN)
                        self.state = 183
                        localctx.choices = self.listing()
                        pass

             
                self.state = 188
                self._errHandler.sync(self)
                _alt = self._interp.adaptivePredict(self._input,21,self._ctx)

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
            self.state = 189
            self.match(InsightsParser.LBRACKET)
            self.state = 190
            localctx._parameter = self.parameter()
            localctx.given.append(localctx._parameter)
            self.state = 195
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==15:
                self.state = 191
                self.match(InsightsParser.COMMA)
                self.state = 192
                localctx._parameter = self.parameter()
                localctx.given.append(localctx._parameter)
                self.state = 197
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 198
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
            self.state = 205
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23, 24, 34]:
                self.enterOuterAlt(localctx, 1)
                self.state = 200
                localctx.amount = self.number()
                self.state = 202
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==65:
                    self.state = 201
                    localctx.unit = self.match(InsightsParser.UNIT)


                pass
            elif token in [33]:
                self.enterOuterAlt(localctx, 2)
                self.state = 204
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
            self.state = 207
            localctx.value = self.term(0)
            self.state = 210
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==2:
                self.state = 208
                self.match(InsightsParser.BY)
                self.state = 209
                localctx.by = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx.by = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()


            self.state = 214
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==11:
                self.state = 212
                self.match(InsightsParser.WHEN)
                self.state = 213
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
            self._tset763 = None # Token
            self._tset776 = None # Token

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
            self.state = 216
            self.match(InsightsParser.LPAR)
            self.state = 217
            localctx._tset763 = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==33 or _la==35):
                localctx._tset763 = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            localctx.names.append(localctx._tset763)
            self.state = 222
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==15:
                self.state = 218
                self.match(InsightsParser.COMMA)
                self.state = 219
                localctx._tset776 = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx._tset776 = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                localctx.names.append(localctx._tset776)
                self.state = 224
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 225
            self.match(InsightsParser.RPAR)
        except RecognitionException as re:
            localctx.exception = re
            self._errHandler.reportError(self, re)
            self._errHandler.recover(self, re)
        finally:
            self.exitRule()
        return localctx


    class ListingContext(ParserRuleContext):
        __slots__ = 'parser'

        def __init__(self, parser, parent:ParserRuleContext=None, invokingState:int=-1):
            super().__init__(parent, invokingState)
            self.parser = parser
            self.listed = None # MembersContext
            self.word = None # Token
            self._piece = None # PieceContext
            self.pieces = list() # of PieceContexts

        def members(self):
            return self.getTypedRuleContext(InsightsParser.MembersContext,0)


        def LPAR(self):
            return self.getToken(InsightsParser.LPAR, 0)

        def RPAR(self):
            return self.getToken(InsightsParser.RPAR, 0)

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def piece(self, i:int=None):
            if i is None:
                return self.getTypedRuleContexts(InsightsParser.PieceContext)
            else:
                return self.getTypedRuleContext(InsightsParser.PieceContext,i)


        def COMMA(self, i:int=None):
            if i is None:
                return self.getTokens(InsightsParser.COMMA)
            else:
                return self.getToken(InsightsParser.COMMA, i)

        def getRuleIndex(self):
            return InsightsParser.RULE_listing




    def listing(self):

        localctx = InsightsParser.ListingContext(self, self._ctx, self.state)
        self.enterRule(localctx, 16, self.RULE_listing)
        self._la = 0 # Token type
        try:
            self.state = 240
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [16]:
                self.enterOuterAlt(localctx, 1)
                self.state = 227
                localctx.listed = self.members()
                pass
            elif token in [33]:
                self.enterOuterAlt(localctx, 2)
                self.state = 228
                localctx.word = self.match(InsightsParser.ID)
                self.state = 229
                self.match(InsightsParser.LPAR)
                self.state = 230
                localctx._piece = self.piece()
                localctx.pieces.append(localctx._piece)
                self.state = 235
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while _la==15:
                    self.state = 231
                    self.match(InsightsParser.COMMA)
                    self.state = 232
                    localctx._piece = self.piece()
                    localctx.pieces.append(localctx._piece)
                    self.state = 237
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)

                self.state = 238
                self.match(InsightsParser.RPAR)
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
        self.enterRule(localctx, 18, self.RULE_members)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 242
            self.match(InsightsParser.LPAR)
            self.state = 243
            localctx._member = self.member()
            localctx.values.append(localctx._member)
            self.state = 248
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            while _la==15:
                self.state = 244
                self.match(InsightsParser.COMMA)
                self.state = 245
                localctx._member = self.member()
                localctx.values.append(localctx._member)
                self.state = 250
                self._errHandler.sync(self)
                _la = self._input.LA(1)

            self.state = 251
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

        def ID(self):
            return self.getToken(InsightsParser.ID, 0)

        def TRUE(self):
            return self.getToken(InsightsParser.TRUE, 0)

        def FALSE(self):
            return self.getToken(InsightsParser.FALSE, 0)

        def getRuleIndex(self):
            return InsightsParser.RULE_member




    def member(self):

        localctx = InsightsParser.MemberContext(self, self._ctx, self.state)
        self.enterRule(localctx, 20, self.RULE_member)
        self._la = 0 # Token type
        try:
            self.state = 255
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23, 24, 34]:
                self.enterOuterAlt(localctx, 1)
                self.state = 253
                localctx.amount = self.number()
                pass
            elif token in [5, 10, 33, 35]:
                self.enterOuterAlt(localctx, 2)
                self.state = 254
                localctx.value = self._input.LT(1)
                _la = self._input.LA(1)
                if not((((_la) & ~0x3f) == 0 and ((1 << _la) & 42949674016) != 0)):
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
        self.enterRule(localctx, 22, self.RULE_interval)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 257
            localctx.amount = self.number()
            self.state = 258
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
        self.enterRule(localctx, 24, self.RULE_rhythm)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 260
            localctx.every = self.interval()
            self.state = 268
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==45:
                self.state = 261
                self.match(InsightsParser.AT)
                self.state = 262
                localctx.hour = self.match(InsightsParser.NUMBER)
                self.state = 263
                self.match(InsightsParser.COLON)
                self.state = 264
                localctx.minute = self.match(InsightsParser.NUMBER)
                self.state = 266
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==33 or _la==35:
                    self.state = 265
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
        self.enterRule(localctx, 26, self.RULE_number)
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 272
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [23]:
                self.state = 270
                self.match(InsightsParser.PLUS)
                pass
            elif token in [24]:
                self.state = 271
                localctx.minus = self.match(InsightsParser.MINUS)
                pass
            elif token in [34]:
                pass
            else:
                pass
            self.state = 274
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
        self.enterRule(localctx, 28, self.RULE_settings)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 276
            self.match(InsightsParser.LPAR)
            self.state = 285
            self._errHandler.sync(self)
            _la = self._input.LA(1)
            if _la==33 or _la==35:
                self.state = 277
                localctx._setting = self.setting()
                localctx.pairs.append(localctx._setting)
                self.state = 282
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                while _la==15:
                    self.state = 278
                    self.match(InsightsParser.COMMA)
                    self.state = 279
                    localctx._setting = self.setting()
                    localctx.pairs.append(localctx._setting)
                    self.state = 284
                    self._errHandler.sync(self)
                    _la = self._input.LA(1)



            self.state = 287
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
        self.enterRule(localctx, 30, self.RULE_setting)
        self._la = 0 # Token type
        try:
            self.enterOuterAlt(localctx, 1)
            self.state = 289
            localctx.key = self._input.LT(1)
            _la = self._input.LA(1)
            if not(_la==33 or _la==35):
                localctx.key = self._errHandler.recoverInline(self)
            else:
                self._errHandler.reportMatch(self)
                self.consume()
            self.state = 290
            self.match(InsightsParser.ASSIGN)
            self.state = 293
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [5, 10, 23, 24, 33, 34, 35]:
                self.state = 291
                localctx.value = self.member()
                pass
            elif token in [16]:
                self.state = 292
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
        def ID(self):
            return self.getToken(InsightsParser.ID, 0)
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
        self.enterRule(localctx, 32, self.RULE_option)
        self._la = 0 # Token type
        try:
            self.state = 341
            self._errHandler.sync(self)
            token = self._input.LA(1)
            if token in [60]:
                localctx = InsightsParser.SalienceContext(self, localctx)
                self.enterOuterAlt(localctx, 1)
                self.state = 295
                self.match(InsightsParser.SALIENCE)
                self.state = 296
                localctx.level = self.number()
                pass
            elif token in [61]:
                localctx = InsightsParser.SampleContext(self, localctx)
                self.enterOuterAlt(localctx, 2)
                self.state = 297
                self.match(InsightsParser.SAMPLE)
                self.state = 298
                localctx.amount = self.number()
                pass
            elif token in [55]:
                localctx = InsightsParser.MaxErrorContext(self, localctx)
                self.enterOuterAlt(localctx, 3)
                self.state = 299
                self.match(InsightsParser.MAX_ERROR)
                self.state = 300
                localctx.share = self.number()
                pass
            elif token in [47]:
                localctx = InsightsParser.ConfidenceContext(self, localctx)
                self.enterOuterAlt(localctx, 4)
                self.state = 301
                self.match(InsightsParser.CONFIDENCE)
                self.state = 302
                localctx.share = self.number()
                pass
            elif token in [46]:
                localctx = InsightsParser.AwarenessContext(self, localctx)
                self.enterOuterAlt(localctx, 5)
                self.state = 303
                self.match(InsightsParser.AWARENESS)
                self.state = 304
                self.match(InsightsParser.ON)
                self.state = 305
                localctx.what = self.match(InsightsParser.ID)
                pass
            elif token in [42]:
                localctx = InsightsParser.AdamContext(self, localctx)
                self.enterOuterAlt(localctx, 6)
                self.state = 306
                self.match(InsightsParser.ADAM)
                pass
            elif token in [43]:
                localctx = InsightsParser.AlgorithmContext(self, localctx)
                self.enterOuterAlt(localctx, 7)
                self.state = 307
                self.match(InsightsParser.ALGORITHM)
                self.state = 308
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
                self.state = 309
                self.match(InsightsParser.K)
                self.state = 310
                self.match(InsightsParser.ASSIGN)
                self.state = 311
                localctx.count = self.number()
                pass
            elif token in [59]:
                localctx = InsightsParser.RangeContext(self, localctx)
                self.enterOuterAlt(localctx, 9)
                self.state = 312
                self.match(InsightsParser.R)
                self.state = 313
                self.match(InsightsParser.ASSIGN)
                self.state = 314
                localctx.range_ = self.number()
                pass
            elif token in [62]:
                localctx = InsightsParser.SchedulerContext(self, localctx)
                self.enterOuterAlt(localctx, 10)
                self.state = 315
                self.match(InsightsParser.SCHEDULER)
                self.state = 316
                self.match(InsightsParser.ASSIGN)
                self.state = 317
                localctx.name = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx.name = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 319
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==16:
                    self.state = 318
                    localctx.given = self.settings()


                pass
            elif token in [48]:
                localctx = InsightsParser.CostCapContext(self, localctx)
                self.enterOuterAlt(localctx, 11)
                self.state = 321
                self.match(InsightsParser.COST_CAP)
                self.state = 322
                localctx.amount = self.number()
                self.state = 323
                self.match(InsightsParser.PER)
                self.state = 324
                localctx.per = self.interval()
                pass
            elif token in [58]:
                localctx = InsightsParser.PlacementOnContext(self, localctx)
                self.enterOuterAlt(localctx, 12)
                self.state = 326
                self.match(InsightsParser.PLACEMENT_ON)
                self.state = 327
                localctx.key = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx.key = self._errHandler.recoverInline(self)
                else:
                    self._errHandler.reportMatch(self)
                    self.consume()
                self.state = 328
                self.match(InsightsParser.ASSIGN)
                self.state = 329
                localctx.value = self.member()
                self.state = 331
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if (((_la) & ~0x3f) == 0 and ((1 << _la) & 17205035008) != 0):
                    self.state = 330
                    localctx.count = self.number()


                self.state = 334
                self._errHandler.sync(self)
                _la = self._input.LA(1)
                if _la==49:
                    self.state = 333
                    localctx.own = self.match(InsightsParser.DEDICATED)


                pass
            elif token in [44]:
                localctx = InsightsParser.AllowContext(self, localctx)
                self.enterOuterAlt(localctx, 13)
                self.state = 336
                self.match(InsightsParser.ALLOW)
                self.state = 337
                self.match(InsightsParser.WHEN)
                self.state = 338
                localctx.when = self.term(0)
                pass
            elif token in [63]:
                localctx = InsightsParser.SignatureContext(self, localctx)
                self.enterOuterAlt(localctx, 14)
                self.state = 339
                self.match(InsightsParser.SIGNATURE)
                self.state = 340
                localctx.name = self._input.LT(1)
                _la = self._input.LA(1)
                if not(_la==33 or _la==35):
                    localctx.name = self._errHandler.recoverInline(self)
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
                return self.precpred(self._ctx, 11)
         

            if predIndex == 6:
                return self.precpred(self._ctx, 5)
         




