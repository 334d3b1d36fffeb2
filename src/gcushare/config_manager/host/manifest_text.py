"""A kube-scheduler's static pod manifest: read it, and edit its flag, mount and volume without any other change."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Self, TypeVar

import msgspec

from gcushare.cluster.programs import HostPath, Mount, Volume
from gcushare.config_manager.host import launch
from gcushare.config_manager.scheduler_config.versions import Version, parse_image_version
from gcushare.config_manager.scheduler_config.yaml_text import Value, YamlText
from gcushare.config_manager.scheduler_config.yaml_tree import Mapping, Node, Scalar, Sequence, plain_value, resolved
from gcushare.core.errors import ConfigError, Refused
from gcushare.wire.flags import Flag, effective

VOLUME_PREFIX = "gcushare-scheduler-config-"
"""The beginning of our volume's name; the tag of the configuration's content follows."""

T = TypeVar("T")

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "busybox"})


class _SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    run_as_user: str | None = None  # as written: one in another form than digits is a user that is not known
    run_as_non_root: bool = False


class _Container(msgspec.Struct, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodManifest:
    """A manifest in which exactly one container, number ``index``, runs kube-scheduler.

    Every edit returns a new value and keeps all other bytes.
    """

    yaml: YamlText
    index: int

    @property
    def text(self) -> str:
        return self.yaml.text

    @property
    def words(self) -> tuple[launch.Word, ...]:
        """The command line as kube-scheduler gets it."""
        # The kubelet replaces variables.
        unknown = "gcushare does not read variables of a pod: write the value out"
        return tuple(
            launch.Word(each.value, None, unknown) if "$(" in each.value else launch.Word(each.value, index)
            for index, each in enumerate(self._argument_nodes())
        )

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Every flag of the scheduler's command line, in order."""
        return launch.flags_of(self.words)

    @property
    def version(self) -> Version | None:
        """The version that the file names, None if it names none."""
        return parse_image_version(self.image)

    @property
    def image(self) -> str:
        return _text(self._container.get("image"))

    @property
    def pod_name(self) -> tuple[str, str]:
        """Namespace and name; the kubelet appends the node's name to the latter."""
        namespace = _text(self.yaml.at("metadata", "namespace"))
        return (namespace or "default", _text(self.yaml.at("metadata", "name")))

    @property
    def user(self) -> str:
        """The user of the container, else of the pod; without one, that of the image counts as root if it may be."""
        pod = _read_as(plain_value(self.yaml.at("spec", "securityContext")), _SecurityContext)
        own = _read_as(plain_value(self._container.get("securityContext")), _SecurityContext)
        of_image = "the image's" if own.run_as_non_root or pod.run_as_non_root else "0"
        return own.run_as_user or pod.run_as_user or of_image

    @property
    def directory(self) -> str:
        """Where the scheduler's relative paths begin; empty if only the image says."""
        return _text(self._container.get("workingDir"))

    @property
    def may_read_others(self) -> bool:
        """Whether the scheduler can read a file of the host that no flag names: maybe a configuration before ours."""
        named = {flag.value for flag in self.flags}
        return any(each.host_path is not None and each.host_path.path not in named for each in self._volumes())

    def host_path(self, path: str) -> str | None:
        """Translate a path of the scheduler to one of the host; None if the file is not on the host.

        The longest mount path that contains ``path`` counts.
        """
        volumes = {volume.name: volume.host_path for volume in self._volumes()}
        best: tuple[int, str | None] = (-1, None)
        for mount in self._mounts():
            at = mount.mount_path.rstrip("/") or "/"
            inside = path == at or path.startswith(at.rstrip("/") + "/")
            if not inside or len(at) <= best[0]:
                continue
            source = volumes.get(mount.name)
            rest = posixpath.relpath(path, at)
            parts = filter(None, (mount.sub_path, "" if rest == "." else rest))
            place = "" if source is None or mount.sub_path_expr else source.path
            best = (len(at), posixpath.join(place, *parts) if place else None)
        return best[1]

    def has_trace(self, own_paths: frozenset[str]) -> bool:
        """Whether the file contains our change: our mount or volume; in a unit, a flag with one of these paths."""
        # A flag alone may be set by another system with the manual's file names. With our volume it is ours.
        names = [*(each.name for each in self._volumes()), *(each.name for each in self._mounts())]
        return any(name.startswith(VOLUME_PREFIX) for name in names)

    def points_at(self, target: launch.ConfigTarget) -> bool:
        """Whether the file starts the scheduler with ``target`` and everything that it needs."""
        flag = effective(self.flags, target.flag)
        name = VOLUME_PREFIX + target.tag
        mounts = [each for each in self._mounts() if each.name.startswith(VOLUME_PREFIX)]
        volumes = [each for each in self._volumes() if each.name.startswith(VOLUME_PREFIX)]
        return (
            flag is not None
            and flag.value == target.path
            and mounts == [Mount(name, target.path)]
            and volumes == [Volume(name, host_path=HostPath(target.path, "File"))]
        )

    def pointed_at(self, target: launch.ConfigTarget) -> Self:
        """Make the scheduler read ``target``. The text must not contain an earlier change."""
        for mount in self._mounts():
            if mount.mount_path == target.path:
                raise Refused(
                    f"{self.yaml.name}: {target.path!r} is mounted already, as volume {mount.name!r}: another "
                    "system configured this scheduler under the same file name; uninstall or recover that one first"
                )
        volume = VOLUME_PREFIX + target.tag
        edited = self._with_flag(target.flag, target.path)
        edited = edited._with_entry(
            ("spec", "containers", self.index),
            "volumeMounts",
            {"mountPath": target.path, "name": volume, "readOnly": True},
        )
        return edited._with_entry(
            ("spec",), "volumes", {"hostPath": {"path": target.path, "type": "File"}, "name": volume}
        )

    def without_trace(self, own_paths: frozenset[str], flag_was: str | None) -> Self:
        """Remove our change and nothing else; set the flag to ``flag_was`` again, or remove it if that is None."""
        edited = self._without_entries(("spec",), "volumes")
        edited = edited._without_entries(("spec", "containers", self.index), "volumeMounts")
        flag = launch.own_flag(self.flags, own_paths)
        if flag is None:
            return edited
        if flag_was is not None:
            return edited._with_flag_value(flag, flag_was)
        for index in sorted({flag.index, flag.value_index}, reverse=True):
            edited = edited._without_argument(index)
        return edited

    @property
    def _container(self) -> Mapping:
        return _mapping(self.yaml, "spec", "containers", self.index)

    def _argument_lists(self) -> list[Sequence]:
        lists = (resolved(self._container.get(key)) for key in ("command", "args"))
        return [node for node in lists if isinstance(node, Sequence)]

    def _argument_nodes(self) -> list[Scalar]:
        nodes = [resolved(item) for listed in self._argument_lists() for item in listed.items]
        for node in nodes:
            if not isinstance(node, Scalar):
                raise ConfigError(f"{self.yaml.name}: the scheduler's arguments must be strings")
        return [node for node in nodes if isinstance(node, Scalar)]

    def _volumes(self) -> list[Volume]:
        return _items(self.yaml.at("spec", "volumes"), Volume)

    def _mounts(self) -> list[Mount]:
        return _items(self._container.get("volumeMounts"), Mount)

    def _edited(self, yaml: YamlText) -> Self:
        return type(self)(yaml, self.index)

    def _with_flag(self, name: str, path: str) -> Self:
        present = launch.written_flag(self.words, name)
        if present is not None:
            return self._with_flag_value(present, path)
        for node in ("args", "command"):
            listed = self._container.get(node)
            if listed is not None and not (isinstance(listed, Scalar) and listed.is_null):
                if not isinstance(listed, Sequence):
                    raise Refused(f"{self.yaml.name}: the container's {node!r} is not a list written where it is used")
                edited = self._edited(self.yaml.appended(listed, f"--{name}={path}"))
                launch.check_certain(edited.words, {name}, self.yaml.name)
                return edited
        raise Refused(f"{self.yaml.name}: the container has no command and no args to add --{name} to")

    def _with_flag_value(self, flag: Flag, value: str) -> Self:
        written = self._argument_nodes()[flag.index].value.partition("=")[0]
        return self._edited(
            self.yaml.with_scalar(self._written(flag.value_index), flag.rewritten(value, written_name=written))
        )

    def _without_argument(self, index: int) -> Self:
        for listed in self._argument_lists():
            if index < len(listed.items):
                return self._edited(self.yaml.without_item(listed, index))
            index -= len(listed.items)
        raise IndexError(index)

    def _written(self, index: int) -> Scalar:
        node = [item for listed in self._argument_lists() for item in listed.items][index]
        if not isinstance(node, Scalar):
            raise Refused(f"{self.yaml.name}: argument {index + 1} is an alias; write it out where it is used")
        return node

    def _with_entry(self, owner_path: tuple[str | int, ...], key: str, entry: Value) -> Self:
        owner = _mapping(self.yaml, *owner_path)
        listed = owner.get(key)
        if isinstance(listed, Sequence):
            return self._edited(self.yaml.appended(listed, entry))
        if listed is None or (isinstance(listed, Scalar) and listed.is_null):
            return self._edited(self.yaml.with_key(owner, key, [entry]))
        raise Refused(f"{self.yaml.name}: {key!r} is not a list written where it is used")

    def _without_entries(self, owner_path: tuple[str | int, ...], key: str) -> Self:
        edited = self
        while True:
            owner = _mapping(edited.yaml, *owner_path)
            listed = owner.get(key)
            names = [entry.name for entry in _items(listed, Volume)]
            index = next((i for i, name in enumerate(names) if name.startswith(VOLUME_PREFIX)), None)
            if index is None or not isinstance(listed, Sequence):
                return edited
            if len(names) == 1 and not listed.flow:
                edited = edited._edited(edited.yaml.without_key(owner, key))
            else:
                edited = edited._edited(edited.yaml.without_item(listed, index))


