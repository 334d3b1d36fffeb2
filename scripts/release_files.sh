#!/usr/bin/env bash
# Make the files of a release in OUT, from the checkout that this script is in: release_files.sh OUT IMAGES [FILES-URL]
#
# IMAGES holds NAME.tar of both images; in folders below it may lie the extender's for other machines. The files name the
# images that charts and manifests of this checkout name. FILES-URL is where they can be downloaded once they are published:
# krew's manifests are made only with it. PYTHON runs the builders; SINGLE_FILES=--all builds the single files for every
# released Python; HELM names another helm. With SOURCE_DATE_EPOCH the same sources and images give the same files.
set -euo pipefail
# shellcheck source=deploy/lib/usage.sh
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/lib/usage.sh"
own_arguments 2 3 "$@"
images=$(cd "$2" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
url=${3:-}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-$PWD/.venv/bin/python}
export PYTHONPATH=$PWD/src:$PWD

for chart in deploy/*/build-and-deploy/*-chart deploy/gcushare; do
    "${HELM:-helm}" package --destination "$out" "$chart"
done
"$python" -m scripts.archives "$out"/*.tgz
"$python" -m scripts.single_files "$out" ${SINGLE_FILES:+"$SINGLE_FILES"}
mapfile -t extenders < <(find "$images" -name gcushare-scheduler-extender.tar | sort)
"$python" -m scripts.executables "$out" "${extenders[@]}"
"$python" -m scripts.sbom "$out" "${extenders[@]}"
"$python" -m scripts.packages "$out" --images "$images" --single-files "$out"
[ -z "$url" ] || "$python" -m scripts.krew "$out" "${url%/}" "$out"
cp deploy/manifests/gpushare/*.yaml deploy/manifests/gpushare/config/* "$out"
# A release has no folders: enflame/admission.yaml becomes gcushare-enflame-admission.yaml.
for file in deploy/manifests/{enflame,aliyun}/*.yaml; do
    vendor=$(basename "$(dirname "$file")") part=$(basename "$file")
    case $part in gcushare.yaml) part=.yaml ;; *) part=-$part ;; esac
    cp "$file" "$out/gcushare-$vendor$part"
done
