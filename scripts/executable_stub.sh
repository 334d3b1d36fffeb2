#!/bin/sh
# GCUShare @version@ for Linux on @machine@. The files follow after the last line as a compressed tar archive.
# The first start unpacks them below GCUSHARE_CACHE; they may be deleted at any time.
# shellcheck disable=SC3067 # dash, bash and busybox know test -O
set -eu
fail() {
    echo "error: $1" >&2
    echo "what to do: $2" >&2
    exit 1
}
PATH=${PATH:-}:/usr/bin:/bin:/usr/sbin:/sbin
name=${0##*/}
case $name in
# krew writes an underscore in the link that it makes.
kubectl-inspect_*) name=kubectl-inspect-${name#kubectl-inspect_} ;;
esac
case $name in
@commands@) ;;
*)
    name=gcushare
    case ${1:-} in
    @commands@)
        name=$1
        shift
        ;;
    esac
    ;;
esac
[ "$(uname -m)" = @machine@ ] || fail "this file is for @machine@, and this machine is $(uname -m)" "take the release's file for this machine"

if [ -n "${GCUSHARE_CACHE:-}" ]; then
    cache=$GCUSHARE_CACHE
elif [ "$(id -u)" = 0 ]; then
    # Not below HOME: sudo may keep the HOME of a user, who could then change what root runs.
    cache=/var/cache/gcushare
elif [ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]; then
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/gcushare
else
    cache=/var/tmp/gcushare-$(id -u)
fi
unset GCUSHARE_CACHE
advice="set GCUSHARE_CACHE to a directory of your own, with 100 MB free, on a file system that programs may be started from"
root=$cache/@version@-@sum@
if [ ! -d "$root" ]; then
    (umask 077 && mkdir -p "$cache") || fail "the directory $cache cannot be made" "$advice"
    [ -O "$cache" ] || fail "the directory $cache belongs to another user" "$advice"
    new=$cache/.new-$$
    rm -rf "$new"
    mkdir "$new" || fail "the directory $cache cannot be written to" "$advice"
    if ! tail -n +@lines@ "$0" | gzip -dc | tar -xf - -C "$new"; then
        rm -rf "$new"
        fail "the files of $0 were not unpacked to $cache" "$advice; if there is room, download the file again"
    fi
    mv "$new" "$root"
    # If another start was faster the move went into its directory.
    rm -rf "$root/.new-$$"
fi
[ -O "$root" ] || fail "the directory $root belongs to another user" "$advice"
[ -x "$root/@loader@" ] || fail "$root is not complete" "delete it, and start $0 again"
# No variable of the environment changes this Python (-I), and it writes no bytecode next to its files (-B).
exec "$root/@loader@" --inhibit-cache --library-path "@libraries@" "$root/@python@" -I -B -X utf8 "$root/usr/local/bin/$name" "$@"
