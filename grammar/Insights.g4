// The insight language, one statement at a time: grammar/script_parser.py cuts the text at its
// semicolons, so that an error in one statement hides none in the next.
grammar Insights;

options { caseInsensitive = true; }

// Words that are keywords only where a name cannot stand, so that they remain usable as names:
// grammar/keywords.py makes these tokens of IDs. UNIT is a word behind a number: "s", "MINUTES", "K";
// JOINT is an AND between two options; KEYED is a BY that belongs to the operand before it, not to
// the whole expression.
tokens {
    ADAM, ALGORITHM, ALLOW, AT, AWARENESS, CONFIDENCE, COST_CAP, DEDICATED, FUNCTION, INSIGHT,
    JOINT, K, KEYED, MAX_ERROR, ON, PER, PLACEMENT_ON, R, SALIENCE, SAMPLE, SCHEDULER, SIGNATURE, STREAM,
    UNIT
}

statement
    : ( FUNCTION name=ID LPAR takes+=ID (COMMA takes+=ID)* RPAR LBRACE
        (body=scope | listed=members) RBRACE
      | name=ID ( COLON STREAM FROM provider=ID given=settings
                | ASSIGN COMPUTE value=term by=grouping? (WHEN when=term)? (EVERY every=rhythm)?
                  (WITH chosen+=option (JOINT chosen+=option)*)?
                )
      ) EOF
    ;

grouping
    : BY attributes+=(ID | STRING) (COMMA attributes+=(ID | STRING))*
    ;

// What stands in parentheses: a value or a condition, and what it is taken by and of.
scope
    : value=term by=grouping? (WHEN when=term)?
    ;

// Values and conditions are one rule: a parser that distinguished "(a + b) > c" from "(a > b) AND c"
// by looking ahead would be slow, and its messages poor. grammar/expressions.py distinguishes them.
term
    : LPAR inner=scope RPAR                                                         # Group
    | INSIGHT name=ID                                                               # Reference
    | word=ID (in_=parameters? LPAR pieces+=piece (COMMA pieces+=piece)* RPAR
              | FROM from_=entities)?                                               # Word
    | word=STRING (FROM from_=entities)?                                            # Quoted
    | value=NUMBER unit=UNIT?                                                       # Amount
    | value=(TRUE | FALSE)                                                          # Truth
    | operand=term KEYED attributes+=(ID | STRING)
        (COMMA attributes+=(ID | STRING))*                                          # Keyed
    | MINUS operand=term                                                            # Negation
    | left=term operator=(STAR | SLASH) right=term                                  # Arithmetic
    | left=term operator=(PLUS | MINUS) right=term                                  # Arithmetic
    | left=term operator=(GT | GE | LT | LE | EQ | NE | ASSIGN) right=term          # Comparison
    | operator=(GT | GE | LT | LE | EQ | NE | ASSIGN) right=term                    # ElidedComparison
    | operand=term negated=NOT? IN choices=listing                                  # Choice
    | IN choices=listing                                                            # ElidedChoice
    | NOT operand=term                                                              # Denial
    | left=term AND right=term                                                      # Conjunction
    | left=term OR right=term                                                       # Disjunction
    ;

parameters
    : LBRACKET given+=parameter (COMMA given+=parameter)* RBRACKET
    ;

parameter
    : amount=number unit=UNIT?
    | name=ID
    ;

// What stands between the commas of a call: an argument, a stretch of time, or one more attribute
// of a BY. Which, grammar/expressions.py says: a parser would have to look ahead to the end.
piece
    : value=term (BY by=(ID | STRING))? (WHEN when=term)?
    ;

entities
    : LPAR names+=(ID | STRING) (COMMA names+=(ID | STRING))* RPAR
    ;

// The values after IN: a list, or a call of a FUNCTION that stands for a list.
listing
    : listed=members
    | word=ID LPAR pieces+=piece (COMMA pieces+=piece)* RPAR
    ;

members
    : LPAR values+=member (COMMA values+=member)* RPAR
    ;

member
    : amount=number
    | value=(STRING | ID | TRUE | FALSE)
    ;

interval
    : amount=number unit=UNIT
    ;

rhythm
    : every=interval (AT hour=NUMBER COLON minute=NUMBER zone=(ID | STRING)?)?
    ;

number
    : (PLUS | minus=MINUS)? value=NUMBER
    ;

settings
    : LPAR (pairs+=setting (COMMA pairs+=setting)*)? RPAR
    ;

setting
    : key=(ID | STRING) ASSIGN (value=member | values=members)
    ;

// CONFIDENCE belongs to MAX_ERROR or ADAM, K and R belong to ALGORITHM, in any order.
option
    : SALIENCE level=number                                                         # Salience
    | SAMPLE amount=number                                                          # Sample
    | MAX_ERROR share=number                                                        # MaxError
    | CONFIDENCE share=number                                                       # Confidence
    | AWARENESS ON what=ID                                                          # Awareness
    | ADAM                                                                          # Adam
    | ALGORITHM name=(ID | STRING)                                                  # Algorithm
    | K ASSIGN count=number                                                         # Neighbours
    | R ASSIGN range_=number                                                        # Range
    | SCHEDULER ASSIGN name=(ID | STRING) given=settings?                           # Scheduler
    | COST_CAP amount=number PER per=interval                                       # CostCap
    | PLACEMENT_ON key=(ID | STRING) ASSIGN value=member count=number? own=DEDICATED?  # PlacementOn
    | ALLOW WHEN when=term                                                          # Allow
    | SIGNATURE name=(ID | STRING)                                                        # Signature
    ;

AND     : 'and' ;
BY      : 'by' ;
COMPUTE : 'compute' ;
EVERY   : 'every' ;
FALSE   : 'false' ;
FROM    : 'from' ;
IN      : 'in' ;
NOT     : 'not' ;
OR      : 'or' ;
TRUE    : 'true' ;
WHEN    : 'when' ;
WITH    : 'with' ;

SEMICOLON : ';' ;
COLON     : ':' ;
COMMA     : ',' ;
LPAR      : '(' ;
RPAR      : ')' ;
LBRACKET  : '[' ;
RBRACKET  : ']' ;
LBRACE    : '{' ;
RBRACE    : '}' ;
ASSIGN    : '=' ;
PLUS      : '+' ;
MINUS     : '-' ;
STAR      : '*' ;
SLASH     : '/' ;
GE        : '>=' ;
GT        : '>' ;
LE        : '<=' ;
LT        : '<' ;
EQ        : '==' ;
NE        : '!=' | '<>' ;

ID     : [a-z_] [a-z_0-9]* ('.' [a-z_0-9]+)* ;
NUMBER : (DIGITS ('.' DIGITS)? | '.' DIGITS) ('e' [+-]? DIGITS)? ;
STRING : '"' (ESCAPE | ~["\\\r\n])* '"' | '\'' (ESCAPE | ~['\\\r\n])* '\'' ;

LINE_COMMENT  : ('//' | '--') ~[\r\n]* -> skip ;
BLOCK_COMMENT : '/*' .*? '*/' -> skip ;
SPACE         : [ \t\r\n\f]+ -> skip ;

// What is wrong becomes a token too, so that the lexer never fails and the message is ours.
UNCLOSED_COMMENT : '/*' ;
UNCLOSED_STRING  : '"' (ESCAPE | ~["\\\r\n])* | '\'' (ESCAPE | ~['\\\r\n])* ;
UNKNOWN          : . ;

fragment DIGITS : [0-9]+ ;
fragment ESCAPE : '\\' ~[\r\n] ;
