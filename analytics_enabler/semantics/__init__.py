"""The semantic analysis of query texts, in the order parse, expand, bind, check, lower.

``expand`` replaces the calls of FUNCTIONs and the names of STREAMs in a text by their definitions.
``bind`` gives each name a symbol and each value a type. ``checks`` finds the errors and warnings of
bound insights. ``lower`` converts bound insights to definitions.
"""

from analytics_enabler.semantics.check import Checked, ParsedText, check, parse_text
from analytics_enabler.semantics.definition import DEFAULT_SCHEDULER, Definition
from analytics_enabler.semantics.expand.feeds import Schemas, StreamName
from analytics_enabler.semantics.sites import Sites, scope_of, sites_of

__all__ = [
    "DEFAULT_SCHEDULER",
    "Checked",
    "Definition",
    "ParsedText",
    "Schemas",
    "Sites",
    "StreamName",
    "check",
    "parse_text",
    "scope_of",
    "sites_of",
]
