"""Settings from flags and environment, in this order of precedence. Reports all problems at once."""
