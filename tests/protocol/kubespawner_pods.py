"""Prints the pods that KubeSpawner makes of the values on its standard input, one JSON object by profile.

A process of its own: JupyterHub's imports warn, and its clients are not ours. What the hub's chart hands on from its
values to the spawner is what its ``jupyterhub_config.py`` names: the profiles, and how long a start may take.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from jupyterhub.objects import Hub
from kubernetes_asyncio.client import ApiClient
from kubespawner import KubeSpawner
from slugify import slugify
from traitlets.config import Config


async def make_pod(values: dict[str, Any], profile: str) -> Any:
    config = Config()
    config.KubeSpawner.profile_list = values["singleuser"]["profileList"]
    config.KubeSpawner.start_timeout = values["singleuser"]["startTimeout"]
    config.KubeSpawner.image = "example.invalid/notebook:1"
    spawner = KubeSpawner(config=config, hub=Hub(), _mock=True)
    spawner.cmd = ["jupyterhub-singleuser"]
    await spawner.get_options_form()
    spawner.user_options = {"profile": profile}
    await spawner.load_user_options()
    async with ApiClient() as client:
        return client.sanitize_for_serialization(await spawner.get_pod_manifest())


async def main() -> None:
    values = json.load(sys.stdin)
    names = [each["display_name"] for each in values["singleuser"]["profileList"]]
    sys.stdout.write(json.dumps({name: await make_pod(values, slugify(name)) for name in names}))


asyncio.run(main())
