"""The merge of panes into windows."""
