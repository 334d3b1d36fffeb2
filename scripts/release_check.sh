#!/usr/bin/env bash
# Play every step of a release that needs neither a registry of images nor keys, into a directory that is thrown away.
# Three steps of .github/workflows/release.yml cannot be tried here: images for other architectures, signatures, and
# the release itself. Pushing is tried by tests/playground/test_publish.py, with a registry on this machine.
set -euo pipefail
# shellcheck source=deploy/lib/usage.sh
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/lib/usage.sh"
own_arguments 0 0 "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=.venv/bin
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
step() { printf '== %s (%s s)\n' "$*" "$SECONDS"; }
skipped=()
skip() { # skip WHAT WHY
    echo "$2: $1 not made here"
    skipped+=("$1 ($2)")
}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

step "one version: project, charts"
version=$($bin/python -c 'from gcushare._version import __version__; print(__version__)')
for chart in deploy/gcushare deploy/*/build-and-deploy/*-chart; do
    grep -qx "version: $version" "$chart/Chart.yaml" || { echo "$chart is not of version $version"; exit 1; }
done

step "workflows"
bash scripts/lint_workflows.sh

step "wheel"
PIP_CONSTRAINT="$PWD/constraints.txt" $bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out/wheel" .

step "charts"
if command -v helm >/dev/null; then
    for chart in deploy/*/build-and-deploy/*-chart deploy/gcushare; do
        helm lint --strict "$chart" >"$out/lint" || { cat "$out/lint"; exit 1; }
        helm package --destination "$out/charts" "$chart" >"$out/packed" 2>&1 || { cat "$out/packed"; exit 1; }
    done
    $bin/python -m scripts.archives "$out"/charts/*.tgz
else
    skip charts "no helm"
fi

step "single files, krew manifests"
$bin/python -m scripts.single_files "$out/files"
"$out/files/kubectl-inspect-gpushare" --version
$bin/python -m scripts.krew "$out/krew" "https://example.invalid/releases/v$version" "$out/files"

step "the manual's packages"
$bin/python -m scripts.packages "$out/packages" --single-files "$out/files"

step "images, for this machine"
if ! command -v buildah >/dev/null || [ "$(id -u)" != 0 ]; then
    skip "images, executable and the list of what is in them" "no buildah, or not root"
else
    export BUILDAH="buildah --root $out/store --runroot $out/run --storage-driver vfs"
    bash scripts/base_image.sh localhost/base:here "$bin/python"
    for name in gcushare-device-plugin gcushare-scheduler-extender; do
        $BUILDAH build --quiet --layers --isolation chroot --build-arg PYTHON_IMAGE=localhost/base:here \
            --file deploy/image/Dockerfile --target "$name" --tag "localhost/$name:here" . >/dev/null
        $BUILDAH push --quiet "localhost/$name:here" "docker-archive:$out/$name.tar:$name:here"
        container=$($BUILDAH from --pull-never "localhost/$name:here")
        $BUILDAH run --isolation chroot "$container" -- "$name" --version
    done
    step "executable and list of what is in it, for this machine"
    $bin/python -m scripts.executables "$out/files" "$out/gcushare-scheduler-extender.tar"
    $bin/python -m scripts.sbom "$out/files" "$out/gcushare-scheduler-extender.tar"
    env -i GCUSHARE_CACHE="$out/cache" "$out"/files/gcushare-linux-* kubectl-inspect-gcushare --version
fi
# What could not be made here is not there.
made=()
for each in charts files krew packages wheel gcushare-device-plugin.tar gcushare-scheduler-extender.tar; do
    [ ! -e "$out/$each" ] || made+=("$each")
done
(cd "$out" && find "${made[@]}" -type f | sort | xargs sha256sum)
step "made: ${made[*]}"
[ "${#skipped[@]}" = 0 ] || printf 'not made: %s\n' "${skipped[@]}"
