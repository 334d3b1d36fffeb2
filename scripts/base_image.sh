#!/usr/bin/env bash
# Make a base image for deploy/image/Dockerfile out of this machine, for a build that can pull none:
#
#   base_image.sh NAME PYTHON
#
# Holds PYTHON with pip, the certificate authorities of this machine, and the tools that make-root.sh calls, each with
# the libraries it loads. Buildah builds it; BUILDAH may name its command with options. For trying a build, not for
# handing out.
set -euo pipefail
# shellcheck source=deploy/lib/usage.sh
. "$(dirname "${BASH_SOURCE[0]}")/../deploy/lib/usage.sh"
own_arguments 2 2 "$@"
PATH=$PATH:/usr/sbin:/sbin
name=$1 python=$2
buildah=${BUILDAH:-buildah}
tools="sh bash tar tr find sed sort head cut du cp ln mkdir rm chmod touch cat dirname readlink xargs ldd ldconfig strip"
tools="$tools true env dpkg-query"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
version=$("$python" -c 'import sysconfig; print(sysconfig.get_python_version())')
mkdir -p "$root"/{usr/bin,usr/sbin,usr/lib,usr/lib64,usr/local/bin,etc,tmp,proc,sys,dev,"$prefix/lib"}
chmod 1777 "$root/tmp"
for link in bin lib lib64 sbin; do [ ! -L "/$link" ] || cp -P "/$link" "$root/$link"; done

(cd "$prefix" && tar -cf - --exclude='site-packages' --exclude='__pycache__' --exclude='test' --exclude='*.a' \
    "bin/python$version" "lib/python$version") |
    tar -xf - -C "$root$prefix"
packages=$prefix/lib/python$version/site-packages
mkdir -p "$root$packages"
cp -r "$packages"/pip "$root$packages/"
ln -s "$prefix/bin/python$version" "$root/usr/local/bin/python3"
# shellcheck disable=SC2016 # the shell in the image reads it
printf '#!/bin/sh\nexec /usr/local/bin/python3 -m pip "$@"\n' >"$root/usr/local/bin/pip"
chmod 755 "$root/usr/local/bin/pip"

for tool in $tools; do
    found=$(command -v "$tool") || { echo "no $tool here: left out" >&2; continue; }
    case $found in /*) cp -L "$found" "$root/usr/bin/$tool" ;; esac
done
# Wheels load parts of the C library that nothing else does any more, and C++.
for library in libpthread libdl librt libutil libresolv libnss_files libnss_dns libgcc_s libstdc++; do
    found=$(ldconfig -p | sed -n "s/^.*${library}[.]so[.].* => //p" | head -n 1)
    [ -z "$found" ] || { mkdir -p "$root$(dirname "$found")" && cp -L "$found" "$root$found"; }
done
# Of scripts ldd says that they load nothing, and fails.
{ find "$root" -type f \( -perm -u+x -o -name '*.so*' \) -exec ldd {} + 2>/dev/null || :; } |
    sed -n 's/^[[:space:]]*\(.* => \)\{0,1\}\(\/[^ ]*\) (0x.*$/\2/p' | sort -u |
    while read -r library; do
        [ -e "$root$library" ] || { mkdir -p "$root$(dirname "$library")" && cp -L "$library" "$root$library"; }
    done
# Names are looked up, and certificates checked, as on this machine; its packages are those of the libraries.
licences=$(find -L /usr/share/doc -maxdepth 2 -name copyright)
for each in /etc/nsswitch.conf /etc/ld.so.conf /etc/ld.so.conf.d /etc/ssl/certs /etc/os-release /var/lib/dpkg $licences; do
    [ ! -e "$each" ] || { mkdir -p "$root$(dirname "$each")" && cp -rL "$each" "$root$each"; }
done
ldconfig -r "$root"
authorities=/etc/ssl/certs/ca-certificates.crt

container=$($buildah from scratch)
trap '$buildah rm "$container" >/dev/null; rm -rf "$root"' EXIT
$buildah copy --quiet "$container" "$root" / >/dev/null
$buildah config --env PATH=/usr/local/bin:/usr/bin:/bin "$container"
[ ! -e "$authorities" ] || $buildah config --env "PIP_CERT=$authorities" "$container"
$buildah commit --quiet "$container" "$name" >/dev/null
echo "base image $name: python $version of $prefix"
