"""The flags of ``kubectl inspect``: kubectl's own where kubectl has one for it, with its letter and its meaning."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path

from gcushare.kube.connection.config import ConfigSources, Limits
from gcushare.kube.connection.overrides import Overrides
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import group, setting, settings
from gcushare.runtime.settings.groups import PluginPodSettings


class Output(enum.Enum):
    """What is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


class SortKey(enum.Enum):
    """By what nodes are ordered."""

    NAME = "name"
    TOTAL = "total"
    ALLOCATED = "allocated"
    FREE = "free"
    PERCENT = "percent"
    PODS = "pods"


class SourceChoice(enum.Enum):
    """Whose figures are shown."""

    AUTO = "auto"
    EXTENDER = "extender"
    API = "api"


class Shell(enum.Enum):
    """Shells with completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def _text(metavar: str, unset: str, accepted: str = "any text that is not empty") -> parsers.Parser[str | None]:
    return parsers.optional(parsers.text(metavar, accepted=accepted), unset)


def _file(unset: str) -> parsers.Parser[Path | None]:
    return parsers.optional(parsers.path("FILE"), unset)


@settings
class ClusterFlags:
    """Which cluster, and who asks."""

    kubeconfig: str | None = setting(
        parsers.optional(parsers.text("FILE", accepted="a kubeconfig file, or several joined by colons"), "as kubectl"),
        default=None,
        env="KUBECONFIG",
        help="How to reach the API server; without it ~/.kube/config, or in a pod its service account.",
    )
    context: str | None = setting(
        _text("NAME", "the current context"), default=None, help="Which of the kubeconfig's contexts to use."
    )
    cluster: str | None = setting(
        _text("NAME", "the context's"), default=None, help="Which of the kubeconfig's clusters to use."
    )
    user: str | None = setting(_text("NAME", "the context's"), default=None, help="Which of its users to use.")
    server: str | None = setting(
        _text("URL", "the cluster's"), default=None, short="-s", help="The API server's address instead of the file's."
    )
    token: str | None = setting(
        _text("TOKEN", "the user's"), default=None, secret=True, help="Bearer token instead of the user's."
    )
    act_as: str | None = setting(
        _text("USER", "nobody else"), default=None, help="Act as this user: what would they see? kubectl's --as."
    )
    act_as_group: tuple[str, ...] = setting(
        parsers.comma_list(parsers.text("GROUP")), default=(), help="Groups to act in, with --act-as."
    )
    certificate_authority: Path | None = setting(_file("the cluster's"), default=None, help="Whom to trust, in PEM.")
    client_certificate: Path | None = setting(_file("the user's"), default=None, help="Certificate to show, in PEM.")
    client_key: Path | None = setting(_file("the user's"), default=None, help="Its private key, in PEM.")
    tls_server_name: str | None = setting(
        _text("NAME", "the address's"),
        default=None,
        env="GCUSHARE_KUBE_TLS_SERVER_NAME",
        help="Name to expect in the server's certificate.",
    )
    insecure_skip_tls_verify: bool = setting(
        parsers.boolean(), default=False, help="Trust any certificate: anybody in between can read and answer."
    )
    request_timeout: float = setting(
        parsers.duration_s(0, 3600),
        default=0.0,
        env="GCUSHARE_KUBE_REQUEST_TIMEOUT",  # without KUBE it is a server's limit
        help="How long one request may take; 0 leaves 10s for an object and 60s for a page of a list.",
    )

    def sources(self, environ: dict[str, str]) -> ConfigSources:
        """Where the API server is to be found."""
        found = dict(environ)
        if self.kubeconfig is not None:
            found["KUBECONFIG"] = self.kubeconfig
        return ConfigSources(
            context=self.context,
            environ=found,
            home=Path(environ["HOME"]) if environ.get("HOME") else Path.home(),
            overrides=Overrides(
                cluster=self.cluster,
                user=self.user,
                server=self.server,
                tls_server_name=self.tls_server_name,
                certificate_authority=self.certificate_authority,
                insecure_skip_tls_verify=self.insecure_skip_tls_verify,
                token=self.token,
                client_certificate=self.client_certificate,
                client_key=self.client_key,
                impersonate=self.act_as,
                impersonate_groups=self.act_as_group,
            ),
        )

    def limits(self) -> Limits:
        """Deadlines of requests."""
        if not self.request_timeout:
            return Limits()
        return Limits(request_s=self.request_timeout, list_page_s=self.request_timeout, connect_s=self.request_timeout)


@settings
class SourceFlags:
    """Whose figures."""

    source: SourceChoice = setting(
        parsers.choice(SourceChoice),
        default=SourceChoice.AUTO,
        help="extender: the scheduler's own ledger, bindings under way included. api: counted here from nodes and pods "
        "by the same ledger. auto: the extender where it answers, else the API server; stderr says which.",
    )
    extender_url: str | None = setting(
        _text("URL", "through the API server"),
        default=None,
        help="Ask the extender here, such as http://127.0.0.1:32766, instead of through the API server's proxy.",
    )
    extender_service: str = setting(
        parsers.text("NAMESPACE/NAME:PORT", accepted="NAMESPACE/NAME:PORT, with https: before a NAME that speaks TLS"),
        default="kube-system/gcushare-scheduler-extender:32766",
        help="The extender's Service. The proxy needs the right to get services/proxy.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """The Service has three parts."""
        namespace, _, rest = self.extender_service.partition("/")
        name, _, port = rest.removeprefix("https:").partition(":")
        if not (namespace and name and port) or "/" in rest:
            yield f"extender-service {self.extender_service!r} must be NAMESPACE/NAME:PORT, https: before NAME for TLS"
        if self.extender_url is not None and not self.extender_url.startswith(("http://", "https://")):
            yield f"extender-url {self.extender_url!r} must begin with http:// or https://"


@settings
class ShowFlags:
    """What is shown."""

    output: Output = setting(
        parsers.choice(Output),
        default=Output.TABLE,
        short="-o",
        help="table for people, wide with what a node is and has left, json and yaml with everything, csv one line per "
        "card.",
    )
    color: bool | None = setting(
        parsers.maybe_boolean(),
        default=None,
        help="Colours; without the flag on terminals only, and not where NO_COLOR is set.",
    )


@settings
class TableSettings:
    """Nodes and cards."""

    node: str | None = setting(
        _text("NODE", "every node with cards", "a node's name"),
        default=None,
        argument=True,
        help="Show this node only.",
    )
    details: bool = setting(
        parsers.boolean(),
        default=False,
        short="-d",
        help="Every node's pods: on which card, how much, in which namespace and state.",
    )
    watch: bool = setting(
        parsers.boolean(),
        default=False,
        short="-w",
        help="Follow: a live screen on a terminal, one line per change on a pipe.",
    )
    interval: float = setting(
        parsers.duration_s(0.2, 3600),
        default=2.0,
        help="With --watch and the extender's figures: between two questions. The API server tells by itself.",
    )
    namespace: str | None = setting(
        _text("NAME", "all namespaces"),
        default=None,
        short="-n",
        typed=True,
        help="List this namespace's pods only, and say what it holds. The cards' figures stay whole: cards are shared.",
    )
    all_namespaces: bool = setting(
        parsers.boolean(),
        default=False,
        short="-A",
        typed=True,
        help="All namespaces, which is the default; overrules -n.",
    )
    selector: str | None = setting(
        _text("LABELS", "all nodes", "a label selector such as pool=a,zone!=b"),
        default=None,
        short="-l",
        help="Only nodes with these labels.",
    )
    sort_by: SortKey = setting(
        parsers.choice(SortKey),
        default=SortKey.NAME,
        help="Order of the nodes: by name as people count (node-2 before node-10), else the largest first.",
    )
    show: ShowFlags = group(ShowFlags)
    figures: SourceFlags = group(SourceFlags)
    at: ClusterFlags = group(ClusterFlags)

    def find_conflicts(self) -> Iterator[str]:
        """One node by name, or several by labels; documents are not followed."""
        if self.node is not None and self.selector is not None:
            yield f"NODE {self.node!r} and selector {self.selector!r} exclude each other: give the one that is meant"
        if self.watch and self.show.output in (Output.YAML, Output.CSV):
            yield f"watch prints table, wide or json; output is {self.show.output.value!r}"

    @property
    def pod_namespace(self) -> str | None:
        """The namespace that pods are restricted to."""
        return None if self.all_namespaces else self.namespace


@settings
class NodeSettings(TableSettings):
    """One node."""

    node: str = setting(
        parsers.text("NODE", accepted="a node's name"),
        argument=True,
        help="The node, also one that is named as a command.",
    )
    details: bool = setting(
        parsers.boolean(),
        default=True,
        short="-d",
        help="The node's pods: on which card, how much, in which namespace and state.",
    )


@settings
class ExplainSettings:
    """Explain."""

    pod: str = setting(
        parsers.text("POD", accepted="a pod's name, or NAMESPACE/NAME"), argument=True, help="The pod to explain."
    )
    namespace: str | None = setting(
        _text("NAME", "the context's namespace"), default=None, short="-n", typed=True, help="The pod's namespace."
    )
    show: ShowFlags = group(ShowFlags)
    figures: SourceFlags = group(SourceFlags)
    at: ClusterFlags = group(ClusterFlags)

    def find_conflicts(self) -> Iterator[str]:
        """A namespace once; text, JSON or YAML."""
        if "/" in self.pod and (self.pod.count("/") > 1 or "" in self.pod.split("/")):
            yield f"POD {self.pod!r} must be NAME or NAMESPACE/NAME"
        if "/" in self.pod and self.namespace is not None and self.pod.split("/")[0] != self.namespace:
            yield f"POD {self.pod!r} and namespace {self.namespace!r} name two namespaces"
        if self.show.output is Output.CSV:
            yield "output 'csv' has no form for an explanation: use table, json or yaml"


@settings
class TopSettings:
    """Granted beside used."""

    node: str | None = setting(
        _text("NODE", "every node with cards", "a node's name"),
        default=None,
        argument=True,
        help="Show this node only.",
    )
    selector: str | None = setting(
        _text("LABELS", "all nodes", "a label selector"), default=None, short="-l", help="Only nodes with these labels."
    )
    show: ShowFlags = group(ShowFlags)
    plugins: PluginPodSettings = group(PluginPodSettings)
    at: ClusterFlags = group(ClusterFlags)


@settings
class CompletionSettings:
    """Completion."""

    shell: Shell = setting(parsers.choice(Shell), argument=True, help="For which shell.")
