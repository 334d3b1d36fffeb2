"""Shell completion: what may stand next on the command line, asked by kubectl's own completion or a shell's.

Source of the protocol: kubectl runs ``kubectl_complete-<plugin>`` with the words after the plugin's, the last one
unfinished, and reads one candidate per line (a tab before its description), then a line ``:`` with cobra's directive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gcushare.cli.completion.arguments import Grammar, Kind, Word, spell_out, take_command
from gcushare.cli.inspect.help_text import SETTINGS, SUMMARIES, Names
from gcushare.cli.inspect.options import Shell
from gcushare.cluster.connection import sources_of
from gcushare.cluster.reading import Scope, read_nodes, read_pods
from gcushare.cluster.settings import ClusterFlags
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import ConfigError, GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import Limits, load_config
from gcushare.kube.connection.kubeconfig import Kubeconfig, read_kubeconfig
from gcushare.kube.resources import NAMESPACES
from gcushare.runtime.entry import Surroundings
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings.declare import Program, Spec, list_specs
from gcushare.runtime.settings.loading import load_settings

_Read = Callable[[KubeClient], Awaitable[tuple[tuple[str, str], ...]]]

_PATIENCE_S = 3.0
"""A shell that hangs for longer is worse than one that completes nothing."""

FILES = 0
ERROR = 1
NO_FILES = 4
_FILE_FLAGS = frozenset(
    {"--kubeconfig", "--certificate-authority", "--client-certificate", "--client-key", "--config-file"}
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may stand next: words with their descriptions, and cobra's directive."""

    words: tuple[tuple[str, str], ...] = ()
    directive: int = NO_FILES

    def lines(self, begun: str) -> str:
        """Write those that go on from what was typed."""
        found = (f"{word}\t{text}\n" if text else f"{word}\n" for word, text in self.words if word.startswith(begun))
        return f"{''.join(found)}:{self.directive}\n"


def complete(names: Names, around: Surroundings) -> int:
    """Print what may stand next; an error is told on stderr, which shells hide, and completes nothing."""
    *before, begun = around.argv or ("",)
    try:
        found = find_candidates(names, spell_out(before), begun, around)
    except GcushareError as error:
        around.stderr.write(f"error: {error}\n")
        found = Candidates(directive=ERROR)
    flag, equals, _ = begun.partition("=")
    if equals and begun.startswith("--"):
        found = Candidates(tuple((f"{flag}={word}", text) for word, text in found.words), found.directive)
    around.stdout.write(found.lines(begun))
    return DONE


def find_candidates(names: Names, before: Sequence[str], begun: str, around: Surroundings) -> Candidates:
    """Find what may stand after ``before``, where ``begun`` is typed already."""
    everything = Grammar.of(spec for cls in SETTINGS.values() for spec in list_specs(cls))
    command, _ = take_command(everything.read(before), SETTINGS)
    specs = list_specs(SETTINGS[command])
    grammar = Grammar.of(specs)
    words = grammar.read(before)
    is_value = bool(words) and words[-1].kind is Kind.FLAG
    known = _ClusterNames(names, around, words[:-1] if is_value else words)
    if is_value:
        return _values(words[-1].flag, specs, known)
    if begun.startswith("--") and "=" in begun:
        return _values(grammar.names.get(begun.partition("=")[0], ""), specs, known)
    if begun.startswith("-"):
        return Candidates(tuple(_flags(specs)))
    is_first = command == "" and not any(word.kind is Kind.BARE for word in words)
    given = sum(word.kind is Kind.BARE for word in words) - (command != "")
    if given:
        return Candidates()
    if command == "completion":
        return Candidates(tuple((shell.value, "") for shell in Shell))
    if command == "explain":
        return Candidates(known.pods())
    nodes = known.nodes()
    return Candidates((*SUMMARIES.items(), *nodes) if is_first else nodes)


def _flags(specs: Sequence[Spec]) -> list[tuple[str, str]]:
    found = [(spec.flag, spec.declared.help.split(".")[0].split(";")[0]) for spec in specs if not spec.is_argument]
    return [*found, ("--help", "Print the manual")]


