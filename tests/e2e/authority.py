"""Keys and certificates of one test cluster, made when it starts and gone with it."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from gcushare_playground.apiserver import TlsFiles, make_certificates


def make_key_pair(folder: Path) -> tuple[Path, Path]:
    """Write the key that signs service account tokens, and its public half; return both paths."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = folder / "accounts.key", folder / "accounts.pub"
    pem = serialization.Encoding.PEM
    private.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def make_server_certificate(folder: Path, *hosts: str) -> TlsFiles:
    """Write an authority and a server's certificate for ``hosts``."""
    return make_certificates(folder, hosts)
