"""The command that removes what GCUShare left on the Nodes after its programs were uninstalled.

A program of its own: it runs once, after the device plugin, from the plugin's image. No other package imports it.
"""
