"""Settings of leader election, for programs with several replicas."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.core.lease_times import LeaseTimes
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import setting, settings


@settings
class ElectionSettings:
    """Leader election. A program gives its own default of ``lease_name``."""

    leader_elect: bool = setting(
        parsers.boolean(),
        default=True,
        help="Elect one of several replicas as the leader. Without election, run exactly one replica.",
    )
    lease_name: str = setting(parsers.text("NAME", accepted="a name of a Lease"), default="", help="Name of the Lease.")
    lease_namespace: str | None = setting(
        parsers.optional_text("NAMESPACE", "the namespace of the credentials", "a namespace"),
        default=None,
        help="Namespace of the Lease.",
    )
    # After a SIGKILL another candidate takes over within about 13 s: the duration and two attempts. If the holder is
    # cut off from the API server, 3.5 s pass between its stop and the next holder's start.
    lease_duration: float = setting(
        parsers.duration_s(1, 600),
        default=10.0,
        help="How long the others wait after the leader's last renewal; whole seconds. A killed leader is followed by "
        "the next within this time and about three seconds.",
    )
    lease_renew_deadline: float = setting(
        parsers.duration_s(0.2, 600),
        default=6.5,
        help="How long a leader works after its last renewal. The extender needs more than the time that one bind "
        "request may take (2s) between this and the duration.",
    )
    lease_retry: float = setting(
        parsers.duration_s(0.05, 60), default=1.0, help="Time between two attempts to renew or to take the Lease."
    )

    def times(self) -> LeaseTimes:
        """The times for the elector.

        Raises:
            ValueError: they do not fit each other.
        """
        return LeaseTimes(self.lease_duration, self.lease_renew_deadline, self.lease_retry)

    def find_conflicts(self) -> Iterator[str]:
        """The times of a lease must grow from retry over deadline to duration."""
        try:
            self.times()
        except ValueError as error:
            yield f"lease-duration, lease-renew-deadline and lease-retry: {error}"
