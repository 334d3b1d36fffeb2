"""Cards from a file, for the demo and for tests: the same port as a vendor's library."""
