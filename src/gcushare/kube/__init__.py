"""The only way to the API server: configuration, client, reflector, leader election and events.

Not a general Kubernetes client: it speaks of the objects in ``gcushare.wire.objects`` and sends the few writes that
this project needs. The programs, the playground and the demo import it; no error of aiohttp, ssl or msgspec passes it.
Import what is needed from its own module: this one imports nothing, so that ``--help`` loads no HTTP client.
What only a kubeconfig needs (a YAML reader) is imported on first use.
"""
