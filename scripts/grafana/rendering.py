"""Dashboards as the JSON that Grafana 10 and later import; everything that Grafana decides by itself is left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from scripts.grafana.model import GRID_WIDTH, Column, Dashboard, Kind, Panel, Query, Row, Step, Variable

SCHEMA_VERSION = 41
"""Of Grafana 12; older ones from 10 on read it, newer ones convert it as they load it."""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_REF_IDS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

Json = dict[str, Any]


def render(dashboard: Dashboard) -> Json:
    """Lay a dashboard out."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["gcushare"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # one crosshair through all panels
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "templating": {"list": [_source_variable(), *map(_variable, dashboard.variables)]},
        "links": [_link(*dashboard.other)],
        "panels": list(_panels(dashboard.rows)),
    }


def _source_variable() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
        "current": {},
    }


def _variable(variable: Variable) -> Json:
    choice: Json = {"includeAll": True, "multi": True, "allValue": ".*"} if variable.takes_many else {}
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": SOURCE,
        "definition": variable.query,
        "query": {"query": variable.query, "refId": variable.name},
        "refresh": 2,  # whenever the time range changes: nodes come and go
        "sort": 1,
        "hide": 0,
        "current": {"text": "All", "value": "$__all"} if variable.takes_many else {},
        **choice,
    }


def _link(title: str, uid: str) -> Json:
    return {
        "title": title,
        "type": "link",
        "url": f"/d/{uid}",
        "icon": "dashboard",
        "keepTime": True,
        "includeVars": True,
        "targetBlank": False,
    }


def _panels(rows: tuple[Row, ...]) -> Iterator[Json]:
    numbers = itertools.count(1)
    top = 0
    for row in rows:
        yield {
            "id": next(numbers),
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": GRID_WIDTH, "h": 1},
            "panels": [],
        }
        top += 1
        left = height = 0
        for panel in row.panels:
            if left + panel.width > GRID_WIDTH:
                left, top, height = 0, top + height, 0
            yield _panel(panel, next(numbers), {"x": left, "y": top, "w": panel.width, "h": panel.height})
            left, height = left + panel.width, max(height, panel.height)
        top += height


def _panel(panel: Panel, number: int, place: Json) -> Json:
    rendered: Json = {
        "id": number,
        "type": panel.kind.value.split()[0],
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "targets": [_target(panel, ref, query) for ref, query in zip(_REF_IDS, panel.queries, strict=False)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": [_override(column) for column in panel.columns]},
        "options": _options(panel.kind),
    }
    if panel.kind is Kind.TABLE:
        rendered["transformations"] = _transformations(panel)
    if panel.span is not None:
        times = zip(("timeFrom", "timeShift"), panel.span.value, strict=True)
        rendered |= {name: value for name, value in times if value is not None}
    return rendered


def _target(panel: Panel, ref: str, query: Query) -> Json:
    is_table = panel.kind is Kind.TABLE
    return {
        "refId": ref,
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": "" if is_table else query.legend,
        "format": "table" if is_table else "time_series",
        "instant": not panel.kind.is_over_time,
        "range": panel.kind.is_over_time,
    }


def _defaults(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit.value, "min": 0, "thresholds": _thresholds(panel.steps)}
    if panel.maximum is not None:
        defaults["max"] = panel.maximum
    match panel.kind:
        case Kind.LINES | Kind.STACK:
            defaults["color"] = {"mode": "palette-classic"}
            defaults["custom"] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": False}
            if panel.kind is Kind.STACK:
                defaults["custom"] |= {"fillOpacity": 60, "stacking": {"mode": "normal", "group": "A"}}
        case Kind.TABLE:
            defaults["color"] = {"mode": "thresholds"}
            defaults["custom"] = {"align": "auto", "filterable": True}
            del defaults["min"]
        case _:
            defaults["color"] = {"mode": "thresholds"}
    return defaults


def _thresholds(steps: tuple[Step, ...]) -> Json:
    return {"mode": "absolute", "steps": [{"value": step.at, "color": step.color} for step in steps]}


def _options(kind: Kind) -> Json:
    calculation = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    match kind:
        case Kind.STAT:
            return {"reduceOptions": calculation, "colorMode": "value", "graphMode": "none", "textMode": "auto"}
        case Kind.GAUGE:
            return {"reduceOptions": calculation, "showThresholdLabels": False, "showThresholdMarkers": True}
        case Kind.BARS:
            return {"reduceOptions": calculation, "orientation": "horizontal", "displayMode": "gradient"}
        case Kind.LINES | Kind.STACK:
            return {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        case Kind.TABLE:
            return {"showHeader": True, "cellHeight": "sm"}


def _transformations(panel: Panel) -> list[Json]:
    """One table of all queries: rows by the labels, a column per query, called by its legend."""
    only = len(panel.queries) == 1  # Grafana numbers the columns only where there are several
    columns = {
        "Value" if only else f"Value #{ref}": query.legend for ref, query in zip(_REF_IDS, panel.queries, strict=False)
    }
    order = [*panel.labels, *columns]
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True},
                "renameByName": columns,
                "indexByName": {name: place for place, name in enumerate(order)},
            },
        },
    ]


def _override(column: Column) -> Json:
    """How one column looks: coloured by its steps, as a bar where it has a maximum."""
    properties: list[Json] = [{"id": "unit", "value": column.unit.value}]
    if column.steps:
        properties.append({"id": "thresholds", "value": _thresholds(column.steps)})
        look = {"type": "color-text"} if column.maximum is None else {"type": "gauge", "mode": "basic"}
        properties.append({"id": "custom.cellOptions", "value": look})
    if column.maximum is not None:
        properties += [{"id": "min", "value": 0}, {"id": "max", "value": column.maximum}]
    if column.link:
        properties.append({"id": "links", "value": [{"title": "Show this node", "url": column.link}]})
    return {"matcher": {"id": "byName", "options": column.name}, "properties": properties}
