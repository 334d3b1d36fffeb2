"""Shell completion: candidates for the next word, for kubectl's own completion.

Source of the protocol: kubectl runs ``kubectl_complete-<plugin>`` with the words after the plugin's, the last one
unfinished, and reads one candidate per line (a tab before its description), then a line ``:`` with cobra's directive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from gcushare.cli.kubectl.help_text import COMMANDS, Names, program_of
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.reader import Reader, Scope
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import ConfigError, GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import home_directory
from gcushare.kube.connection.kubeconfig import read_kubeconfig
from gcushare.kube.resources import NAMESPACES
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings.declare import Program, Spec, list_specs
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.loading import load_settings

Words = list[tuple[str, str]]
"""Candidates with their descriptions."""

_PATIENCE_S = 3.0
"""A shell that hangs for longer is worse than one that completes nothing."""

FILES, ERROR, NO_FILES = 0, 1, 4
"""Of cobra's directives: let the shell complete files; an error; nothing else than what was listed."""


def complete(names: Names, process: ProcessContext) -> int:
    """Print the candidates. An error goes to stderr, which shells hide, and completes nothing."""
    *before, begun = process.argv or ("",)
    flag, equals, _ = begun.partition("=")
    is_joined = bool(equals) and begun.startswith("--")
    try:
        words, directive = _Line(names, process, before).candidates([flag] if is_joined else [], begun)
    except GcushareError as error:
        process.stderr.write(f"error: {error}\n")
        words, directive = [], ERROR
    for word, text in words:
        whole = f"{flag}={word}" if is_joined else word
        if whole.startswith(begun):
            process.stdout.write(f"{whole}\t{text}\n" if text else f"{whole}\n")
    process.stdout.write(f":{directive}\n")
    return DONE


class _Line:
    """The words before the one that is typed: the command, the flags with their values, the arguments."""

    def __init__(self, names: Names, process: ProcessContext, before: Sequence[str]) -> None:
        self._vendor = names.vendor
        self._environ = dict(process.environ)
        self.command = before[0] if before and before[0] in COMMANDS else ""
        self.specs = list_specs(program_of(names, self.command).settings)
        self._flag_of: dict[str, Spec] = {}
        for spec in self.specs:
            if not spec.is_argument:
                self._flag_of |= dict.fromkeys(spec.words, spec)
        self.arguments = 0
        self.awaited = ""
        self._values: dict[str, str] = {}
        for word in before[bool(self.command) :]:
            self._read(word)

    def _read(self, word: str) -> None:
        name, equals, value = word.partition("=")
        spec = self._flag_of.get(name if name.startswith("--") else word[:2])
        if self.awaited:
            self._values[self.awaited], self.awaited = word, ""
        elif not word.startswith("-"):
            self.arguments += 1
        elif spec is not None and not spec.parser.is_switch:
            joined = value if name.startswith("--") else word[2:]
            if equals or joined:
                self._values[spec.flag] = joined
            else:
                self.awaited = spec.flag

    def candidates(self, flag: Sequence[str], begun: str) -> tuple[Words, int]:
        """The candidates and the directive; ``flag`` is the flag whose value is in the same word."""
        awaited = self.awaited or next(iter(flag), "")
        if awaited == "--kubeconfig":
            return [], FILES
        if awaited:
            return self._values_of(awaited), NO_FILES
        if begun.startswith("-"):
            flags = [each for each in self.specs if not each.is_argument]
            found = [(each.flag, each.help.split(".")[0].split(";")[0]) for each in flags]
            return [*found, ("--help", "Print the manual")], NO_FILES
        if self.arguments:
            return [], NO_FILES
        if self.command == "explain":
            return self._ask(self._pods), NO_FILES
        return [*(COMMANDS.items() if not self.command else ()), *self._ask(self._nodes)], NO_FILES

    def _values_of(self, flag: str) -> Words:
        if flag in ("--namespace", "--plugin-namespace"):
            return self._ask(_namespaces)
        if flag == "--context":
            listed = self._kube().kubeconfig or str(home_directory(self._environ) / ".kube" / "config")
            return [(name, "") for name in read_kubeconfig([Path(each) for each in listed.split(":") if each]).contexts]
        spec = self._flag_of.get(flag)
        return [(word, "") for word in spec.parser.choices] if spec is not None else []

    def _kube(self) -> KubeSettings:
        """The cluster that the flags so far name."""
        known = {spec.flag for spec in list_specs(KubeSettings)}
        words = [f"{flag}={value}" for flag, value in self._values.items() if flag in known]
        program = Program(name="completion", summary="", settings=KubeSettings)
        return load_settings(program, words, self._environ)

    async def _nodes(self, api: KubeClient) -> Words:
        snapshot = ClusterSnapshot(self._vendor)
        snapshot.count(await Reader(api).list_nodes(Scope()), ())
        return [(node.name, f"{len(node.cards)} {self._vendor.device_word}") for node in snapshot.nodes_with_cards()]

    async def _pods(self, api: KubeClient) -> Words:
        """Pods that ask for cards: by name in the namespace of the flags, or else the context's."""
        snapshot, given = ClusterSnapshot(self._vendor), self._values.get("--namespace")
        snapshot.count((), await Reader(api).list_pods(self._vendor, Scope()))
        namespace = given or api.config.namespace
        return [
            (facts.ref.name if facts.ref.namespace == namespace else str(facts.ref), facts.node or "waits")
            for facts in sorted(snapshot.pods.values(), key=lambda each: str(each.ref))
            if given is None or facts.ref.namespace == given
        ]

    def _ask(self, read: Callable[[KubeClient], Awaitable[Words]]) -> Words:
        async def ask() -> Words:
            try:
                client = open_cluster(self._kube(), self._environ, program="kubectl-inspect")
                async with asyncio.timeout(_PATIENCE_S), client as api:
                    return await read(api)
            except TimeoutError:
                raise ConfigError(f"the API server did not answer within {_PATIENCE_S:g}s") from None

        return asyncio.run(ask())


async def _namespaces(api: KubeClient) -> Words:
    return [(str(each["metadata"]["name"]), "") for each in await api.list_all(NAMESPACES)]
