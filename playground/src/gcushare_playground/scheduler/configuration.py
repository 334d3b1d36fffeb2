"""Read the scheduler's configuration file: KubeSchedulerConfiguration v1, as the config manager writes it.

Strict, as kube-scheduler is: an unknown key, a wrong type or a second extender that binds is refused. So is what the
double does not know of: profiles, plugins, TLS.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gcushare.core.errors import ConfigError
from gcushare_playground.scheduler.settings import ExtenderSettings, SchedulerSettings


class _Document(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    api_version: Literal["kubescheduler.config.k8s.io/v1"]
    kind: Literal["KubeSchedulerConfiguration"]
    extenders: tuple[ExtenderSettings, ...] = ()
    leader_election: dict[str, Any] = {}
    """Passed over."""


def load_scheduler_settings(path: Path) -> SchedulerSettings:
    """Read a file.

    Raises:
        ConfigError: it cannot be read, or is refused.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read scheduler configuration {str(path)!r}: {error.strerror or error}") from error
    return parse_scheduler_settings(text, str(path))


def parse_scheduler_settings(text: str, name: str) -> SchedulerSettings:
    """Read a configuration's text, YAML or JSON; ``name`` is how errors call it.

    Raises:
        ConfigError: it is refused.
    """
    try:
        document = msgspec.convert(YAML(typ="safe", pure=True).load(text), _Document)
    except (YAMLError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{name} is not accepted: {' '.join(str(error).split())}") from error
    binders = [each.url_prefix for each in document.extenders if each.bind_verb]
    if len(binders) > 1:
        raise ConfigError(f"{name}: extenders {binders} bind; expected at most one with a bindVerb")
    return SchedulerSettings(extenders=document.extenders)
