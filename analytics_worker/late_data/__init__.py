"""The corrections of results that late data change.

A late point is included in every window that is still open when the point arrives. The windows that
are already closed are recomputed: a batch runs the same plan over stored points or panes. Rows that
differ from the stored results are appended with a higher revision.
"""
