"""HTTP servers: the strict one of the scheduler's port, aiohttp's for pages; limits, TLS, answers to errors."""
