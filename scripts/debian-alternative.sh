#!/bin/bash
# Makes the library this machine's libblas.so.3, through Debian's alternatives, and undoes it. Needs root.
#
#   scripts/debian-alternative.sh install [LIBRARY]    default: the release build; it is copied to /usr/local/lib/semcache
#   scripts/debian-alternative.sh remove               the choice that was there before is there again
#   scripts/debian-alternative.sh status
#
# The host BLAS is libopenblas.so.0 then, which must be installed: libblas.so.3, where the library looks next, would be
# the library itself. Only what programs load is changed, not what -lblas links with: what is built meanwhile must run
# on other machines, too.
set -euo pipefail
. "$(dirname "$0")/setting.sh"

MULTIARCH=x86_64-linux-gnu
NAME=libblas.so.3-$MULTIARCH
LINK=/usr/lib/$MULTIARCH/libblas.so.3
PLACE=/usr/local/lib/semcache

usage() {
    sed -n '4,6s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

# query FIELD: of the alternative, for example Value or Status.
query() { update-alternatives --query "$NAME" 2>/dev/null | sed -n "s/^$1: //p" | head -1; }

as_root() { [ "$(id -u)" = 0 ] || fail "run this as root"; }

case ${1:-} in
install)
    as_root
    library=${2:-$LIBRARY}
    [ -e "$library" ] || fail "no library at $library: cargo build --release"
    [ -e "/usr/lib/$MULTIARCH/libopenblas.so.0" ] || fail "no host BLAS: apt-get install libopenblas0-pthread"
    mkdir -p "$PLACE"
    # What was chosen before, once: a second install must not remember the first.
    [ -e "$PLACE/before" ] || printf '%s %s\n' "$(query Status)" "$(query Value)" >"$PLACE/before"
    # A running process may have the old file mapped: a new file, not new contents.
    # It gets the name under which it is found: by the name in the file, ldconfig would make a link of its own.
    LC_ALL=C sed 's/\x00libsemcache_blas\.so\x00/\x00libblas.so.3\x00\x00\x00\x00\x00\x00\x00\x00/' "$library" >"$PLACE/libblas.so.3.new"
    mv "$PLACE/libblas.so.3.new" "$PLACE/libblas.so.3"
    update-alternatives --install "$LINK" "$NAME" "$PLACE/libblas.so.3" 1
    update-alternatives --set "$NAME" "$PLACE/libblas.so.3"
    ;;
remove)
    as_root
    read -r status value <"$PLACE/before" 2>/dev/null || status='' value=''
    update-alternatives --remove "$NAME" "$PLACE/libblas.so.3"
    if [ "$status" = manual ] && [ -e "$value" ]; then
        update-alternatives --set "$NAME" "$value"
    else
        update-alternatives --auto "$NAME"
    fi
    rm -rf "$PLACE"
    ;;
status) update-alternatives --display "$NAME" ;;
*) usage ;;
esac
