"""TLS files of a server as Kubernetes mounts a Secret."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gcushare.runtime.http.tls import TlsFiles
from gcushare.runtime.settings.serving import ServeSettings
from tests.protocol.runtime_bench import SETTINGS
from tests.protocol.runtime_certificates import Authority, Issued


@dataclass
class Secret:
    """A folder of TLS files as Kubernetes mounts them: links through ``..data``, which is replaced as a whole."""

    folder: Path
    authority: Authority
    generation: int = 0

    @classmethod
    def begin(cls, folder: Path) -> Secret:
        """With a first certificate, and no authority of clients."""
        folder.mkdir()
        secret = cls(folder, Authority("server authority"))
        secret.publish(secret.authority.issue("server"))
        return secret

    @property
    def files(self) -> TlsFiles:
        client_ca = self.folder / "ca.crt"
        return TlsFiles(self.folder / "tls.crt", self.folder / "tls.key", client_ca if client_ca.exists() else None)

    def settings(self, base: ServeSettings = SETTINGS) -> ServeSettings:
        files = self.files
        return replace(base, tls_cert_file=files.cert, tls_key_file=files.key, tls_client_ca_file=files.client_ca)

    def publish(self, issued: Issued, client_ca: Authority | None = None) -> None:
        """Replace all files at once."""
        self.generation += 1
        target = self.folder / f"..{self.generation}"
        issued.write(target)
        if client_ca is not None:
            (target / "ca.crt").write_bytes(client_ca.cert_pem)
        (self.folder / "..new").symlink_to(target.name)
        (self.folder / "..new").rename(self.folder / "..data")
        for name in ("tls.crt", "tls.key", "ca.crt"):
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
