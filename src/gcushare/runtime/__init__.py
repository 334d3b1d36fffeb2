"""What the programs share to be good processes: settings, logs, signals, serving, health and metrics.

It knows nothing of cards, pods or the API server. The programs import its modules directly: `settings` and `entry` for
the command line, `http`, `logs`, `shutdown`, `health` and `metrics` for the running program.
"""
