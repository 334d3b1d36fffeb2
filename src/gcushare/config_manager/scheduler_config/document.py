"""Write the configuration that makes kube-scheduler call the extender: a new one, or the admin's with our entry."""

from __future__ import annotations

from collections.abc import Sequence as SequenceType
from dataclasses import dataclass

from gcushare.cluster.diagnosis.schedulers import ConfiguredExtender, read_extender
from gcushare.config_manager.host.launch import CONFIG
from gcushare.config_manager.scheduler_config.extender_entry import OUR_PATHS, ExtenderEntry, extender_entry, is_ours
from gcushare.config_manager.scheduler_config.old_schedulers import (
    POLICY_FILE,
    POLICY_FLAGS,
    policy_flag,
    render_policy,
)
from gcushare.config_manager.scheduler_config.versions import ConfigFormat, Version, newest_format, parse_format
from gcushare.config_manager.scheduler_config.yaml_text import Value, YamlText, block_mapping, flow_text
from gcushare.config_manager.scheduler_config.yaml_tree import Mapping, Node, Scalar, Sequence, parse_tree, plain_value
from gcushare.core.errors import ConfigError, Refused
from gcushare.wire.flags import Flag, effective

_IGNORED_WITH_CONFIG: tuple[tuple[str, tuple[str, ...], type], ...] = (
    ("kubeconfig", ("clientConnection", "kubeconfig"), str),
    ("kube-api-content-type", ("clientConnection", "contentType"), str),
    ("kube-api-qps", ("clientConnection", "qps"), float),
    ("kube-api-burst", ("clientConnection", "burst"), int),
    ("profiling", ("enableProfiling",), bool),
    ("contention-profiling", ("enableContentionProfiling",), bool),
    ("lock-object-name", ("leaderElection", "resourceName"), str),
    ("lock-object-namespace", ("leaderElection", "resourceNamespace"), str),
    ("leader-elect", ("leaderElection", "leaderElect"), bool),
    ("leader-elect-lease-duration", ("leaderElection", "leaseDuration"), str),
    ("leader-elect-renew-deadline", ("leaderElection", "renewDeadline"), str),
    ("leader-elect-retry-period", ("leaderElection", "retryPeriod"), str),
    ("leader-elect-resource-lock", ("leaderElection", "resourceLock"), str),
    ("leader-elect-resource-name", ("leaderElection", "resourceName"), str),
    ("leader-elect-resource-namespace", ("leaderElection", "resourceNamespace"), str),
)
"""Flags that kube-scheduler ignores once ``--config`` is given, with their place and type in the file. Without this
``--profiling=false`` would silently lose its effect. Some versions do not ignore those of leader election.
Source: ``cmd/kube-scheduler/app/options``."""


READ_FLAGS = frozenset({CONFIG, *POLICY_FLAGS, *(name for name, _, _ in _IGNORED_WITH_CONFIG)})
"""Flags that decide which configuration is written, and what is in it."""


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """A finished configuration."""

    text: str
    format: ConfigFormat

    @property
    def flag(self) -> str:
        return POLICY_FILE if self.format is ConfigFormat.POLICY else CONFIG


def existing_config(flags: SequenceType[Flag]) -> Flag | None:
    """Find the flag that names the admin's own configuration; an empty value names none.

    Raises:
        Refused: as ``policy_flag``, whose policy outranks it.
    """
    config = effective(flags, CONFIG)
    return policy_flag(flags) or (config if config is not None and config.value else None)


def new_config(settings: ExtenderEntry, version: Version, flags: SequenceType[Flag]) -> ConfigDocument:
    """Write a configuration for a scheduler that has none; it carries the flags that ``--config`` makes ineffective."""
    written = newest_format(version)
    entry = extender_entry(settings, written)
    if written is ConfigFormat.POLICY:
        return ConfigDocument(render_policy(entry, flags), written)
    document: dict[str, Value] = {"apiVersion": written.value, "kind": written.kind}
    for name, path, kind in _IGNORED_WITH_CONFIG:
        flag = effective(flags, name)
        if flag is None:
            continue
        value = _typed(flag, kind)
        section = document.setdefault(path[0], {}) if len(path) == 2 else document
        if isinstance(section, dict):
            section[path[-1]] = value
    document["extenders"] = [entry]
    return ConfigDocument("\n".join([*block_mapping(document, ""), ""]), written)


def notes_for_hand(reason: str) -> str:
    """Write the comment above a configuration that an admin uses by hand."""
    lines = [
        f"gcushare does not know this scheduler's own configuration: {' '.join(reason.split())}",
        "If it has one (--config), add the entry of extenders there, and nothing else of this.",
        "Else these flags have no effect any more. The values of those that are known are below; write what the",
        "scheduler has of the others in their place:",
        *(f"  --{name}: {'.'.join(path)}" for name, path, _ in _IGNORED_WITH_CONFIG),
    ]
    return "".join(f"# {line}\n" for line in lines)


