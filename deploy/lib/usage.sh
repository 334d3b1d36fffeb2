# shellcheck shell=bash
# The command line of scripts that take no options. Sourced by them; it runs nothing by itself.

# own_arguments LEAST MOST ARGUMENT...: answer --help with the comment at the top of the script. Stops at any other
# option, and unless there are as many arguments as the script takes.
own_arguments() {
    local least=$1 most=$2 each
    shift 2
    for each in "$@"; do
        case $each in
        -h | --help) sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0" && exit 0 ;;
        -*) echo "error: unknown option '$each'; see $0 --help" >&2 && exit 2 ;;
        esac
    done
    [ $# -ge "$least" ] && [ $# -le "$most" ] && return
    echo "error: $# arguments are given, and this takes $least$([ "$most" = "$least" ] || echo " to $most"); see $0 --help" >&2
    exit 2
}
