"""An emulated fog: the nodes and networks of a Fogify model on one machine."""
