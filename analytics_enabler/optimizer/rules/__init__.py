"""The rules of the optimizer, one per module.

The function ``apply`` of a rule returns a cheaper plan, or None if the rule does not apply.
"""
