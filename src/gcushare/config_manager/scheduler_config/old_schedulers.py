"""What only schedulers below 1.23 need: Policy files, their flags, and the spelling of the first configurations.

Remove this module when the oldest supported Kubernetes is 1.23.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gcushare.core.errors import Refused
from gcushare.wire.flags import Flag, effective

if TYPE_CHECKING:  # the settings need no YAML
    from gcushare.config_manager.scheduler_config.yaml_text import Value

POLICY_FILE = "policy-config-file"
_POLICY_CONFIGMAP = "policy-configmap"
_DISPLACED = ("algorithm-provider", "hard-pod-affinity-symmetric-weight")
"""Flags that have no effect with a policy."""
POLICY_FLAGS = frozenset({POLICY_FILE, _POLICY_CONFIGMAP, *_DISPLACED})


def policy_flag(flags: Sequence[Flag]) -> Flag | None:
    """Find the flag of the admin's policy file, which outranks ``--config``.

    Raises:
        Refused: the policy is in a ConfigMap, out of reach of an edit on this node.
    """
    policy = effective(flags, POLICY_FILE)
    configmap = effective(flags, _POLICY_CONFIGMAP)
    if configmap is not None and configmap.value:
        raise Refused(
            f"kube-scheduler reads its policy from ConfigMap {configmap.value!r} (--{_POLICY_CONFIGMAP}): add the "
            "extender that `gcushare-config-manager render` prints to the policy there"
        )
    return policy if policy is not None and policy.value else None


def render_policy(entry: Mapping[str, Value], flags: Sequence[Flag]) -> str:
    """Write a policy file that holds the extender's entry.

    Raises:
        Refused: a flag would lose its effect.
    """
    for flag in (effective(flags, name) for name in _DISPLACED):
        if flag is not None and flag.value not in ("", "DefaultProvider"):
            raise Refused(
                f"--{flag.name}={flag.value} has no effect with a policy: write a configuration with what it stands "
                f"for, name it by --config or --{POLICY_FILE}, and run this again"
            )
    return json.dumps({"apiVersion": "v1", "kind": "Policy", "extenders": [entry]}, indent=2) + "\n"


def in_old_spelling(entry: Mapping[str, Value], timeout_s: float) -> dict[str, Value]:
    """Spell an extender's entry as Policy and v1alpha2 do: ``enableHttps``, and the timeout in nanoseconds."""
    changed: dict[str, Value] = {"httpTimeout": round(timeout_s * 1_000_000_000)}
    return {"enableHttps" if key == "enableHTTPS" else key: changed.get(key, value) for key, value in entry.items()}
