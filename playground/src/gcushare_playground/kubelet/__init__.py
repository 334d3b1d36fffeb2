"""A kubelet double: a node whose device manager, admission and pod resources API behave like the stock kubelet's.

It talks real gRPC to plugins on unix sockets and to an API server through a small port. It never runs a container's
command: it keeps what each container was given. It is not a kubelet: no static pods, volumes, probes, evictions or
topology manager. Tests, the demo and the playground may import it; no program does.
"""

from gcushare_playground.kubelet.api import NodeApi
from gcushare_playground.kubelet.faults import PodResourcesMode
from gcushare_playground.kubelet.kubelet import Kubelet
from gcushare_playground.kubelet.settings import AdmissionOrder, KubeletSettings
from gcushare_playground.kubelet.views import ContainerView

__all__ = [
    "AdmissionOrder",
    "ContainerView",
    "Kubelet",
    "KubeletSettings",
    "NodeApi",
    "PodResourcesMode",
]
