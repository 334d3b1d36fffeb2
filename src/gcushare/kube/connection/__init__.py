"""How the API server is found and spoken to: kubeconfig, credentials, TLS, HTTP."""
