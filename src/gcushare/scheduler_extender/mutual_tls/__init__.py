"""The scheduler's calls over mutual TLS: their port, its certificates, and when the first port stops answering them."""
