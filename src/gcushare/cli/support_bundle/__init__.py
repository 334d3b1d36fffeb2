"""``gcushare support-bundle``: one archive for support, of fields that are allowed by name."""
