#!/bin/bash
# Unmodified Octave on a GPU machine that has none: packed with its libraries and its loader where Debian has it.
#
#   scripts/gpu-octave.sh build DIR          makes DIR self-contained: it needs bash and python3, no more
#   DIR/gpu-octave.sh run OUT [OPTIONS]      OUT/octave.md and OUT/octave.jsonl; --help names the options
#   DIR/gpu-octave.sh pairs OUT [OPTIONS]    the library against an older build of it, BASE=FILE when DIR was built: OUT/pairs.md
#
# DEVICES=sim:1 runs our side on simulated devices, to try this script. PACK_PRESET: xz's (6); 0 is quick, and larger.
set -euo pipefail

usage() {
    sed -n '4,6s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

# What the loader itself brings, kept apart: another machine's loader must not meet it.
loaders=(libc libm libmvec libdl libpthread librt libresolv libutil libnss_files libnss_dns libanl libgcc_s libstdc++)

pack() {
    local system=/usr/lib/x86_64-linux-gnu version tree file name
    version=$(octave-cli --norc --eval 'printf("%s", version)' 2>/dev/null)
    tree=$(fresh octave-pack)/octave
    mkdir -p "$tree"/{bin,lib,base,share/octave/"$version"}
    say "Octave $version and what it loads"
    # The BLAS and LAPACK of Debian's OpenBLAS, whatever this machine's alternatives say.
    local blas=$system/openblas-pthread
    for file in /usr/bin/octave-cli "$blas"/lib{blas,lapack}.so.3; do
        LD_LIBRARY_PATH=$blas ldd "$file"
    done | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u >"$tree/../needs"
    for name in "${loaders[@]}"; do
        file=$(find -L /lib/x86_64-linux-gnu -maxdepth 1 -name "$name.so.[0-9]*" | sort | head -1)
        [ -z "$file" ] || cp -L "$file" "$tree/base/$(objdump -p "$file" | awk '$1 == "SONAME" { print $2 }')"
    done
    cp -L /lib64/ld-linux-x86-64.so.2 "$tree/base/"
    while read -r name file; do
        [ -e "$tree/base/$name" ] || cp -L "$file" "$tree/lib/$name"
    done <"$tree/../needs"
    cp -L "$blas"/lib{blas,lapack}.so.3 "$tree/lib/"
    cp -L /usr/bin/octave-cli "$tree/bin/"
    cp -r "/usr/share/octave/$version/m" "$tree/share/octave/$version/"
    find "$tree/share" -name '*.tst' -delete
    say "compressing $(du -sm "$tree" | cut -f1) MB"
    tar -C "$tree/.." -cf - octave | xz -T2 --x86 --lzma2=preset="$2",dict=64MiB >"$1.new"
    rm -rf "$tree"
    mv "$1.new" "$1"
}

build_into() {
    mkdir -p "$1"
    DIR=$(cd "$1" && pwd)
    # shellcheck source=scripts/setting.sh
    . "$(dirname "${BASH_SOURCE[0]}")/setting.sh"
    "$ROOT/scripts/setup.sh" clients
    build
    rm -rf "${DIR:?}"/{bin,lib}
    mkdir -p "$DIR"/{bin,lib}
    local preset=${PACK_PRESET:-6} file size
    local packed=$TARGET/octave-$preset.tar.xz
    for file in /usr/bin/octave-cli /usr/lib/x86_64-linux-gnu/libopenblas.so.0 "$ROOT/scripts/gpu-octave.sh"; do
        [ "$packed" -nt "$file" ] || rm -f "$packed"
    done
    [ -e "$packed" ] || pack "$packed" "$preset"
    cp "$packed" "$DIR/octave.tar.xz"
    cp "$COMMAND" "$DIR/bin/"
    cp "$LIBRARY" "$DIR/lib/"
    strip "$DIR"/bin/* "$DIR"/lib/*.so
    cp "$ROOT"/bench/{octave.py,octave.m,run.py,pairs.py,memory.py} "$ROOT/scripts/gpu-octave.sh" "$DIR/"
    sides "$DIR"
    size=$(du -sm "$DIR" | cut -f1)
    [ "$size" -lt 60 ] || [ "$preset" -lt 6 ] || fail "$DIR has $size MB, 60 are the limit"
    say "$DIR: $size MB"
}

case ${1:-} in
build)
    [ $# = 2 ] || usage
    build_into "$2"
    ;;
run | pairs)
    [ $# -ge 2 ] || usage
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    [ -e "$here/octave.py" ] || { echo "gpu-octave.sh: run the copy in the folder that 'build' made" >&2; exit 2; }
    [ "$1" = run ] && program=octave || program=pairs
    exec python3 -u "$here/$program.py" "${@:2}"
    ;;
*) usage ;;
esac
