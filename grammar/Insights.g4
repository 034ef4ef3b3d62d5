// The insight language, one statement at a time: grammar/parse.py cuts the text at its
// semicolons, so that an error in one statement hides none in the next.
grammar Insights;

options { caseInsensitive = true; }

statement
    : name=ID ASSIGN COMPUTE value=term by=grouping? (WHEN when=term)? (EVERY every=interval)?
      options=settings? EOF
    ;

grouping
    : BY attributes+=(ID | STRING) (COMMA attributes+=(ID | STRING))*
    ;

// Options are words, not keywords: "scheduler" remains usable as a name.
settings
    : WITH chosen+=option (AND chosen+=option)*
    ;

option
    : name=ID ASSIGN value=setting
    ;

setting
    : name=(ID | STRING)
    ;

// Values and conditions are one rule: a parser that told "(a + b) > c" from "(a > b) AND c" by
// looking ahead would be slow, and its messages poor. grammar/build.py tells them apart.
term
    : LPAR inner=term RPAR                                                          # Group
    | word=ID (LPAR source=stream (COMMA window=interval)? RPAR)?                   # Word
    | value=(NUMBER | STRING | TRUE | FALSE)                                        # Literal
    | MINUS operand=term                                                            # Negation
    | left=term operator=(STAR | SLASH) right=term                                  # Arithmetic
    | left=term operator=(PLUS | MINUS) right=term                                  # Arithmetic
    | left=term operator=(GT | GE | LT | LE | EQ | NE | ASSIGN) right=term          # Comparison
    | operator=(GT | GE | LT | LE | EQ | NE | ASSIGN) right=term                    # ElidedComparison
    | operand=term negated=NOT? IN choices=members                                  # Choice
    | IN choices=members                                                            # ElidedChoice
    | NOT operand=term                                                              # Denial
    | left=term AND right=term                                                      # Conjunction
    | left=term OR right=term                                                       # Disjunction
    ;

stream
    : metric=(ID | STRING) (FROM from_=entities)? (WHEN when=term)?
    ;

entities
    : LPAR names+=(ID | STRING) (COMMA names+=(ID | STRING))* RPAR
    ;

members
    : LPAR values+=member (COMMA values+=member)* RPAR
    ;

member
    : minus=MINUS? value=NUMBER
    | value=(STRING | TRUE | FALSE)
    ;

// Units are words, not keywords: "s" and "minutes" remain usable as names.
interval
    : minus=MINUS? count=NUMBER unit=ID
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
COMMA     : ',' ;
LPAR      : '(' ;
RPAR      : ')' ;
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