def parse_manifest(text: str, name: str) -> PodManifest:
    """Parse a manifest and find its scheduler's container.

    Raises:
        ConfigError: not a pod, or none of its containers runs kube-scheduler.
        Refused: no flag can be added, because a shell starts kube-scheduler or several containers run it.
    """
    yaml = YamlText.parse(text, name)
    kind = _text(yaml.mapping.get("kind"))
    if kind != "Pod":
        raise ConfigError(f"{name}: kind is {kind!r}, a static pod manifest has kind 'Pod'")
    if not _items(yaml.at("spec", "containers"), _Container):
        raise ConfigError(f"{name}: the pod has no containers")
    manifest = PodManifest(yaml, _scheduler_index(yaml))
    words = manifest.words
    program = posixpath.basename(words[0].value) if words else ""
    if program in _SHELLS:
        raise Refused(
            f"{name}: kube-scheduler is started by a shell ({program!r}): start it directly, one flag per list item; "
            f"where that is not possible, {launch.BY_HAND}"
        )
    return manifest


def _scheduler_index(yaml: YamlText) -> int:
    """Choose the container: by its command, else by its image, else by its name."""
    containers = _items(yaml.at("spec", "containers"), _Container)

    def by_command(container: _Container) -> bool:
        arguments = (*container.command, *container.args)
        # A wrapper may stand before the program.
        is_ours = launch.is_scheduler(arguments) or launch.is_scheduler(arguments[1:])
        return is_ours or any(" --kubeconfig" in each and "kube-scheduler " in each for each in arguments)

    def by_image(container: _Container) -> bool:
        repository = container.image.partition("@")[0].rpartition("/")[2]
        return repository.partition(":")[0] == "kube-scheduler"

    for rule in (by_command, by_image, lambda container: container.name == "kube-scheduler"):
        found = [index for index, container in enumerate(containers) if rule(container)]
        if len(found) > 1:
            names = ", ".join(repr(containers[index].name) for index in found)
            raise Refused(f"{yaml.name}: several containers run kube-scheduler: {names}")
        if found:
            return found[0]
    names = ", ".join(repr(container.name) for container in containers)
    raise ConfigError(
        f"{yaml.name}: no container runs kube-scheduler; its containers are {names}: if one schedules in its place, "
        f"{launch.BY_HAND}"
    )


def _mapping(yaml: YamlText, *path: str | int) -> Mapping:
    node = resolved(yaml.at(*path))
    if not isinstance(node, Mapping):
        raise ConfigError(f"{yaml.name}: {'.'.join(map(str, path))} is not a mapping")
    return node


def _text(node: Node | None) -> str:
    node = resolved(node)
    return node.value if isinstance(node, Scalar) and not node.is_null else ""


def _items(node: Node | None, kind: type[T]) -> list[T]:
    value = plain_value(node)
    return [_read_as(item, kind) for item in value] if isinstance(value, list) else []


def _read_as(value: object, kind: type[T]) -> T:
    """Convert a mapping; anything else becomes an empty one, so that the indexes of items are those of their list."""
    known = {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else {}
    try:
        return msgspec.convert(known, kind, strict=False)
    except msgspec.ValidationError:
        return kind()
