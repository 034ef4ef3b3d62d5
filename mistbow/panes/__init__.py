"""From points to panes: the contract that every engine which computes panes shares."""
