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
_LEGACY = "use-legacy-policy-config"
_PROVIDER = "algorithm-provider"
_AFFINITY_WEIGHT = "hard-pod-affinity-symmetric-weight"
POLICY_FLAGS = frozenset({POLICY_FILE, _POLICY_CONFIGMAP, _LEGACY, _PROVIDER, _AFFINITY_WEIGHT})


def policy_flag(flags: Sequence[Flag]) -> Flag | None:
    """Find the flag of the admin's policy file, which outranks ``--config``.

    Raises:
        Refused: the policy is in a ConfigMap, out of reach of an edit on this node.
    """
    policy = effective(flags, POLICY_FILE)
    configmap = effective(flags, _POLICY_CONFIGMAP)
    legacy = effective(flags, _LEGACY)
    if configmap is not None and configmap.value and not (policy and legacy and legacy.value == "true"):
        raise Refused(
            f"kube-scheduler reads its policy from ConfigMap {configmap.value!r} (--{_POLICY_CONFIGMAP}): add the "
            "extender that `gcushare-config-manager render` prints to the policy there"
        )
    return policy if policy is not None and policy.value else None


def render_policy(entry: Mapping[str, Value], flags: Sequence[Flag]) -> str:
    """Write a policy file that holds the extender's entry, and what a policy would displace of the flags.

    Raises:
        Refused: a flag whose effect cannot be written into a policy.
    """
    policy: dict[str, Value] = {"apiVersion": "v1", "kind": "Policy"}
    provider = effective(flags, _PROVIDER)
    if provider is not None and provider.value not in ("", "DefaultProvider"):
        raise _displaced(provider, "DefaultProvider can")
    weight = effective(flags, _AFFINITY_WEIGHT)
    if weight is not None:
        if not weight.value.isdecimal() or int(weight.value) == 0:
            raise _displaced(weight, "1 to 100 can")
        policy["hardPodAffinitySymmetricWeight"] = int(weight.value)
    policy["extenders"] = [dict(entry)]
    return json.dumps(policy, indent=2) + "\n"


def _displaced(flag: Flag, possible: str) -> Refused:
    return Refused(
        f"--{flag.name}={flag.value} has no effect with a policy, and cannot be written into one ({possible}): write "
        f"a configuration with what it stands for, name it by --config or --{POLICY_FILE}, and run this again"
    )


def in_old_spelling(entry: Mapping[str, Value], timeout_s: float) -> dict[str, Value]:
    """Spell an extender's entry as Policy and v1alpha2 do: ``enableHttps``, and the timeout in nanoseconds."""
    changed: dict[str, Value] = {"httpTimeout": round(timeout_s * 1_000_000_000)}
    return {"enableHttps" if key == "enableHTTPS" else key: changed.get(key, value) for key, value in entry.items()}
