"""What all programs need to run as a process: settings, logs, signals, serving, health and metrics.

It has no code about cards, pods or the API server. The programs import its modules directly: `settings` and `entry` for
the command line; `http`, `logs`, `shutdown`, `health` and `metrics` for the running program.
"""
