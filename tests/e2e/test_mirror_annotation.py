"""A pod's author cannot pass for a static pod, which is never evicted: kube-apiserver refuses the mirror annotation."""

from __future__ import annotations

import pytest

from gcushare.core.errors import GcushareError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.wire.pods import MIRROR
from gcushare_playground.picture import POD_OBJECTS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import pod


async def test_a_pod_that_a_scheduler_places_has_no_mirror_annotation(control_plane: ControlPlane) -> None:
    body = pod("passes-for-static", 4)
    body["metadata"]["annotations"] = {MIRROR: "0123456789abcdef"}
    with pytest.raises(GcushareError, match=r"must set spec\.nodeName if mirror pod annotation is set"):
        await control_plane.client.create(POD_OBJECTS, body, namespace="default")


async def test_the_mirror_annotation_is_not_added_later(control_plane: ControlPlane) -> None:
    await control_plane.client.create(POD_OBJECTS, pod("ordinary", 4), namespace="default")
    patch = Patch(PatchKind.MERGE, {"metadata": {"annotations": {MIRROR: "0123456789abcdef"}}})
    with pytest.raises(GcushareError, match="may not add mirror pod annotation"):
        await control_plane.client.patch(POD_OBJECTS, "ordinary", patch, namespace="default")
