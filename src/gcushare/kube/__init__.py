"""Access to the API server: configuration, client, reflector, leader election and events.

Only this package talks to the API server. It is not a general Kubernetes client: it knows the objects in
``gcushare.wire.objects`` and the few writes that this project needs. It converts all errors of aiohttp, ssl and msgspec
to our own. Import each name from its module: this one imports nothing, so that ``--help`` loads no HTTP client. The
YAML parser for kubeconfigs is imported on first use.
"""
