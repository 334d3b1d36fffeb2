"""HTTP servers: limits, TLS, answers to errors, and a fast path for the scheduler's calls."""
