"""The settings of ``gcushare doctor``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gcushare.cli.terminal.output import TextOrJson, text_or_json_flag
from gcushare.cluster.cluster_flags import WhereSettings
from gcushare.cluster.diagnosis.findings import Severity
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings.declare import Program, group, settings, switch
from gcushare.runtime.settings.kubernetes import KubeSettings

DOCTOR = "gcushare doctor"

FOUND_WARNING, FOUND_ERROR = 3, 4
EXIT_OF: Mapping[Severity | None, int] = {
    None: DONE,
    Severity.INFO: DONE,
    Severity.WARNING: FOUND_WARNING,
    Severity.ERROR: FOUND_ERROR,
}
"""The exit status of an examination by its worst finding; 1, 2, 70 and 75 mean that it could not be made."""


@settings
class DoctorSettings:
    """Examination."""

    output: TextOrJson = text_or_json_flag("text for people, json with everything.")
    fix: bool = switch(
        typed=True,
        help="Make the changes that findings mark with --fix: remove inventories and counts that a plugin left behind, "
        "cordons of cards that do not exist. They are listed first, and made when you say yes; each only while what it "
        "changes is as it was seen.",
    )
    yes: bool = switch(typed=True, help="With --fix: do not ask, for unattended use.")
    where: WhereSettings = group(WhereSettings)
    kube: KubeSettings = group(KubeSettings)

    def find_conflicts(self) -> Iterator[str]:
        """Check that --yes comes with --fix, and that --fix can ask."""
        if self.yes and not self.fix:
            yield "yes has a meaning only with fix: give both"
        if self.fix and not self.yes and self.output is TextOrJson.JSON:
            yield "output 'json' with fix cannot ask: give --yes too"


PROGRAM = Program(
    name=DOCTOR,
    summary="Examine a cluster and say what is wrong and what to do, worst first: scheduler, extender, device plugins, "
    "nodes, pods' records, other systems on the same cards, certificates, rights. It reads through the API server and "
    "changes nothing without --fix.",
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
    exit_status={
        DONE: "Nothing is wrong, infos aside; with --fix, nothing is left.",
        FOUND_WARNING: "The worst finding is a warning; with --fix, the worst that is left.",
        FOUND_ERROR: "The worst finding is an error; with --fix, the worst that is left.",
    },
    notes="With a code other than 0, 3 and 4 no examination was made. docs/doctor.md lists every "
    "finding. NO_COLOR and FORCE_COLOR are obeyed, and on a terminal COLUMNS; a pipe gets whole lines.",
)
