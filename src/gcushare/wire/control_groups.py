"""The text of ``/proc/<pid>/cgroup``: which pod's control group a process is in. Pure.

The kubelet makes one control group per pod and writes the pod's uid into its name, whichever runtime fills it:

- cgroupfs: ``/kubepods/burstable/pod<uid>/<container>``;
- systemd: ``.../kubepods-burstable-pod<uid, - as _>.slice/cri-containerd-<container>.scope``, with the kubelet's
  ``--cgroup-root`` before it (``kubelet-kubepods-...``), and ``...slice:cri-containerd:<container>`` of a runtime that
  was configured with another driver than the kubelet;
- a static pod's uid is the 32 hex digits of its manifest's hash, without dashes.

Source: man 7 cgroups; kubelet ``pkg/kubelet/cm/pod_container_manager_linux.go`` and ``cgroup_manager_linux.go``.
"""

from __future__ import annotations

import re

_POD = re.compile(
    r"(?:.*-)?pod(?P<uid>[0-9a-f]{8}(?P<dash>[-_]?)[0-9a-f]{4}(?:(?P=dash)[0-9a-f]{4}){2}(?P=dash)[0-9a-f]{12})"
    r"(?:\.slice)?(?::.*| \(deleted\))?",
    re.ASCII,
)
"""A whole part of a path. Behind a ":" follow runtime and container, " (deleted)" follows what was removed already."""


def find_pod_uid(text: str) -> str | None:
    """Find the uid of the pod that a process belongs to, as the API server writes it; None for one of no pod.

    The outermost pod counts: what stands below it is made within the pod, by whoever may write there. Version 1 has a
    line per hierarchy; lines that name different pods name none.
    """
    # Not splitlines: a name may contain what Unicode takes for the end of a line.
    found = {uid for line in text.split("\n") if (uid := _outermost(line)) is not None}
    return found.pop() if len(found) == 1 else None


def _outermost(line: str) -> str | None:
    """The pod of one line: ``hierarchy:controllers:path``; a path seen from another namespace begins with ``/../``."""
    for part in line.split(":", 2)[-1].split("/"):
        if match := _POD.fullmatch(part):
            return match["uid"].replace("_", "-")
    return None
