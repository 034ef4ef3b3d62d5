"""The computation of the results of insights from panes, by windows, functions and expressions."""
