"""HTTP servers: bounds, TLS, errors, and a short path for the scheduler's calls."""
