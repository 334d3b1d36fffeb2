"""The node's containers: what a container runtime would keep while the kubelet is down."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from gcushare_playground.kubelet.views import ContainerView


class ContainerStore:
    """Containers by pod uid, one small file per pod, so that they outlive the kubelet's process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pods: dict[str, dict[str, ContainerView]] = {}

    def load(self) -> None:
        """Read what runs on this node."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._pods = {}
        for path in sorted(self._directory.glob("*.json")):
            views = msgspec.json.decode(path.read_bytes(), type=list[ContainerView])
            self._pods[path.stem] = {view.name: view for view in views}

    def start(self, uid: str, views: Collection[ContainerView]) -> None:
        """Run these containers as the pod's."""
        self._pods[uid] = {view.name: view for view in views}
        self._save(uid)

    def replace(self, uid: str, view: ContainerView) -> None:
        """Run one container of a pod again."""
        self._pods[uid][view.name] = view
        self._save(uid)

    def end(self, uid: str) -> None:
        """Let the pod's containers end; what they were given can be read until they are removed."""
        if uid in self._pods:
            self._pods[uid] = {
                name: msgspec.structs.replace(view, has_ended=True) for name, view in self._pods[uid].items()
            }
            self._save(uid)

    def remove(self, uid: str) -> None:
        """End and remove the pod's containers; nothing happens when there are none."""
        if self._pods.pop(uid, None) is not None:
            self._path(uid).unlink(missing_ok=True)

    def uids(self) -> set[str]:
        return set(self._pods)

    def views(self, uid: str) -> dict[str, ContainerView]:
        return dict(self._pods.get(uid, {}))

    def view(self, uid: str, container: str) -> ContainerView | None:
        return self._pods.get(uid, {}).get(container)

    def is_running(self, uid: str) -> bool:
        """Say whether any container of the pod runs."""
        return any(not view.has_ended for view in self.views(uid).values())

    def running(self) -> set[tuple[str, str]]:
        """Return pod uid and name of each container that runs now."""
        return {(uid, view.name) for uid, views in self._pods.items() for view in views.values() if not view.has_ended}

    def _save(self, uid: str) -> None:
        path = self._path(uid)
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(list(self._pods[uid].values())))
        temporary.replace(path)

    def _path(self, uid: str) -> Path:
        return self._directory / f"{uid}.json"
