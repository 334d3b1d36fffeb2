"""A node's cards for a terminal, from its plugin's status. ``gcushare cards`` and the plugin's ``--status`` draw it.

``node_view`` is what is known, ``draw`` how it is drawn. Pure.
"""
