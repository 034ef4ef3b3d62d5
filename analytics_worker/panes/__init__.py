"""The computation of panes from points, which all engines share."""
