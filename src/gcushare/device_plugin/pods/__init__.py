"""The pods of this node and what they hold: ``pod`` has the states of one, ``states`` computes them for ``store``."""
