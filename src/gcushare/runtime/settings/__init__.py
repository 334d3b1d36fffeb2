"""Settings from flags, environment and file, in this order of precedence. Reports all problems at once."""
