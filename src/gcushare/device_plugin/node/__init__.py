"""The node as a whole: its cards as units, its inventory on the Node, its memory unit."""
