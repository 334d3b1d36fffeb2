"""The pods of this node and what they hold: ``states`` says in which states a pod can be; ``store`` computes them."""