def merged_config(base: str, name: str, settings: ExtenderEntry) -> ConfigDocument:
    """Add our entry to ``base``, or update the existing one; everything else stays as it is.

    Raises:
        ConfigError: ``base`` is not a configuration with extenders.
        Refused: another extender binds already, or manages one of our resources; kube-scheduler accepts only one.
            Or as ``check_vendors``.
    """
    yaml = YamlText.parse(base, name)
    written = format_of(yaml)
    entry = extender_entry(settings, written)
    extenders = yaml.mapping.get("extenders")
    if extenders is None or (isinstance(extenders, Scalar) and extenders.is_null):
        return ConfigDocument(yaml.with_key(yaml.mapping, "extenders", [entry]).text, written)
    check_vendors(base, name, settings)
    present = _read_extenders(_extenders(yaml))
    ours = [index for index, item in enumerate(present) if is_ours(item, settings)]
    for index, item in enumerate(present):
        if index not in ours:
            _check_beside(item, read_extender(entry), name)
    if not ours:
        return ConfigDocument(yaml.appended(_extenders(yaml), entry).text, written)
    for index in reversed(ours[1:]):
        yaml = yaml.without_item(_extenders(yaml), index)
    # Each value of our entry that differs is replaced; the admin's comments and keys stay.
    for key in sorted({"tlsConfig", "enableHttps", "enableHTTPS"} - set(entry)):
        if _entry(yaml, ours[0]).get(key) is not None:
            yaml = yaml.without_key(_entry(yaml, ours[0]), key)
    for key, value in entry.items():
        node = _entry(yaml, ours[0])
        if plain_value(node.get(key)) != plain_value(parse_tree(flow_text(value), name)):
            yaml = yaml.with_key(node, key, value)
    return ConfigDocument(yaml.text, written)


def format_of(yaml: YamlText) -> ConfigFormat:
    """Recognise a configuration's format. Raises ``ConfigError`` if it is none."""
    version, kind = (plain_value(yaml.mapping.get(key)) for key in ("apiVersion", "kind"))
    try:
        return parse_format(version, kind)
    except ConfigError as error:
        raise ConfigError(f"{yaml.name}: {error}") from error


def check_vendors(text: str, name: str, settings: ExtenderEntry) -> None:
    """Check that the configuration ``text`` calls no extender that serves another vendor's pods: they would lose it.

    Raises:
        Refused: it does; the message says how one extender serves both.
    """
    for item in _read_extenders(YamlText.parse(text, name).mapping.get("extenders")):
        if item.path in OUR_PATHS and not is_ours(item, settings):
            raise Refused(
                f"{name}: kube-scheduler calls {item.url!r} for another vendor's pods, and only one extender may bind: "
                "have one extender serve both (--vendor both; the charts' vendor: both), or recover that one first"
            )


def _check_beside(other: ConfiguredExtender, ours: ConfiguredExtender, name: str) -> None:
    """Check that kube-scheduler accepts our extender together with another one. Raises ``Refused`` if it does not."""
    problems = []
    if other.binds:
        problems.append("binds pods already, and only one extender may: remove that bindVerb")
    shared = sorted(set(other.resources).intersection(ours.resources))
    if shared:
        problems.append(f"manages {', '.join(shared)} already, and only one extender may: remove it there")
    if problems:
        raise Refused(
            f"{name}: extender {other.url!r} {'; it '.join(problems)}; or give gcushare a scheduler of its own (the "
            "chart's scheduler.mode=second-scheduler)"
        )


def _extenders(yaml: YamlText) -> Sequence:
    node = yaml.mapping.get("extenders")
    if not isinstance(node, Sequence):
        raise ConfigError(f"{yaml.name}: extenders is not a list written where it is used")
    return node


def _entry(yaml: YamlText, index: int) -> Mapping:
    node = _extenders(yaml).items[index]
    if not isinstance(node, Mapping):
        raise Refused(f"{yaml.name}: extender {index + 1} is an alias; write it out where it is used")
    return node


def _typed(flag: Flag, kind: type) -> Value:
    """Convert a flag's value to its type in the file.

    Raises:
        ConfigError: not of that type; the running scheduler accepts no more than octal numbers beyond these.
    """
    value = flag.value
    try:
        if kind is bool:
            return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}[value.lower()]
        if kind is int:
            return int(value, 0)
        return int(value) if kind is float and value.isdecimal() else float(value) if kind is float else value
    except (KeyError, ValueError) as error:
        accepted = {bool: "true or false", int: "a whole number without leading zeros"}.get(kind, "a number")
        raise ConfigError(f"kube-scheduler's --{flag.name}={value!r} must be {accepted}: write it so") from error


def _read_extenders(node: Node | None) -> list[ConfiguredExtender]:
    value = plain_value(node)
    items = value if isinstance(value, list) else []
    return [read_extender(item if isinstance(item, dict) else {}) for item in items]
