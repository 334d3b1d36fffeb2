"""Builds the answer to Allocate: environment variables, device nodes, CDI names, or several of them.

The answer follows from the ids alone, but for the soft limit of the whole pod, which no call names. It is the pod's sum
if every pod that the call can be for asks for the same sum, and the container's own amount otherwise.
"""

from __future__ import annotations

from gcushare.core.units import MemoryUnit
from gcushare.node.container_environment import Grant
from gcushare.node.grant_form import GrantForm
from gcushare.wire.protos import deviceplugin_pb2 as pb


class AllocateResponses(GrantForm):
    """Builds one container's part of Allocate's answer."""

    def build(self, grant: Grant, unit: MemoryUnit) -> pb.ContainerAllocateResponse:
        """Build the response for one container."""
        edits = self.edits(grant, unit)
        response = pb.ContainerAllocateResponse()
        for name, value in edits.variables.items():
            response.envs[name] = value
        for inside, outside in edits.folders.items():
            response.mounts.add(container_path=inside, host_path=outside, read_only=False)
        for path in edits.device_nodes:
            response.devices.add(container_path=path, host_path=path, permissions="rw")
        for path in edits.mounts:
            response.mounts.add(container_path=path, host_path=path, read_only=True)
        for name in self.cdi_names(grant):
            response.cdi_devices.add(name=name)
        return response
