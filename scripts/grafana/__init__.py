"""The Grafana dashboards of the chart: what stands on them as Python values, written out as Grafana's JSON.

Grafana's JSON says every panel in some sixty lines, most of them its own defaults, with ids and coordinates that all
move when a panel is put in; that cannot be reviewed. Here a panel is what a person decides on: title, what it means,
query, unit, limits and width. The files are committed, so that a chart needs nothing to be built, and a test compares.
"""
