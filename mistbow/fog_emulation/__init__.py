"""An emulated fog: Fogify's model of nodes and networks, applied to one machine."""
