"""Read the scheduler's configuration file: KubeSchedulerConfiguration v1beta1 to v1, or a Policy of the versions below.

Strict, as kube-scheduler is: an unknown key, a wrong type or a second extender that binds is refused. What the double
has no use for (leader election, connection, plugins, parallelism) is accepted and passed over.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from gcushare.core.errors import ConfigError
from gcushare_playground.scheduler.settings import (
    DEFAULT_NAME,
    DEFAULT_TIMEOUT_S,
    ExtenderSettings,
    ExtenderTls,
    ManagedResource,
    Pacing,
    SchedulerSettings,
)

_GROUP = "kubescheduler.config.k8s.io/"
_VERSIONS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1")
_OLD_WORDS = ("v1alpha1", "v1alpha2")
_CONFIG_KEYS = frozenset({
    "apiVersion", "kind", "parallelism", "leaderElection", "clientConnection", "healthzBindAddress",
    "metricsBindAddress", "enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore",
    "podInitialBackoffSeconds", "podMaxBackoffSeconds", "profiles", "extenders", "delayCacheUntilActive",
    "schedulerName", "algorithmSource", "disablePreemption",
})  # fmt: skip
_POLICY_KEYS = frozenset({
    "apiVersion", "kind", "predicates", "priorities", "extenders", "hardPodAffinitySymmetricWeight",
    "alwaysCheckAllPredicates",
})  # fmt: skip
_EXTENDER_KEYS = frozenset({
    "urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "tlsConfig", "httpTimeout",
    "nodeCacheCapable", "managedResources", "ignorable",
})  # fmt: skip
_TLS_KEYS = frozenset({"insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData"})
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")

_Document = dict[str, Any]


def load_scheduler_settings(path: Path) -> SchedulerSettings:
    """Read a file.

    Raises:
        ConfigError: it cannot be read, or kube-scheduler would refuse it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read scheduler configuration {str(path)!r}: {error.strerror or error}") from error
    return parse_scheduler_settings(text, str(path))


