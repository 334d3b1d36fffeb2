#!/usr/bin/env bash
# Fetch the programs that `make e2e` runs against: fetch_kubernetes.sh FOLDER [MINOR]
#
# kube-apiserver, kube-scheduler, kube-controller-manager, kubelet and kubectl of the newest patch of MINOR (1.30), or of
# the newest release without it, and an etcd. Each file is compared with its published checksum. Then:
#   KUBEBUILDER_ASSETS=FOLDER make e2e
set -euo pipefail
# shellcheck source=deploy/lib/usage.sh
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/lib/usage.sh"
own_arguments 1 2 "$@"
folder=$1 minor=${2:-}
case $minor in "" | 1.[0-9] | 1.[0-9][0-9]) ;; *)
    echo "error: '$minor' is no minor version; write 1.30" >&2
    exit 2
    ;;
esac
etcd=v3.6.13
case $(uname -m) in aarch64 | arm64) machine=arm64 ;; *) machine=amd64 ;; esac
get() { curl --fail --silent --show-error --location --retry 5 "$@"; }

mkdir -p "$folder"
version=$(get "https://dl.k8s.io/release/stable${minor:+-$minor}.txt")
for name in kube-apiserver kube-scheduler kube-controller-manager kubelet kubectl; do
    url=https://dl.k8s.io/release/$version/bin/linux/$machine/$name
    get --output "$folder/$name" "$url"
    echo "$(get "$url.sha256")  $folder/$name" | sha256sum --check --quiet
    chmod +x "$folder/$name"
done
url=https://github.com/etcd-io/etcd/releases/download/$etcd archive=etcd-$etcd-linux-$machine.tar.gz
get --output "$folder/$archive" "$url/$archive"
(cd "$folder" && get "$url/SHA256SUMS" | grep -F "  $archive" | sha256sum --check --quiet)
tar -xzf "$folder/$archive" -C "$folder" --strip-components 1 "${archive%.tar.gz}/etcd"
rm "$folder/$archive"
echo "Kubernetes $version and etcd $etcd are in $folder"
