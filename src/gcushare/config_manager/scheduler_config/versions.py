"""Which kube-scheduler runs, and which configuration it reads."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from gcushare.core.errors import ConfigError
from gcushare.wire.kubernetes_versions import NEWEST_KUBERNETES, OLDEST_KUBERNETES, release_text

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?((?:[-+_.][0-9A-Za-z.+_-]*)?)\Z")


_IMAGES = ("kube-scheduler", "hyperkube", "kubernetes")
"""Parts of the names of images whose tags are Kubernetes' versions, such as ``rancher/hardened-kubernetes``."""


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A Kubernetes version; ``suffix`` is what a vendor or a pre-release added, and has no effect."""

    major: int
    minor: int
    patch: int = 0
    suffix: str = ""

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}{self.suffix}"

    @property
    def release(self) -> tuple[int, int]:
        return (self.major, self.minor)


class ConfigFormat(enum.Enum):
    """The documents that configure extenders; the value is the ``apiVersion`` in them."""

    POLICY = "v1"
    V1ALPHA2 = "kubescheduler.config.k8s.io/v1alpha2"
    V1BETA1 = "kubescheduler.config.k8s.io/v1beta1"
    V1BETA2 = "kubescheduler.config.k8s.io/v1beta2"
    V1BETA3 = "kubescheduler.config.k8s.io/v1beta3"
    V1 = "kubescheduler.config.k8s.io/v1"

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"

    @property
    def kind(self) -> str:
        return "Policy" if self is ConfigFormat.POLICY else "KubeSchedulerConfiguration"

    @property
    def has_old_spelling(self) -> bool:
        """``enableHttps`` and nanoseconds instead of ``enableHTTPS`` and ``5s``."""
        return self in (ConfigFormat.POLICY, ConfigFormat.V1ALPHA2)

    def is_read_by(self, version: Version) -> bool:
        first, last = _READ_BY[self]
        return first <= version.release and (last is None or version.release <= last)


_READ_BY: dict[ConfigFormat, tuple[tuple[int, int], tuple[int, int] | None]] = {
    ConfigFormat.POLICY: ((1, 0), (1, 22)),
    ConfigFormat.V1ALPHA2: ((1, 18), (1, 20)),
    ConfigFormat.V1BETA1: ((1, 19), (1, 22)),
    ConfigFormat.V1BETA2: ((1, 22), (1, 27)),
    ConfigFormat.V1BETA3: ((1, 23), (1, 28)),
    ConfigFormat.V1: ((1, 25), None),
}


def accepted_versions() -> str:
    return f"{release_text(OLDEST_KUBERNETES)} to {release_text(NEWEST_KUBERNETES)} and later 1.x"


def parse_version(text: str) -> Version:
    """Parse ``v1.20.0``, ``1.28.4-k3s1``, or the line that ``kube-scheduler --version`` prints.

    Raises:
        ConfigError: not a version, or one that no known configuration fits.
    """
    word = text.strip().removeprefix("Kubernetes ").strip()
    match = _VERSION.match(word)
    if match is None:
        raise ConfigError(
            f"kube-scheduler version {text!r} is not understood: accepted are {accepted_versions()}; "
            "say which one runs with --scheduler-version"
        )
    version = Version(int(match[1]), int(match[2]), int(match[3] or 0), match[4])
    if version.major != 1 or version.release < OLDEST_KUBERNETES:
        raise ConfigError(f"kube-scheduler version {text!r} is not supported: accepted are {accepted_versions()}")
    return version


def parse_image_version(image: str) -> Version | None:
    """Read the version from an image's tag (a digest behind it is ignored).

    None if another program's image holds the scheduler, or the tag is none of the supported versions: builds with
    plugins have versions of their own (``scheduler-plugins/kube-scheduler:v0.32.7``).
    """
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    if _VERSION.match(tag) is None or not any(part in name for part in _IMAGES):
        return None
    try:
        return parse_version(tag)
    except ConfigError:
        return None


def newest_format(version: Version) -> ConfigFormat:
    """Choose the format that is written for ``version``: Policy below 1.23, v1beta3 in 1.23 and 1.24, then v1."""
    written = (ConfigFormat.POLICY, ConfigFormat.V1, ConfigFormat.V1BETA3)
    return next(each for each in written if each.is_read_by(version))


def parse_format(api_version: object, kind: object) -> ConfigFormat:
    """Recognise an existing document. Raises ``ConfigError`` naming what is known."""
    for known in ConfigFormat:
        if (known.value, known.kind) == (api_version, kind):
            return known
    # Policy has only one version, and schedulers read a file that does not name it.
    if kind == "Policy" and api_version in (None, ""):
        return ConfigFormat.POLICY
    known_formats = ", ".join(map(str, ConfigFormat))
    raise ConfigError(
        f"kind {kind!r} apiVersion {api_version!r} is not a configuration with extenders; accepted: {known_formats}"
    )
