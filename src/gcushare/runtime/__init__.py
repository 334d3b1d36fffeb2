"""What the programs share to be good processes: settings, logs, signals, serving, health and waiting times.

It knows nothing of cards, pods or Kubernetes; of our own packages it imports only ``core.errors``. The programs import
its modules directly: `settings`, `parsers`, `groups` and `entry` for the command line, `logs`, `shutdown`, `serving`,
`health`, `metrics` and `retry` for the running program.
"""
