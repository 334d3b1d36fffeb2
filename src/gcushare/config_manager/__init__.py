"""Make kube-scheduler call the extender, safely, and put everything back.

For a static pod it edits the manifest, for a systemd unit the unit; a managed control plane needs none of this, since
the chart brings a second scheduler. Everything up to ``deciding`` is pure: texts and values in, a plan out. ``files``,
``probing`` and ``executing`` touch the host, ``cluster`` the API server, ``keeping`` is the DaemonSet's loop. Nobody
but programs that sit on top imports this package.
"""
