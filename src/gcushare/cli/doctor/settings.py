"""What ``gcushare doctor`` and ``gcushare support-bundle`` take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gcushare._version import __version__
from gcushare.cli.doctor.findings import Severity
from gcushare.cli.terminal import options
from gcushare.cli.terminal.options import TextOrJson, optional_file, optional_text
from gcushare.core.errors import ConfigError
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings

DOCTOR, BUNDLE = "gcushare doctor", "gcushare support-bundle"

FOUND_WARNING, FOUND_ERROR = 3, 4
EXIT_OF: Mapping[Severity | None, int] = {
    None: DONE,
    Severity.INFO: DONE,
    Severity.WARNING: FOUND_WARNING,
    Severity.ERROR: FOUND_ERROR,
}
"""The exit status of an examination by its worst finding; 1, 2, 70 and 75 mean that it could not be made."""


@settings
class WhereSettings:
    """Where to look."""

    node: str | None = setting(
        optional_text("NAME", "the whole cluster", "a node's name"),
        default=None,
        help="Examine this node, its plugin and its pods only; scheduler and extender are looked at all the same.",
    )
    extender_service: str = setting(
        parsers.text("NAMESPACE/NAME", accepted="NAMESPACE/NAME"),
        default="kube-system/gcushare-scheduler-extender",
        env="GCUSHARE_EXTENDER_SERVICE_NAME",
        help="The extender's Service: its address is what the scheduler must call.",
    )
    scheduler_config: Path | None = setting(
        optional_file("only what the API server knows"),
        default=None,
        help="The configuration that kube-scheduler reads, where it lies on this machine: on a control-plane node "
        "/etc/kubernetes/gcushare/scheduler-extender-config-v1.23+.yaml. The API server does not know its contents.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """A Service has two names."""
        namespace, _, name = self.extender_service.partition("/")
        if not namespace or not name or "/" in name:
            yield f"extender-service {self.extender_service!r} must be NAMESPACE/NAME"

    @property
    def service(self) -> tuple[str, str]:
        """The namespace and the name of the extender's Service."""
        namespace, _, name = self.extender_service.partition("/")
        return namespace, name

    def read_scheduler_config(self) -> str | None:
        """Read the scheduler's configuration that lies on this machine; None where none is named.

        Raises:
            ConfigError: it cannot be read.
        """
        path = self.scheduler_config
        if path is None:
            return None
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as failure:
            raise ConfigError(
                f"scheduler-config {str(path)!r} cannot be read: {failure}; name a readable file"
            ) from failure


@settings
class DoctorSettings:
    """Examination."""

    output: TextOrJson = options.text_or_json("text for people, json with everything.")
    color: bool | None = options.color()
    fix: bool = setting(
        parsers.boolean(),
        default=False,
        typed=True,
        help="Make the changes that findings mark with --fix: remove inventories and counts that a plugin left behind, "
        "cordons of cards that do not exist. They are listed first, and made when you say yes; each only while what it "
        "changes is as it was seen.",
    )
    yes: bool = setting(
        parsers.boolean(), default=False, typed=True, help="With --fix: do not ask, for unattended use."
    )
    where: WhereSettings = group(WhereSettings)
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """There is nothing to say yes to without --fix."""
        if self.yes and not self.fix:
            yield "yes has a meaning only with fix: give both"
        if self.fix and not self.yes and self.output is TextOrJson.JSON:
            yield "output 'json' with fix cannot ask: give --yes too"


DOCTOR_PROGRAM = Program(
    name=DOCTOR,
    summary="Examine a cluster and say what is wrong and what to do, worst first: scheduler, extender, device plugins, "
    "nodes, pods' records, other systems on the same cards, clocks, certificates, rights. It reads through the API "
    "server and changes nothing without --fix.",
    version=__version__,
    settings=DoctorSettings,
    examples=(
        (DOCTOR, "the whole cluster of the current kubeconfig context"),
        (f"{DOCTOR} --node gpu-7", "one node"),
        (f"{DOCTOR} -o json | jq -r '.findings[].id'", "for programs"),
        (f"{DOCTOR} --fix", "and remove what a plugin left behind, after asking"),
        (
            f"{DOCTOR} --scheduler-config /etc/kubernetes/gcushare/scheduler-extender-config-v1.23+.yaml",
            "on a control-plane node",
        ),
    ),
    notes=f"Its own exit status: {DONE} where nothing is wrong (infos aside), {FOUND_WARNING} where the worst finding "
    f"is a warning, {FOUND_ERROR} where it is an error; with --fix, of what is left afterwards. The other codes mean "
    "that no examination was made. docs/doctor.md lists every finding. NO_COLOR and COLUMNS are obeyed.",
)


@settings
class BundleSettings:
    """Bundle."""

    file: Path | None = setting(
        optional_file("gcushare-support-TIME.tar.gz here"),
        default=None,
        argument=True,
        help="The archive to write; it must not exist yet.",
    )
    max_size: int = setting(
        parsers.size_bytes(64 * 1024, 1 << 34),
        default=64 << 20,
        help="Bytes of all contents before compression; what does not fit is listed in the manifest.",
    )
    log_lines: int = setting(
        parsers.integer(0, 1_000_000), default=5000, help="Last lines of each container's log; 0 leaves logs out."
    )
    where: WhereSettings = group(WhereSettings)
    kube: KubeSettings = group(KubeSettings)


BUNDLE_PROGRAM = Program(
    name=BUNDLE,
    summary="Collect what is needed to find out what is wrong: findings, versions, nodes and pods with "
    "cards, what plugins and extender know, logs, events; in one archive without secrets.",
    version=__version__,
    settings=BundleSettings,
    examples=(
        (BUNDLE, "everything, into gcushare-support-<time>.tar.gz"),
        (f"{BUNDLE} --node gpu-7 /tmp/gpu-7.tar.gz", "one node, its plugin and its pods"),
        (f"{BUNDLE} --log-lines 500 --max-size 5Mi", "small enough to be mailed"),
    ),
    notes="Fields go in by name: no Secrets, no environment, no annotations or labels of others, no command lines but "
    "known settings, no messages, no log lines but those of these programs; and from what is left "
    "whatever looks like a password, token or key is masked. MANIFEST.json lists every file, and what was left out and "
    "why. "
    "Names of nodes, pods, namespaces and images stay: read the archive before you send it.",
)
