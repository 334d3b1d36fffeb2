"""The settings of ``gcushare doctor``."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.cli.terminal.output import TextOrJson, text_or_json_flag
from gcushare.cluster.cluster_flags import WhereSettings
from gcushare.cluster.diagnosis.findings import Severity
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings.declare import Program, group, settings
from gcushare.runtime.settings.kubernetes import KubeSettings

DOCTOR = "gcushare doctor"

FOUND_WARNING, FOUND_ERROR = 3, 4
EXIT_OF: Mapping[Severity, int] = {
    Severity.INFO: DONE,
    Severity.WARNING: FOUND_WARNING,
    Severity.ERROR: FOUND_ERROR,
}
"""The exit status of an examination by its worst finding; 1, 2, 70 and 75 mean that it could not be made."""


@settings
class DoctorSettings:
    """Examination."""

    output: TextOrJson = text_or_json_flag("text for people, json with everything.")
    where: WhereSettings = group(WhereSettings)
    kube: KubeSettings = group(KubeSettings)


PROGRAM = Program(
    name=DOCTOR,
    summary="Examine a cluster and say what is wrong and what to do, worst first: scheduler, extender, device plugins, "
    "nodes, pods' records, other systems on the same cards, certificates, rights. It reads through the API server and "
    "changes nothing.",
    settings=DoctorSettings,
    examples=(
        (DOCTOR, "the whole cluster of the current kubeconfig context"),
        (f"{DOCTOR} --node gpu-7", "one node"),
        (f"{DOCTOR} -o json | jq -r '.findings[].id'", "for programs"),
        (
            f"{DOCTOR} --scheduler-config /etc/kubernetes/gcushare/scheduler-extender-config-v1.23+.yaml",
            "on a control-plane node",
        ),
    ),
    exit_status={
        DONE: "Nothing is wrong, infos aside.",
        FOUND_WARNING: "The worst finding is a warning.",
        FOUND_ERROR: "The worst finding is an error.",
    },
    notes="With a code other than 0, 3 and 4 no examination was made. docs/doctor.md lists every "
    "finding. NO_COLOR and FORCE_COLOR are obeyed, and on a terminal COLUMNS; a pipe gets whole lines.",
)
