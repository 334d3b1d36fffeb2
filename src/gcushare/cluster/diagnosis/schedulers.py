"""How a kube-scheduler was started, and what its configuration says of extenders; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from gcushare.cluster.programs import SeenPod, main_container
from gcushare.core.errors import RemoteContractError
from gcushare.wire.untrusted_yaml import load_yaml

CONFIG_MAP_WORD = "ConfigMap "
"""How the source of a configuration begins that comes from the API server."""
OUR_CONFIG_NAMES = ("scheduler-extender-config.json", "scheduler-extender-config-v1.23+.yaml")
"""The files that the config manager writes; their contents lie on the host, out of the API server's sight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredExtender:
    """One extender of a scheduler's configuration."""

    url: str
    resources: tuple[str, ...] = ()
    binds: bool = False

    @property
    def _parts(self) -> SplitResult:
        try:
            return urlsplit(self.url)
        except ValueError:
            return urlsplit("")  # Not a URL: it has no host.

    @property
    def host(self) -> str:
        return self._parts.hostname or ""

    @property
    def port(self) -> int:
        """The port that is called; 0 if the URL has none that is valid."""
        parts = self._parts
        try:
            return parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return 0

    @property
    def path(self) -> str:
        return self._parts.path.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFacts:
    """One kube-scheduler. ``extenders`` is None if its configuration was not seen; ``profiles``: pods name one of them.

    ``config_file``: what ``--config`` or ``--policy-config-file`` names, empty for none; ``source``: where its contents
    were read; ``problem``: why they could not be.
    """

    name: str
    node: str = ""
    config_file: str = ""
    extenders: tuple[ConfiguredExtender, ...] | None = None
    profiles: frozenset[str] = frozenset()
    source: str = ""
    problem: str = ""

    @property
    def is_second(self) -> bool:
        """Whether it is a second scheduler, whose configuration is a ConfigMap of the API server."""
        return self.source.startswith(CONFIG_MAP_WORD)

    @property
    def has_our_file(self) -> bool:
        """Whether the config manager wrote what it reads."""
        return self.config_file.rpartition("/")[2] in OUR_CONFIG_NAMES


def config_map_of(pod: SeenPod, path: str) -> tuple[str, str] | None:
    """The ConfigMap and key behind a file of a scheduler's container; None if it comes from elsewhere."""
    container = main_container(pod)
    if container is None:
        return None
    maps = {each.name: each.config_map.name for each in pod.spec.volumes if each.config_map is not None}
    for mount in container.volume_mounts:
        folder = mount.mount_path.rstrip("/") + "/"
        if mount.name in maps and path.startswith(folder):
            return maps[mount.name], path.removeprefix(folder)
    return None


def parse_configuration(text: str) -> tuple[tuple[ConfiguredExtender, ...], frozenset[str]]:
    """Read the extenders of a KubeSchedulerConfiguration or a Policy, and the scheduler names of its profiles.

    Raises:
        RemoteContractError: neither YAML nor JSON, or no mapping.
    """
    document = load_yaml(text, "the scheduler's configuration")
    if not isinstance(document, Mapping):
        raise RemoteContractError(f"the scheduler's configuration is not a mapping but a {type(document).__name__}")
    extenders = tuple(map(read_extender, _mappings(document.get("extenders"))))
    return extenders, frozenset(str(each.get("schedulerName", "")) for each in _mappings(document.get("profiles")))


def read_extender(entry: Mapping[str, Any]) -> ConfiguredExtender:
    """Read one entry of a configuration's extenders; what has another form than expected counts as empty.

    Without the user and password that a URL may have, because messages name it.
    """
    return ConfiguredExtender(
        url=re.sub(r"//[^/?#]*@", "//", str(entry.get("urlPrefix", "")), count=1),
        resources=tuple(str(each.get("name", "")) for each in _mappings(entry.get("managedResources"))),
        binds=bool(entry.get("bindVerb")),
    )


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
