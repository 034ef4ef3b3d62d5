"""Corrections: what came too late makes the past right.

A late point still counts in every window that was open when it came. The windows that were
closed are computed again, by the same plan in a batch over what is stored, and what differs from
the results that stand is written with a higher revision.
"""
