"""Keys and certificates of one test cluster, made when it starts and gone with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.protocol.runtime_certificates import Authority


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


@dataclass(frozen=True)
class TlsFiles:
    """PEM files: the server's certificate and key, and the authority that clients trust."""

    certificate: Path
    key: Path
    authority: Path


def make_server_certificate(folder: Path) -> TlsFiles:
    """Write an authority and its certificate for a server on 127.0.0.1."""
    authority = Authority("gcushare e2e", timedelta(days=365))
    certificate, key = authority.issue("kube-apiserver").write(folder, "apiserver")
    (folder / "ca.crt").write_bytes(authority.cert_pem)
    return TlsFiles(certificate, key, folder / "ca.crt")
