"""Settings that say what to examine: the whole cluster or one node, and where extender and scheduler are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import setting, settings


@settings
class WhereSettings:
    """Where to look."""

    node: str | None = setting(
        parsers.optional_text("NAME", "the whole cluster", "a node's name"),
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
        parsers.optional_file("only what the API server knows"),
        default=None,
        help="The configuration that kube-scheduler reads, where it lies on this machine: on a control-plane node "
        "/etc/kubernetes/gcushare/scheduler-extender-config-v1.23+.yaml. The API server does not know its contents.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """Check that the Service is NAMESPACE/NAME."""
        namespace, _, name = self.extender_service.partition("/")
        if not namespace or not name or "/" in name:
            yield f"extender-service {self.extender_service!r} must be NAMESPACE/NAME"

    @property
    def service(self) -> tuple[str, str]:
        """The namespace and the name of the extender's Service."""
        namespace, _, name = self.extender_service.partition("/")
        return namespace, name

    def read_scheduler_config(self) -> str | None:
        """Read the scheduler's configuration that lies on this machine; None if none is named.

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
