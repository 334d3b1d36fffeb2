"""Enflame GCUs through EFML: the library's own API, and the NVML-shaped one of newer releases."""
