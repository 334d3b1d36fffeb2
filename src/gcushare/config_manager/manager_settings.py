"""The settings of every command of ``gcushare-config-manager``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gcushare.config_manager.scheduler_config.versions import Version, accepted_versions, parse_version
from gcushare.core.errors import ConfigError
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import group, optional_setting, setting, settings, switch
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.parsers import ObjectName, optional_file, optional_text
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.vendors import DEFAULT_VENDOR, VENDORS, VENDORS_BY_NAME, Vendor
from gcushare.wire.contracts import EXTENDER, EXTENDER_PORT, NAMESPACE

BOTH = "both"


def _parse_version(raw: str) -> Version:
    try:
        return parse_version(raw)
    except ConfigError:
        raise ValueError("not a supported version") from None


@settings
class PlaceSettings:
    """Scheduler."""

    kubernetes_dir: str = setting(
        parsers.text("DIR", accepted="an absolute path"),
        default="/etc/kubernetes",
        help="Where the control plane keeps its files, if an admin put them elsewhere; static pods are searched for "
        "in manifests/ below it.",
    )
    files_dir: str | None = optional_setting(
        optional_text("DIR", "where the last change put them, or --kubernetes-dir", "an absolute path"),
        help="Where gcushare's own files go. With a directory of their own a pod mounts that and manifests/ without "
        "the cluster's keys; the edited manifest is then written in manifests/, under a name that the kubelet ignores.",
    )
    manifest: str | None = optional_setting(
        optional_text("FILE", "it is searched for", "an absolute path"),
        help="The static pod manifest that starts kube-scheduler, for an admin who gave it a name of their own.",
    )
    unit: str | None = optional_setting(
        optional_text("FILE", "a static pod is used", "an absolute path"),
        help="The systemd unit that starts kube-scheduler, such as /etc/systemd/system/kube-scheduler.service.",
    )
    restart: bool = switch(
        typed=True,
        help="With --unit: have systemd read its units again and restart the scheduler, and wait for it. The kubelet "
        "restarts a static pod by itself.",
    )
    host_root: Path = setting(
        parsers.path("DIR"),
        default=Path("/"),
        help="Where the host's filesystem is mounted in a pod (the chart sets it); all other paths are the host's own.",
    )
    scheduler_version: Version | None = optional_setting(
        parsers.optional(parsers.Parser("VERSION", accepted_versions(), _parse_version), "it is detected"),
        help="Version of kube-scheduler, if neither its image's tag nor the program itself names it.",
    )
    wait_timeout: float = setting(
        parsers.duration_s(1, 3600),
        default=180.0,
        help="How long to wait for a healthy scheduler before everything is put back. The default gives the kubelet "
        "20s to notice the change, 30s to end the old pod, and the rest to start the new one. It must stay healthy for "
        "a 36th of that, which is 5s.",
    )
    node_name: str | None = optional_setting(
        optional_text("NAME", "the process is searched for in /proc", "a node's name"),
        env="NODE_NAME",
        help="This node's name. The scheduler is then also found through its mirror pod, without access to the host's "
        "processes.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """Refuse a manifest together with a unit, and a restart without a unit."""
        if self.manifest is not None and self.unit is not None:
            yield f"manifest {self.manifest!r} and unit {self.unit!r} exclude each other: give the one that is used"
        if self.restart and self.unit is None:
            yield "restart is possible only with unit: the kubelet restarts a static pod by itself"


@settings
class ExtenderOptions:
    """Extender."""

    extender_url: str | None = optional_setting(
        optional_text("URL", "from the Service", "http:// or https://, address and port"),
        env="GCUSHARE_SCHEDULER_EXTENDER_URL",  # GCUSHARE_EXTENDER_URL is for people, such as a forwarded port
        help=f"How kube-scheduler reaches the extender, such as http://10.96.1.37:{EXTENDER_PORT}.",
    )
    extender_service: ObjectName = setting(
        parsers.object_name("namespace/name of a Service"),
        default=ObjectName(NAMESPACE, EXTENDER),
        env="GCUSHARE_EXTENDER_SERVICE_NAME",
        help="The Service whose ClusterIP and port are used if no URL is given; changes are followed.",
    )
    vendor: str = setting(
        parsers.one_of(*VENDORS_BY_NAME, BOTH),
        default=DEFAULT_VENDOR.name,
        help="For which vendor's pods the extender is called. kube-scheduler accepts one extender that binds, so "
        "'both' is one entry for the resources of both.",
    )
    whole_cards: bool = switch(
        help="Call the extender for pods that ask for whole cards too "
        f"({', '.join(vendor.whole_card_resource for vendor in VENDORS)}): for nodes "
        "whose plugin runs with --mode both. Such pods then fit only on nodes whose whole cards gcushare serves.",
    )
    claims: bool = switch(
        help="Call the extender for pods with claims too, if the admission policy marks them (claims.callExtender): it "
        "then chooses among the nodes that serve claims. Kubernetes 1.36 and later.",
    )
    weight: int = setting(
        parsers.integer(1, 100_000),
        default=1,
        help="Multiplies the extender's scores against those of the scheduler's own plugins.",
    )
    timeout: float = setting(
        parsers.duration_s(0.1, 60),
        default=5.0,
        # Not GCUSHARE_TIMEOUT: deploy.sh uses that for helm's wait.
        env="GCUSHARE_EXTENDER_TIMEOUT",
        help="How long kube-scheduler waits for one answer; a filter call that takes longer fails the attempt. The "
        "default is kube-scheduler's own.",
    )
    ignorable: bool = switch(
        help="Whether pods are scheduled without the extender if it does not answer. The plugin then chooses their "
        "card, and a pod that fits on no card fails when it starts.",
    )
    tls_ca: Path | None = optional_setting(
        optional_file("plain HTTP"),
        help="Certificate authorities of the extender in PEM; without them kube-scheduler verifies nothing. Changes "
        "are followed.",
    )
    tls_cert: Path | None = optional_setting(
        optional_file("none is shown"),
        help="Certificate in PEM that kube-scheduler shows to the extender.",
    )
    tls_key: Path | None = optional_setting(
        optional_file("none is shown"),
        help="Its private key in PEM; the configuration is then readable by root and the scheduler alone.",
    )
    tls_server_name: str | None = optional_setting(
        optional_text("NAME", "the Service's name"),
        help="Name to expect in the extender's certificate, because the URL has only an address.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """Refuse a certificate without its key or the reverse, and both without a CA."""
        if (self.tls_cert is None) != (self.tls_key is None):
            yield "tls-cert and tls-key belong together: set both, or neither"
        if self.tls_ca is None and self.tls_cert is not None:
            yield "tls-cert has no effect without tls-ca"

    @property
    def vendors(self) -> tuple[Vendor, ...]:
        """The vendors whose pods the extender is called for, all by the first one's URL prefix."""
        return VENDORS if self.vendor == BOTH else (VENDORS_BY_NAME[self.vendor],)

    @property
    def server_name(self) -> str:
        """The name in the extender's certificate: its Service's, unless another is given."""
        return self.tls_server_name or f"{self.extender_service.name}.{self.extender_service.namespace}.svc"


