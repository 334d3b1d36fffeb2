"""GCUShare: many pods share one accelerator card by memory on Kubernetes."""
