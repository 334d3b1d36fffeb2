#!/bin/sh
# Build the root of an image from the Python that runs here and a directory of installed packages:
#
#   make-root.sh PACKAGES ROOT SOURCE_DATE_EPOCH
#
# Takes the interpreter, its library without what a server never imports, the packages without what only a laptop
# needs, every shared library these load with the name and the licence of its Debian package, and the names that a C
# library looks up. Needs a POSIX shell, ldd and Python.
set -eu

case $#,${1:-} in
*,-h | *,--help) sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0" && exit 0 ;;
*,-* | [!3],*) echo "make-root.sh: PACKAGES ROOT SOURCE_DATE_EPOCH are needed; see --help" >&2 && exit 2 ;;
esac
packages=$1
root=$2
epoch=$3
python=${PYTHON:-python3}

fail() {
    echo "make-root.sh: $*" >&2
    exit 1
}

[ -d "$packages/gcushare" ] || fail "$packages holds no package gcushare: pip install --target $packages . first"
[ ! -e "$root" ] || fail "$root is there already: remove it, so that nothing old gets into the image"

executable=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
library=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
version=$("$python" -c 'import sysconfig; print(sysconfig.get_python_version())')
target=$root/usr/local/lib/python$version
# Debian's own Python looks for packages in dist-packages, all others in site-packages.
installed=$target/$("$python" -c 'import os, site; print(os.path.basename(site.getsitepackages(["/usr/local"])[-1]))')

mkdir -p "$root/usr/local/bin" "$installed" "$root/etc" "$root/tmp" "$root/var/log" "$root/proc" "$root/sys" "$root/dev"
chmod 1777 "$root/tmp"
cp "$executable" "$root/usr/local/bin/python$version"
ln -s "python$version" "$root/usr/local/bin/python3"

echo "python $version from $library"
(cd "$library" && tar -cf - \
    --exclude='./site-packages' --exclude='./dist-packages' --exclude='__pycache__' --exclude='./config-*' \
    --exclude='./test' --exclude='*/tests' --exclude='./idlelib' --exclude='./ensurepip' --exclude='./lib2to3' \
    --exclude='./tkinter' --exclude='./turtle*' --exclude='./pydoc_data' --exclude='./distutils' --exclude='./venv' \
    --exclude='./sqlite3' --exclude='./curses' --exclude='./dbm' --exclude='_sqlite3*' --exclude='_curses*' \
    --exclude='_dbm*' --exclude='_gdbm*' --exclude='readline.*' --exclude='nis.*' --exclude='ossaudiodev*' \
    --exclude='_tkinter*' --exclude='_test*' --exclude='xxlimited*' --exclude='*.a' .) | tar -xf - -C "$target"
(cd "$packages" && tar -cf - \
    --exclude='__pycache__' --exclude='*.pyi' --exclude='*.pyx' --exclude='*.pxd' --exclude='*.proto' \
    --exclude='./bin' .) | tar -xf - -C "$installed"

# The console scripts, as the package declares them; written here because pip's name the build's interpreter.
"$python" - "$installed" "$root/usr/local/bin" <<'PYTHON'
import importlib.metadata
import pathlib
import sys

packages, scripts = map(pathlib.Path, sys.argv[1:])
distribution = next(iter(importlib.metadata.distributions(name="gcushare", path=[str(packages)])))
for entry in distribution.entry_points.select(group="console_scripts"):
    if not (packages / f"{entry.module.replace('.', '/')}.py").exists():
        continue
    script = scripts / entry.name
    script.write_text(
        f"#!/usr/local/bin/python3\nimport sys\n\nfrom {entry.module} import {entry.attr}\n\nsys.exit({entry.attr}())\n"
    )
    script.chmod(0o755)
    print("script", entry.name)
PYTHON

# Every shared library that something here loads, at the path where the loader looks for it. grpc and uvloop bring code
# in C++.
loaded=$(find "$root" -type f \( -name '*.so' -o -name '*.so.*' -o -name "python$version" \) -exec ldd {} + 2>/dev/null || true)
missing=$(printf '%s\n' "$loaded" | sed -n 's/^[[:space:]]*\(.*\) => not found.*/\1/p' | sort -u | tr '\n' ' ')
[ -z "$missing" ] || fail "the machine of the build lacks libraries that the packages load: $missing"
printf '%s\n' "$loaded" |
    sed -n 's/^[[:space:]]*\(.* => \)\{0,1\}\(\/[^ ]*\) (0x.*$/\2/p' | sort -u |
    while read -r shared; do
        case $shared in "$root"/*) continue ;; esac
        mkdir -p "$root$(dirname "$shared")"
        cp -L "$shared" "$root$shared"
        echo "library $shared"
    done
for name in libnss_files.so.2 libnss_dns.so.2 libgcc_s.so.1 libstdc++.so.6; do
    found=$(ldconfig -p 2>/dev/null | sed -n "s/^.*$name .* => //p" | head -n 1)
    [ -z "$found" ] || [ -e "$root$found" ] || { mkdir -p "$root$(dirname "$found")" && cp -L "$found" "$root$found"; }
done

# The Debian package of each of these libraries, where scanners of images look for it, and the licence that comes with it.
# A file may be known by its path below /usr or without it.
record_package() { # record_package PATH
    for known in "$1" "/usr$1" "${1#/usr}" "$(readlink -f "$1")"; do
        package=$(dpkg-query --search "$known" 2>/dev/null | sed -n 's/^\([^:, ]*\).*/\1/p;q') || package=
        [ -z "$package" ] || break
    done
    [ -n "$package" ] || { echo "no package here has $1: a scanner of the image will not know it" && return; }
    [ ! -e "$root/var/lib/dpkg/status.d/$package" ] || return 0
    dpkg-query --status "$package" >"$root/var/lib/dpkg/status.d/$package"
    mkdir -p "$root/usr/share/doc/$package"
    cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/" 2>/dev/null ||
        fail "the base image lacks /usr/share/doc/$package/copyright, which goes with $1"
}
if command -v dpkg-query >/dev/null 2>&1; then
    mkdir -p "$root/var/lib/dpkg/status.d"
    cp -L /etc/os-release "$root/etc/os-release"
    find "$root" -name '*.so*' -type f ! -path "$root/usr/local/*" | while read -r file; do record_package "${file#"$root"}"; done
else
    echo "no dpkg here: a scanner of the image will not know the C library and OpenSSL"
fi

if command -v strip >/dev/null 2>&1; then
    find "$root" -type f -name '*.so*' -exec strip --strip-unneeded {} + 2>/dev/null ||
        echo "some libraries keep their symbols: strip does not know their form"
fi

cat >"$root/etc/passwd" <<'PASSWD'
root:x:0:0:root:/root:/sbin/nologin
nonroot:x:65532:65532:nonroot:/:/sbin/nologin
PASSWD
printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"

# Compiled once, and found valid by their contents: a read-only image cannot compile at start.
"$python" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$root" -p / "$target" ||
    fail "a module does not compile"
"$root/usr/local/bin/python3" -I -B -c 'import gcushare' ||
    fail "the Python of $executable does not find the package gcushare in $installed: give another --python-image"
find "$root" -depth -exec touch -h -d "@$epoch" {} +
du -sk "$root" | sed 's/[[:space:]].*$/ KiB/'
