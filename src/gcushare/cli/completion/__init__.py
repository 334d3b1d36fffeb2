"""Shell completion of ``kubectl inspect gcushare`` and ``gpushare``."""
