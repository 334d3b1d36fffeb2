"""Which of a unit's files hold its command line, and what else systemd reads."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gcushare.config_manager.host.files import HostFiles, behind_links
from gcushare.config_manager.host.unit_text import (
    Setting,
    assigned,
    parse_environment_file,
    read_word,
    settings_of,
)
from gcushare.core.errors import ConfigError, Refused

_DIRECTORIES = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""Where systemd reads units and their drop-ins, the first one wins. Source: systemd.unit(5)."""

_PATH = re.compile(r"/[^%*?[]*")
"""Of one environment file; others are patterns, or have specifiers."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a unit's command line depends on in addition to the file that holds it."""

    unit: str = ""
    """Path of the unit's own file, whose name systemd knows; empty if it holds the command line."""
    before: tuple[tuple[str, str], ...] = ()
    """Path and text of the unit's files that systemd reads before that file."""
    after: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Text of every environment file that can be read, by its path."""

    def settings(self, text: str) -> tuple[Setting, ...]:
        """List the settings of all files in systemd's order; ``text`` is that of the file between them."""
        texts = (*(each for _, each in self.before), text, *(each for _, each in self.after))
        return tuple(setting for each in texts for setting in settings_of(each))

    def variables(self, text: str) -> tuple[dict[str, str | None], str]:
        """Compute the service's environment; None stands for a value that the files do not show.

        Returns it, and why it is not known, empty if it is.
        """
        variables: dict[str, str | None] = {}
        settings = self.settings(text)
        for word in assigned(settings, "Environment"):
            expanded, problem = read_word(word)
            name, _, value = expanded.partition("=")
            variables[name] = None if problem else value
        for path, is_optional in environment_files(settings):
            if path in self.environment:
                variables.update(parse_environment_file(self.environment[path]))
            elif not is_optional or not _PATH.fullmatch(path):
                return variables, f"the unit's EnvironmentFile {path!r} cannot be read"
        return variables, ""


def environment_files(settings: Sequence[Setting]) -> list[tuple[str, bool]]:
    """List the environment files in order, as written, with whether each may be missing."""
    paths: list[tuple[str, bool]] = []
    for setting in settings:
        if setting.key == "EnvironmentFile":
            value = setting.value.strip()
            paths = [*paths, (value.removeprefix("-"), value.startswith("-"))] if value else []
    return paths


def unit_name(path: str) -> str:
    """Return the name that systemd knows a unit by, of its file or of a drop-in."""
    folder, name = posixpath.split(path)
    return posixpath.basename(folder).removesuffix(".d") if folder.endswith(".service.d") else name


def find_unit(files: HostFiles, path: str) -> tuple[str, Surroundings]:
    """Find the file of a unit that holds its command line: ``path``, or one of its drop-ins.

    ``path`` may also be a drop-in. Which command line counts is decided as systemd does.

    Raises:
        ConfigError: one of the files is not text.
        Refused: systemd reads another file of this name.
    """
    folder, name = posixpath.split(path)
    if name.endswith("@.service"):
        raise Refused(f"{path!r} is a template, not a unit that runs: copy it to a unit of its own, without '@'")
    if folder.endswith(".service.d"):
        name = unit_name(path)
        found = (f"{each}/{name}" for each in _DIRECTORIES if name in files.names(each))
        path = next(found, f"{posixpath.dirname(folder)}/{name}")
        folder = posixpath.dirname(path)
    _check_first(files, folder, name)
    own = files.read(path)
    if own is None:
        return path, Surroundings()
    paths = (path, *_drop_ins(files, name))
    texts = [(each, _read(files, each) or "") for each in paths]
    holders = [
        number for number, (_, text) in enumerate(texts) for setting in settings_of(text) if setting.key == "ExecStart"
    ]
    at = holders[-1] if holders else 0
    around = Surroundings(
        unit=path if at else "",
        before=tuple(texts[:at]),
        after=tuple(texts[at + 1 :]),
    )
    listed = [each for each, _ in environment_files(around.settings(texts[at][1]))]
    environment = {each: text for each in listed if (text := _read_environment(files, each)) is not None}
    return texts[at][0], replace(around, environment=environment)


def _check_first(files: HostFiles, folder: str, name: str) -> None:
    def merged(path: str) -> str:  # /lib is a link to /usr/lib
        return f"/usr{path}" if path.startswith("/lib/") else path

    place, mine = merged(folder), f"{folder}/{name}"
    for other in _DIRECTORIES[: _DIRECTORIES.index(place)] if place in _DIRECTORIES else ():
        found = behind_links(files, f"{other}/{name}")
        if name in files.names(other) and merged(found) != merged(mine):
            instead = f"run `systemctl unmask {name}`" if found == "/dev/null" else "name that with --unit"
            raise Refused(f"systemd reads {found!r} and not {mine!r}: {instead}")


def _drop_ins(files: HostFiles, name: str) -> list[str]:
    """List the unit's own drop-ins in systemd's order: by their names, of one name the first directory's."""
    found: dict[str, str] = {}
    for folder in (f"{each}/{name}.d" for each in _DIRECTORIES):
        for each in files.names(folder):
            if each.endswith(".conf") and not each.startswith("."):
                found.setdefault(each, f"{folder}/{each}")
    return [found[each] for each in sorted(found)]


def _read(files: HostFiles, path: str) -> str | None:
    """Read a file, also behind links; one to /dev/null hides others of its name. None if it does not exist."""
    path = behind_links(files, path)
    if path == "/dev/null":
        return ""
    state = files.read(path)
    return None if state is None else state.text(path)


def _read_environment(files: HostFiles, path: str) -> str | None:
    """Read an environment file; None if it cannot be read."""
    try:
        return _read(files, path) if _PATH.fullmatch(path) else None
    except (Refused, ConfigError):
        return None
