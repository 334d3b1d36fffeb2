"""Settings of leader election, for programs with several replicas."""

from __future__ import annotations

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import optional_setting, setting, settings


@settings
class ElectionSettings:
    """Leader election. A program gives its own default of ``lease_name``."""

    leader_elect: bool = setting(
        parsers.boolean(),
        default=True,
        help="Elect one of several replicas as the leader. Turn it off for a program that you run alone, outside a "
        "cluster.",
    )
    lease_name: str = setting(
        parsers.text("NAME", accepted="a name of a Lease"),
        default="",
        help="Name of the Lease. The chart sets it, so that two releases have two.",
    )
    lease_namespace: str | None = optional_setting(
        parsers.optional_text("NAMESPACE", "the namespace of the credentials", "a namespace"),
        help="Namespace of the Lease. The chart sets it to its own.",
    )
    pod_name: str | None = optional_setting(
        parsers.optional_text("NAME", "no pod is labelled", "a pod's name"),
        env="POD_NAME",
        help="This replica's pod, in the Lease's namespace. While it leads, the pod gets the label gcushare.io/leads, "
        "by which the chart's Services select it.",
    )
    lease_duration: float = 10.0
    """Seconds that the others wait after the leader's last renewal. After a SIGKILL another candidate takes over within
    about 13 s: these and two attempts."""
    lease_renew_deadline: float = 6.5
    """Seconds that a leader works after its last renewal: if it is cut off from the API server, 3.5 s pass between its
    stop and the next holder's start, more than the time that one bind request may take."""
    lease_retry: float = 1.0
    """Seconds between two attempts to renew or to take the Lease."""
