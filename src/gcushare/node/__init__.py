"""What the programs that run on every node share: how cards are found and offered, and what a container is given.

The device plugin and the claims driver import it; it imports no program, and knows neither kubelet nor API server.
"""
