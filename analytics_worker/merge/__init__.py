"""The merge of the panes of several sites, and the decisions about sites that are silent."""
