"""The flags of ``kubectl inspect``, with kubectl's letters and meanings; the extender's are in ``cluster_flags``."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import Any

from gcushare.cluster.cluster_flags import SourceFlags, plugin_namespace
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, group, optional_setting, setting, settings, switch
from gcushare.runtime.settings.kubernetes import KubeSettings


class Output(enum.Enum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class SortKey(enum.Enum):
    NAME = "name"
    TOTAL = "total"
    ALLOCATED = "allocated"
    FREE = "free"
    PERCENT = "percent"
    PODS = "pods"


def _node() -> Any:
    """Declare the argument NODE."""
    parser = parsers.optional_text("NODE", "every node with cards", "a node's name")
    return optional_setting(parser, argument=True, help="Show this node only.")


def _selector() -> Any:
    """Declare ``-l``."""
    parser = parsers.optional_text("LABELS", "all nodes", "a label selector such as pool=a,zone!=b")
    return optional_setting(parser, short="-l", help="Only nodes with these labels.")


def _namespace(unset: str, help: str) -> Any:
    """Declare ``-n``."""
    return optional_setting(parsers.optional_text("NAME", unset), help=help, short="-n", typed=True)


def _find_two_choices(node: str | None, selector: str | None) -> Iterator[str]:
    if node is not None and selector is not None:
        yield f"NODE {node!r} and selector {selector!r} exclude each other: give the one that is meant"


def _find_no_wide_form(output: Output, what: str) -> Iterator[str]:
    if output is Output.WIDE:
        yield f"output 'wide' has no form for {what}: use table, json or yaml"


@settings
class ShowFlags:
    """What is shown."""

    output: Output = choice_setting(
        Output.TABLE,
        short="-o",
        help="table for people, on a pipe that of Aliyun's gpushare; wide with what a node is and has left, json and "
        "yaml with everything.",
    )


@settings
class TableSettings:
    """Nodes and cards."""

    node: str | None = _node()
    details: bool = switch(
        short="-d",
        help="Every node's pods: on which card, how much, in which namespace; on a terminal also their states.",
    )
    namespace: str | None = _namespace(
        "all namespaces",
        "List this namespace's pods only, and say what it holds. The cards' figures stay whole: cards are shared.",
    )
    all_namespaces: bool = switch(
        short="-A",
        typed=True,
        help="All namespaces, which is the default; overrules -n.",
    )
    selector: str | None = _selector()
    sort_by: SortKey = choice_setting(
        SortKey.NAME,
        help="Order of the nodes: by name as people count (node-2 before node-10), else the largest first.",
    )
    show: ShowFlags = group(ShowFlags)
    figures: SourceFlags = group(SourceFlags)
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """One node by name, or several by labels."""
        yield from _find_two_choices(self.node, self.selector)

    @property
    def pod_namespace(self) -> str | None:
        """The namespace that pods are restricted to."""
        return None if self.all_namespaces else self.namespace


@settings
class ExplainSettings:
    """Explain."""

    pod: str = setting(
        parsers.text("POD", accepted="a pod's name, or NAMESPACE/NAME"), argument=True, help="The pod to explain."
    )
    namespace: str | None = _namespace("the context's namespace", "The pod's namespace.")
    show: ShowFlags = group(ShowFlags)
    figures: SourceFlags = group(SourceFlags)
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """A namespace once."""
        parts = self._parts
        if len(parts) > 2 or "" in parts:
            yield f"POD {self.pod!r} must be NAME or NAMESPACE/NAME"
        if len(parts) > 1 and self.namespace not in (None, parts[0]):
            yield f"POD {self.pod!r} and namespace {self.namespace!r} name two namespaces"

    @property
    def _parts(self) -> list[str]:
        """Namespace, if it is given, and name; what ``kubectl get -o name`` prints is a name."""
        return re.sub("^pods?/", "", self.pod).split("/")

    def pod_key(self, current: str) -> tuple[str, str]:
        """Namespace and name; ``current`` is the context's namespace."""
        *namespace, name = self._parts
        return (*namespace, self.namespace or current)[0], name


@settings
class TopSettings:
    """Granted and used."""

    node: str | None = _node()
    selector: str | None = _selector()
    peak: bool = switch(
        help="Show the most that each pod used too, since its plugin saw it first: a restart of the plugin begins "
        "again.",
    )
    show: ShowFlags = group(ShowFlags)
    plugin_namespace: str = plugin_namespace()
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """One node by name, or several by labels."""
        return _find_two_choices(self.node, self.selector)


@settings
class RightsizeSettings:
    """Right sizes."""

    namespace: str | None = _namespace("all namespaces", "Only this namespace's workloads.")
    show: ShowFlags = group(ShowFlags)
    plugin_namespace: str = plugin_namespace()
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """Text, JSON or YAML."""
        return _find_no_wide_form(self.show.output, "sizes")


@settings
class NodesNeededSettings:
    """Nodes needed."""

    like: str | None = optional_setting(
        parsers.optional_text("NODE", "every class of the cluster's nodes", "a node's name, or a class such as 8x48"),
        argument=True,
        help="Count nodes like this one, or of a class: CARDSxUNITS, such as 8x48 or 8x48:MODEL.",
    )
    pods: str | None = optional_setting(
        parsers.optional_text("NAMESPACE[/POD]", "all waiting pods"),
        help="Count for this namespace's pods, or for one pod.",
    )
    add: tuple[tuple[int, int], ...] = setting(
        parsers.comma_list(parsers.counted_amounts()),
        default=(),
        typed=True,
        help="As if these pods waited too, each with so many units of one card: 40x4,2x16.",
    )
    show: ShowFlags = group(ShowFlags)
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """Text, JSON or YAML."""
        return _find_no_wide_form(self.show.output, "a count")