def parse_scheduler_settings(text: str, name: str) -> SchedulerSettings:
    """Read a configuration's text, YAML or JSON; ``name`` is how errors call it.

    Raises:
        ConfigError: kube-scheduler would refuse it.
    """
    try:
        document = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError) as error:
        raise ConfigError(f"{name} is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{name}: {type(document).__name__} at the top, expected a map with apiVersion and kind")
    return _Reader(name).read(document)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, document: _Document) -> SchedulerSettings:
        kind, version = document.get("kind"), str(document.get("apiVersion", ""))
        if kind == "Policy" and version in ("v1", "kubescheduler.config.k8s.io/v1"):
            self._check_keys(document, _POLICY_KEYS, "")
            return SchedulerSettings(extenders=self._extenders(document, has_old_words=True))
        short = version.removeprefix(_GROUP)
        if kind != "KubeSchedulerConfiguration" or not version.startswith(_GROUP) or short not in _VERSIONS:
            raise self._refuse(
                "kind and apiVersion",
                f"{kind} {version}",
                f"KubeSchedulerConfiguration of {_GROUP}({'|'.join(_VERSIONS)}), or Policy v1",
            )
        self._check_keys(document, _CONFIG_KEYS, "")
        return SchedulerSettings(
            names=self._names(document),
            extenders=self._extenders(document, has_old_words=short in _OLD_WORDS),
            pacing=Pacing(
                initial_backoff_s=float(self._get(document, "podInitialBackoffSeconds", int, 1)),
                max_backoff_s=float(self._get(document, "podMaxBackoffSeconds", int, 10)),
            ),
        )

    def _names(self, document: _Document) -> tuple[str, ...]:
        profiles = self._get(document, "profiles", list, [])
        names = tuple(str(profile.get("schedulerName") or DEFAULT_NAME) for profile in profiles)
        if len(set(names)) != len(names):
            raise self._refuse("profiles", list(names), "a schedulerName used once")
        return names or (str(document.get("schedulerName") or DEFAULT_NAME),)

    def _extenders(self, document: _Document, *, has_old_words: bool) -> tuple[ExtenderSettings, ...]:
        entries = self._get(document, "extenders", list, [])
        found = tuple(
            self._extender(entry, f"extenders[{number}]", has_old_words=has_old_words)
            for number, entry in enumerate(entries)
        )
        binders = [extender.url_prefix for extender in found if extender.bind_verb]
        if len(binders) > 1:
            raise self._refuse("extenders", binders, "at most one extender with a bindVerb")
        return found

    def _extender(self, entry: object, where: str, *, has_old_words: bool) -> ExtenderSettings:
        if not isinstance(entry, dict):
            raise self._refuse(where, entry, "a map")
        https_key = "enableHttps" if has_old_words else "enableHTTPS"
        self._check_keys(entry, _EXTENDER_KEYS | {https_key}, f"{where}.")
        get = self._getter(entry, where)
        prefix = str(get("urlPrefix", str, ""))
        if not _is_url(prefix):
            raise self._refuse(f"{where}.urlPrefix", prefix, "a URL such as http://10.0.0.1:32766/gcushare-scheduler")
        weight = int(get("weight", int, 0))
        if get("prioritizeVerb", str, "") and weight <= 0:
            raise self._refuse(f"{where}.weight", weight, "a positive number with prioritizeVerb")
        return ExtenderSettings(
            url_prefix=prefix,
            filter_verb=get("filterVerb", str, ""),
            prioritize_verb=get("prioritizeVerb", str, ""),
            bind_verb=get("bindVerb", str, ""),
            preempt_verb=get("preemptVerb", str, ""),
            weight=weight,
            enable_https=get(https_key, bool, False),
            tls=self._tls(get("tlsConfig", dict, {}), f"{where}.tlsConfig"),
            http_timeout_s=self._timeout_s(entry.get("httpTimeout"), where) or DEFAULT_TIMEOUT_S,
            node_cache_capable=get("nodeCacheCapable", bool, False),
            managed_resources=tuple(self._managed(get("managedResources", list, []), where)),
            ignorable=get("ignorable", bool, False),
        )

    def _managed(self, entries: list[object], where: str) -> Iterator[ManagedResource]:
        for number, entry in enumerate(entries):
            place = f"{where}.managedResources[{number}]"
            if not isinstance(entry, dict) or "/" not in str(entry.get("name", "")):
                raise self._refuse(place, entry, "a map whose name is an extended resource")
            self._check_keys(entry, frozenset({"name", "ignoredByScheduler"}), f"{place}.")
            ignored = self._get(entry, "ignoredByScheduler", bool, False, f"{place}.")
            yield ManagedResource(name=str(entry["name"]), ignored_by_scheduler=ignored)

    def _tls(self, entry: _Document, where: str) -> ExtenderTls:
        self._check_keys(entry, _TLS_KEYS, f"{where}.")
        parts = {word: self._pem(entry, word, where) for word in ("ca", "cert", "key")}
        return ExtenderTls(
            insecure=self._get(entry, "insecure", bool, False, f"{where}."),
            server_name=self._get(entry, "serverName", str, "", f"{where}."),
            authority=parts["ca"],
            certificate=parts["cert"],
            key=parts["key"],
        )

    def _pem(self, entry: _Document, word: str, where: str) -> bytes:
        data, file = entry.get(f"{word}Data"), entry.get(f"{word}File")
        try:
            if data:
                return base64.b64decode(str(data), validate=True)
            return Path(str(file)).read_bytes() if file else b""
        except (binascii.Error, OSError) as error:
            raise ConfigError(f"{self._name}: {where}.{word}: cannot be read: {error}") from error

    def _timeout_s(self, value: object, where: str) -> float:
        """Read a duration: a number of nanoseconds in a Policy, text such as ``5s`` elsewhere; 0 is the default."""
        if value is None:
            return 0.0
        if isinstance(value, int) and not isinstance(value, bool):
            return value / 1_000_000_000
        match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
        if match is None:
            raise self._refuse(f"{where}.httpTimeout", value, "a duration such as 5s")
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
        return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000

    def _getter(self, entry: _Document, where: str) -> Callable[[str, type, Any], Any]:
        return lambda key, kind, default: self._get(entry, key, kind, default, f"{where}.")

    def _get(self, document: Mapping[str, Any], key: str, kind: type, default: Any, where: str = "") -> Any:
        value = document.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._refuse(f"{where}{key}", value, f"a {kind.__name__}")
        return value

    def _check_keys(self, document: Mapping[str, Any], known: frozenset[str], where: str) -> None:
        unknown = sorted(str(key) for key in document if key not in known)
        if unknown:
            raise self._refuse(f"{where}{unknown[0]}", document[unknown[0]], f"one of {', '.join(sorted(known))}")

    def _refuse(self, where: str, value: object, accepted: str) -> ConfigError:
        return ConfigError(f"{self._name}: {where}: {str(value)[:120]!r} is not accepted; expected {accepted}")


def _is_url(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname)