@settings
class CommandSettings:
    """Settings of the commands for the scheduler of this node."""

    place: PlaceSettings = group(PlaceSettings)
    extender: ExtenderOptions = group(ExtenderOptions)
    kube: KubeSettings = group(KubeSettings)


@settings
class RunSettings(CommandSettings):
    """Settings of the DaemonSet's loop."""

    log: LogSettings = group(LogSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=0)
    namespace: str = setting(
        parsers.text("NAME"),
        default=NAMESPACE,
        env="POD_NAMESPACE",
        help="Namespace of the ConfigMap with the desired state and the reports, and of the Lease for one node at a "
        "time.",
    )
    interval: float = setting(
        parsers.duration_s(0.05, 3600),
        default=10.0,
        help="Between two checks of the manifest, the Service and the CA: some file reads and two GETs each.",
    )


@settings
class RecoverNodesSettings:
    """Settings of the command that has every node recover."""

    kube: KubeSettings = group(KubeSettings)
    namespace: str = setting(
        parsers.text("NAME"),
        default=NAMESPACE,
        env="POD_NAMESPACE",
        help="Namespace of the ConfigMap with the desired state and the reports.",
    )
    wait_timeout: float = setting(
        parsers.duration_s(1, 3600),
        default=300.0,
        help="How long all nodes together may take; one after another, each waits for its scheduler.",
    )
