"""What is left of GCUShare on the Nodes once its programs are gone, and the command that removes it.

A program of its own, and imported by none: it runs once, after the device plugin, whose image carries it.
"""
