"""The flags of commands that read a cluster: whose figures, which plugins, what to examine."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import choice_setting, optional_setting, setting, settings
from gcushare.runtime.settings.parsers import ObjectName, is_http_address, optional_file, optional_text
from gcushare.wire.contracts import EXTENDER, EXTENDER_PORT, NAMESPACE


class SourceChoice(enum.Enum):
    AUTO = "auto"
    EXTENDER = "extender"
    API = "api"


@settings
class SourceFlags:
    """Whose figures."""

    source: SourceChoice = choice_setting(
        SourceChoice.AUTO,
        help="extender: the scheduler's own ledger, bindings under way included. api: counted here from nodes and pods "
        "by the same ledger. auto: the extender if it answers, else the API server; stderr says which.",
    )
    extender_url: str | None = optional_setting(
        optional_text("URL", "through the API server"),
        help="Ask the extender here, such as http://127.0.0.1:32766, instead of through the API server's proxy.",
    )
    extender_service: str = setting(
        parsers.text("NAMESPACE/NAME:PORT", accepted="NAMESPACE/NAME:PORT, with https: before a NAME that speaks TLS"),
        default=f"{NAMESPACE}/{EXTENDER}:{EXTENDER_PORT}",
        help="The extender's Service. The proxy needs the right to get services/proxy.",
    )

    def find_conflicts(self) -> Iterator[str]:
        """The Service has three parts, and an address can be asked."""
        namespace, _, rest = self.extender_service.partition("/")
        name, _, port = rest.removeprefix("https:").partition(":")
        if not (namespace and name and port) or "/" in rest:
            yield f"extender-service {self.extender_service!r} must be NAMESPACE/NAME:PORT, https: before NAME for TLS"
        if self.extender_url is not None and not is_http_address(self.extender_url):
            yield f"extender-url {self.extender_url!r} must be http://HOST:PORT or https://HOST:PORT"


def plugin_namespace() -> Any:
    """Declare ``--plugin-namespace``."""
    return setting(parsers.text("NAME"), default=NAMESPACE, help="Where the device plugins' pods are.")


@settings
class WhereSettings:
    """Where to look."""

    node: str | None = optional_setting(
        optional_text("NAME", "the whole cluster", "a node's name"),
        help="Examine this node, its plugin and its pods only. The scheduler and the extender are always examined.",
    )
    extender_service: ObjectName = setting(
        parsers.object_name("NAMESPACE/NAME"),
        default=ObjectName(NAMESPACE, EXTENDER),
        env="GCUSHARE_EXTENDER_SERVICE_NAME",
        help="The extender's Service: its address is what the scheduler must call.",
    )
    scheduler_config: Path | None = optional_setting(
        optional_file("only what the API server knows"),
        help="The configuration that kube-scheduler reads, where it lies on this machine: on a control-plane node "
        "/etc/kubernetes/gcushare/scheduler-extender-config-v1.23+.yaml. The API server does not know its contents.",
    )

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