def _values(flag: str, specs: Sequence[Spec], known: _ClusterNames) -> Candidates:
    """What a flag may be given."""
    if flag in _FILE_FLAGS:
        return Candidates(directive=FILES)
    match flag:
        case "--namespace" | "--plugin-namespace":
            return Candidates(known.namespaces())
        case "--context":
            return Candidates(tuple((name, "") for name in known.kubeconfig().contexts))
        case "--cluster":
            return Candidates(tuple((name, "") for name in known.kubeconfig().clusters))
        case "--user":
            return Candidates(tuple((name, "") for name in known.kubeconfig().users))
    spec = next((each for each in specs if each.flag == flag), None)
    return Candidates(tuple((word, "") for word in spec.parser.choices) if spec is not None else ())


class _ClusterNames:
    """Names in the cluster that the words so far choose."""

    def __init__(self, names: Names, around: Surroundings, words: Sequence[Word]) -> None:
        self._names = names
        self._environ = dict(around.environ)
        self._words = words
        known = {spec.flag for spec in list_specs(ClusterFlags)}
        flags = [word.text for word in words if word.flag in known]
        program = Program(name="completion", summary="", version="", settings=ClusterFlags)
        self._flags = load_settings(program, flags, self._environ, Path.read_text)

    def kubeconfig(self) -> Kubeconfig:
        """The kubeconfig files, for the names in them."""
        sources = sources_of(self._flags, self._environ)
        listed = sources.environ.get("KUBECONFIG") or str(sources.home / ".kube" / "config")
        return read_kubeconfig([Path(each) for each in listed.split(":") if each])

    def nodes(self) -> tuple[tuple[str, str], ...]:
        """Nodes with cards."""

        async def read(api: KubeClient) -> tuple[tuple[str, str], ...]:
            snapshot = ClusterSnapshot(self._names.vendor)
            await read_nodes(api, snapshot, Scope(), _ignore)
            word = self._names.vendor.device_word
            return tuple((node.name, f"{len(node.cards)} {word}") for node in snapshot.nodes_with_cards())

        return asyncio.run(self._ask(read))

    def pods(self) -> tuple[tuple[str, str], ...]:
        """Pods that ask for cards: by name in the namespace of the flags, or else the context's."""
        given = next((w.text for w in self._words if w.flag == "--namespace" and w.kind is Kind.VALUE), None)

        async def read(api: KubeClient) -> tuple[tuple[str, str], ...]:
            snapshot = ClusterSnapshot(self._names.vendor)
            await read_pods(api, snapshot, Scope(), _ignore)
            namespace = given or api.config.namespace
            return tuple(
                (facts.ref.name if facts.ref.namespace == namespace else str(facts.ref), facts.node or "waits")
                for facts in sorted(snapshot.pods.values(), key=lambda each: str(each.ref))
                if given is None or facts.ref.namespace == given
            )

        return asyncio.run(self._ask(read))

    def namespaces(self) -> tuple[tuple[str, str], ...]:
        """Every namespace."""

        async def read(api: KubeClient) -> tuple[tuple[str, str], ...]:
            found = await api.list_all(NAMESPACES)
            return tuple((str(each["metadata"]["name"]), "") for each in found)

        return asyncio.run(self._ask(read))

    async def _ask(self, read: _Read) -> tuple[tuple[str, str], ...]:
        limits = Limits(request_s=_PATIENCE_S, list_page_s=_PATIENCE_S, connect_s=_PATIENCE_S)
        config = load_config(sources_of(self._flags, self._environ))
        try:
            async with asyncio.timeout(_PATIENCE_S), KubeClient(config, limits=limits) as api:
                return await read(api)
        except TimeoutError:
            raise ConfigError(f"the API server did not answer within {_PATIENCE_S:g}s") from None


def _ignore(what: str, count: int) -> None:
    """Nobody waits for the progress of a completion."""
