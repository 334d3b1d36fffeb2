"""Plans as values: observe, decide, execute; every interrupted prefix is safe."""
