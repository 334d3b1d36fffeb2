"""When each alert fires and when it must not: series in the notation of promtool's rule tests, a sample a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

Series = dict[str, str]

_EXTENDER = 'namespace="kube-system",job="gcushare-scheduler-extender-metrics",instance="10.0.0.1:32766"'
_OTHER = 'namespace="kube-system",job="gcushare-scheduler-extender-metrics",instance="10.0.0.2:32766"'
_PLUGIN = 'namespace="kube-system",job="gcushare-device-plugin-metrics",instance="10.0.1.1:32767"'
_DAEMONSET = 'namespace="kube-system",daemonset="gcushare-device-plugin"'
_NODE = f'{_PLUGIN},vendor="enflame",node="node-1"'
_CARD = f'{_NODE},card="3",uuid="GCU-3",model="S60"'
_POD = f'{_NODE},card="3",pod_namespace="ml",pod_name="train-0"'

_OF_JOB = {"namespace": "kube-system", "job": "gcushare-scheduler-extender-metrics"}
_OF_EXTENDER = _OF_JOB | {"instance": "10.0.0.1:32766"}
_OF_VENDOR = _OF_JOB | {"vendor": "enflame"}
_OF_PLUGIN = {"namespace": "kube-system", "job": "gcushare-device-plugin-metrics", "instance": "10.0.1.1:32767"}
_OF_NODE = _OF_PLUGIN | {"vendor": "enflame", "node": "node-1"}
_OF_CARD = _OF_NODE | {"card": "3", "uuid": "GCU-3", "model": "S60"}
_OF_POD = _OF_NODE | {"card": "3", "pod_namespace": "ml", "pod_name": "train-0"}
_RESOURCE = "enflame.com/gcu-memory"

_ZERO, _ONE, _TWO, _THREE = (f"{value}x90" for value in range(4))
"""The value of the first minute, for ninety more."""


def _replicas(metric: str, first: str, second: str, more: str = "") -> Series:
    """A figure of both replicas of the extender."""
    return {f"{metric}{{{_EXTENDER}{more}}}": first, f"{metric}{{{_OTHER}{more}}}": second}


_leaders = partial(_replicas, "gcushare_leader")
_LEADS = _leaders(_ONE, _ZERO)


@dataclass(frozen=True, slots=True)
class Case:
    """``fires`` makes the alert fire at ``at`` with these labels, and ``quiet`` does not.

    ``value`` is the alert's value as its annotations show it. ``at`` is in minutes.
    """

    alert: str
    labels: Mapping[str, str]
    fires: Series
    quiet: Series
    value: str = ""
    at: int = 60


def _one(alert: str, series: str, labels: Mapping[str, str], fires: str, quiet: str, value: str = "") -> Case:
    """A case of one series: values with which it fires, and others."""
    return Case(alert=alert, fires={series: fires}, quiet={series: quiet}, labels=labels, value=value)


def _reason(reason: str, quiet: str, alert: str) -> Case:
    name = "gcushare_pods_waiting_by_reason"
    of, other = (f',vendor="enflame",reason="{each}"' for each in (reason, quiet))
    # Both replicas report pods; only the leader's figure counts. The other's view of what fits may be out of date.
    no_leaders = {f"{name}{{{_EXTENDER}{other}}}": _TWO, f"{name}{{{_OTHER}{of}}}": _TWO}
    return Case(alert, _OF_VENDOR, _LEADS | _replicas(name, _TWO, _TWO, of), _LEADS | no_leaders, "2")


def _answers(verb: str, fast: int, slow: int) -> Series:
    """So many answers a minute within a second, and so many within one to five."""
    labels, both = f'{_EXTENDER},vendor="enflame",verb="{verb}"', fast + slow
    buckets = {"1.0": fast, "5.0": both, "+Inf": both}
    name = "gcushare_extender_request_seconds"
    return {f'{name}_bucket{{{labels},le="{le}"}}': f"0+{number}x90" for le, number in buckets.items()} | {
        f"{name}_count{{{labels}}}": f"0+{both}x90"
    }


def _count(alert: str, metric: str) -> Case:
    """A gauge of the extender that should be 0; quiet is what the other replica saw before its watch broke."""
    fires, quiet = (_LEADS | _replicas(metric, first, _THREE, ',vendor="enflame"') for first in (_THREE, _ZERO))
    return Case(alert=alert, fires=fires, quiet=quiet, labels=_OF_VENDOR, value="3")


def _of_node(alert: str, metric: str, fires: str, quiet: str, value: str = "") -> Case:
    """A figure of one plugin."""
    return _one(alert, f"{metric}{{{_NODE}}}", _OF_NODE, fires, quiet, value)


_OF_DAEMONSET = {"namespace": "kube-system", "daemonset": "gcushare-device-plugin"}
_UNAVAILABLE = {f"kube_daemonset_status_number_unavailable{{{_DAEMONSET}}}": _ONE}


def _updated(values: str) -> Series:
    """One pod is not available, and so many have their update."""
    return _UNAVAILABLE | {f"kube_daemonset_status_updated_number_scheduled{{{_DAEMONSET}}}": values}


_UP = (
    Case("GcushareExtenderDown", _OF_JOB, {f"up{{{_EXTENDER}}}": _ZERO}, _replicas("up", _ZERO, _ONE)),
    Case("GcushareExtenderDown", {}, {f"up{{{_PLUGIN}}}": _ONE}, {f"up{{{_EXTENDER}}}": _ONE}),
    # A rollout goes on, and the last pod of it does not start.
    Case("GcushareDevicePluginMissing", _OF_DAEMONSET, _updated("0+1x20 20x70"), _updated("0+1x90"), "1"),
    _one("GcushareDevicePluginDown", f'up{{{_PLUGIN},node="node-1"}}', _OF_PLUGIN | {"node": "node-1"}, _ZERO, _ONE),
)

_AGE = f'gcushare_watch_age_seconds{{{_EXTENDER},resource="pods"}}'
_OF_AGE = _OF_EXTENDER | {"resource": "pods"}


def _binds(result: str, values: str) -> Series:
    return {f'gcushare_extender_results_total{{{_EXTENDER},vendor="enflame",verb="bind",result="{result}"}}': values}


_SCHEDULING = (
    Case("GcushareNoLeader", _OF_JOB, _leaders(_ZERO, _ZERO), _leaders(_ZERO, _ONE)),
    Case("GcushareSeveralLeaders", _OF_JOB, _leaders(_ONE, _ONE), _leaders(_ZERO, _ONE), "2"),
    _one("GcushareExtenderWatchStale", _AGE, _OF_AGE, "0+60x90", "70x90", "1h 0m 0s"),
    _one("GcushareExtenderWatchStale", _AGE, _OF_AGE, "NaN " * 91, "NaN 1x89", "NaN"),
    _one(
        "GcushareLedgerDrift",
        f'gcushare_ledger_drifts_total{{{_EXTENDER},vendor="enflame"}}',
        _OF_EXTENDER | {"vendor": "enflame"},
        "0x30 1x60",
        "7x90",
    ),
    Case("GcushareBindsFail", {"vendor": "enflame"}, _binds("error", "0+1x90"), _binds("bound", "0+9x90")),
    Case(
        alert="GcushareAnswersSlow",
        fires=_answers("bind", fast=0, slow=9),
        # Many fast ones, and a few slow ones.
        quiet=_answers("bind", fast=9, slow=0) | _answers("filter", fast=0, slow=2),
        labels={"vendor": "enflame", "verb": "bind"},
        value="4.96s",
    ),
    _reason("fragmented", "full", "GcushareMemoryFragmented"),
    _reason("fits", "full", "GcusharePodsWaitThoughTheyFit"),
    _count("GcushareNodesUnreadable", "gcushare_nodes_unreadable"),
    _count("GcusharePodsUnreadable", "gcushare_pods_unreadable"),
    _count("GcushareNodesWithoutUnits", "gcushare_nodes_without_units"),
)

_GIB = 1 << 30


def _use(used_gib: float) -> Series:
    """A card of 64 GiB, of whose memory 8 GiB are granted and 1 GiB is kept back; a 32nd are 2 GiB."""
    figures = {"memory_used": used_gib, "granted": 8, "reserved": 1, "memory": 64}
    return {f"gcushare_card_{name}_bytes{{{_CARD}}}": f"{int(gib * _GIB)}x90" for name, gib in figures.items()}


def _whole_use(card: int) -> Series:
    """A card of 64 GiB with 4 GiB kept back that one pod has whole, and uses to the last byte but one."""
    labels = _CARD.replace('card="3"', f'card="{card}"')
    figures = {"memory_used_bytes": 64 * _GIB - 1, "granted_bytes": 59 * _GIB, "reserved_bytes": 4 * _GIB}
    figures |= {"memory_bytes": 64 * _GIB, "granted_units": 59, "units": 59}
    return {f"gcushare_card_{name}{{{labels}}}": f"{value}x90" for name, value in figures.items()}


def _burst(card: int) -> Series:
    """The card of ``_use`` with a pod that uses as much as its limit allows while no other pod needs it."""
    series = _use(20) | {f"gcushare_pod_memory_limit_bytes{{{_POD}}}": f"{24 * _GIB}x90"}
    return {name.replace('card="3"', f'card="{card}"'): values for name, values in series.items()}


def _of_card(name: str) -> str:
    return f"gcushare_card_{name}{{{_CARD}}}"


_REGISTERED = f'gcushare_plugin_registered{{{_NODE},resource="{_RESOURCE}"}}'
_HEALTHY = _of_card("healthy")
_UNITS = {_of_card("units"): "16x90"}
_OFFERED = _UNITS | {_REGISTERED: _ONE}
_OF_DRIVER = {"vendor": "enflame", "node": "node-1"}
_EVICTIONS = f"gcushare_plugin_over_use_evictions_total{{{_NODE},outcome="

_NODES = (
    Case("GcushareNodeOffersNoUnits", _OF_DRIVER, _OFFERED | {_HEALTHY: _ZERO}, _OFFERED | {_HEALTHY: _ONE}),
    Case(
        alert="GcusharePluginNotRegistered",
        # The list is refused: each third look falls into a moment in which it is read. A kubelet's restart is brief.
        fires=_UNITS | {_REGISTERED: "0 0 1 " * 30},
        quiet=_UNITS | {_REGISTERED: "1x57 0x1 1x30"},
        labels=_OF_NODE | {"resource": _RESOURCE},
    ),
    _one("GcushareCardSick", _HEALTHY, _OF_CARD, _ZERO, _ONE),
    Case(
        alert="GcushareCardUsesMoreThanGranted",
        fires=_use(10.5),
        # A whole card counts as granted to the last unit, because its reserve is used as well.
        quiet=_use(9.9) | _whole_use(card=4) | _burst(card=5),
        labels=_OF_CARD,
        value="2.5Gi",
    ),
    Case(
        alert="GcusharePodUsesMoreThanGranted",
        fires={f"gcushare_pod_over_use_bytes{{{_POD}}}": f"{5 * _GIB // 2}x90"},
        quiet={f"gcushare_plugin_over_uses_total{{{_NODE}}}": _ONE},
        labels=_OF_POD,
        value="2.5Gi",
    ),
    _one("GcushareMemoryUnrecorded", _of_card("unrecorded_units"), _OF_CARD, _THREE, _ZERO, "3"),
    Case(
        alert="GcushareEvictionsFail",
        fires={f'{_EVICTIONS}"refused"}}': "0+1x90"},
        quiet={f'{_EVICTIONS}"refused"}}': "5x90", f'{_EVICTIONS}"evicted"}}': "0+1x90"},
        labels=_OF_DRIVER,
        value="60",
    ),
    # Refused for good, tried again every three minutes; and a hiccup.
    _of_node(
        "GcushareRecordWritesFail",
        "gcushare_plugin_record_write_failures_total",
        "0 0 0 " + "".join(f"{n} {n} {n} " for n in range(1, 30)),
        "0x55 4x35",
    ),
    _of_node("GcushareKubeletRecordUnreadable", "gcushare_plugin_kubelet_record_failures_total", "0+1x90", "5x90"),
    # Eight at once, after an hour without any.
    _one(
        "GcushareAllocationsRefused",
        f'gcushare_plugin_failed_calls_total{{{_NODE},call="Allocate"}}',
        _OF_DRIVER | {"call": "Allocate"},
        "0x55 8x35",
        "8x90",
    ),
    _of_node("GcushareForeignDeviceIds", "gcushare_plugin_foreign_containers", _TWO, _ZERO, "2"),
    _of_node("GcusharePluginWatchStale", "gcushare_plugin_watch_age_seconds", "0+60x90", "70x90"),
    _of_node("GcusharePluginWatchStale", "gcushare_plugin_watch_age_seconds", "NaN " * 91, "70x90"),
)

_DAY = 86400
_AT = 70
_ABOUT = 'purpose="server",file="/tls/tls.crt"'


def _certificate(instance: str, days: int) -> Series:
    """A certificate that ends so long after the case; the time is counted from its beginning."""
    name = "gcushare_tls_certificate_not_after_timestamp_seconds"
    return {f"{name}{{{instance},{_ABOUT}}}": f"{_AT * 60 + days * _DAY}x90"}


_CERTIFICATES = (
    # One replica of two has not taken the renewal.
    Case(
        alert="GcushareCertificateRunsOut",
        fires=_certificate(_EXTENDER, 90) | _certificate(_OTHER, 3),
        quiet=_certificate(_EXTENDER, 90) | _certificate(_OTHER, 5),
        labels=_OF_JOB | {"purpose": "server", "file": "/tls/tls.crt"},
        value="3d 0h 0m 0s",
        at=_AT,
    ),
)

_DRIVER = f'{_PLUGIN},node="node-1",vendor="enflame"'
_WRITES = f'gcushare_claims_write_failures_total{{{_EXTENDER},what="template"}}'

_CLAIMS = (
    _one("GcushareClaimsDriverNotRegistered", f"gcushare_claims_registered{{{_DRIVER}}}", _OF_DRIVER, _ZERO, _ONE),
    _one("GcushareClaimsSlicesStale", f"gcushare_claims_slices_current{{{_DRIVER}}}", _OF_DRIVER, _ZERO, _ONE),
    # Refused at each of the kubelet's attempts; and some once, on a busy day.
    _one(
        "GcushareClaimsNotPrepared",
        f'gcushare_claims_failed_calls_total{{{_DRIVER},call="NodePrepareResources"}}',
        _OF_NODE | {"call": "NodePrepareResources"},
        "0+1x90",
        "0x30 3x60",
    ),
    _one("GcushareClaimsWritesFail", _WRITES, _OF_EXTENDER | {"what": "template"}, "0+1x90", "0x30 2x60"),
)

CASES = (*_UP, *_SCHEDULING, *_NODES, *_CERTIFICATES, *_CLAIMS)
