#!/bin/bash
# Things that the library must never do: read from the current folder, write through links, load or write files that a
# user names in a process with more rights than the user's, leave memory writable and executable.
#
#   security.sh [--quick]     --quick changes nothing
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
build
dir=$(fresh security)
# A folder outside those that other users cannot enter. The X are mktemp's template.
open=$(mktemp -d /tmp/semcache-security-XXXXXX) # mktemp's template
trap 'rm -rf "$open"' EXIT
chmod 755 "$open"
source=$ROOT/tests/edge
export OPENBLAS_NUM_THREADS=1
obtain "$dir/secure" gcc -O2 -g -Wall -Wextra -o "$dir/secure" "$source/secure.c" -lblas -lm
# Linked with the library itself, at a path that the administrator chooses.
cp "$LIBRARY" "$open/"
obtain "$dir/secure_linked" gcc -O2 -g -Wall -Wextra -o "$dir/secure_linked" "$source/secure.c" \
    -L"$open" -Wl,-rpath,"$open" -lsemcache_blas -lm
obtain "$dir/evil.so" gcc -shared -fPIC -Wall -Wextra -x c -o "$dir/evil.so" - <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void)
{
    static const char said[] = "evil was loaded\n";
    if (write(2, said, sizeof said - 1) < 0)
        _exit(66);
}
END
clients_built
cd "$dir"
DEVICES=$(machine 1)
run() { env "${HARD[@]}" "SEMCACHE_DEVICES=$DEVICES" "LD_PRELOAD=$LIBRARY" "$@"; }

# No mapping is writable and executable that is not in a plain run.
status=0
./secure maps >maps.plain || status=$?
[ $status = 7 ] || fail "plain: status $status"
for gate in auto mprotect wp-async eager; do
    status=0
    run SEMCACHE_GATE=$gate ./secure maps >maps.out 2>maps.stderr || status=$?
    [ $status = 7 ] && cmp maps.plain maps.out || { diff maps.plain maps.out || true; fail "mappings under $gate: status $status"; }
done
say "no memory is writable and executable"

# Reports: readable by their owner only, whatever the umask is; replaced, never written through a link; no temporary
# file stays.
reports=$dir/reports
mkdir "$reports"
mode_of() { stat -c %a "$1"; }
(umask 0; run SEMCACHE_REPORT="$reports/one.json" ./secure rights >/dev/null) || true
[ -s "$reports/one.json" ] && [ "$(mode_of "$reports/one.json")" = 600 ] || fail "the report: $(ls -l "$reports")"
echo mine >"$reports/old.json"
chmod 644 "$reports/old.json"
ln "$reports/old.json" "$reports/kept"
run SEMCACHE_REPORT="$reports/old.json" ./secure rights >/dev/null || true
[ "$(mode_of "$reports/old.json")" = 600 ] && [ "$(cat "$reports/kept")" = mine ] || fail "a report is written into a file that exists"
echo mine >"$reports/target"
for link in target nowhere; do
    ln -s "$link" "$reports/link.$link"
    run SEMCACHE_REPORT="$reports/link.$link" ./secure rights >/dev/null 2>link.stderr || true
    grep -q "cannot write the report $reports/link.$link" link.stderr && [ -L "$reports/link.$link" ] || fail "a link to $link: $(cat link.stderr)"
done
[ "$(cat "$reports/target")" = mine ] && [ ! -e "$reports/nowhere" ] || fail "a report went through a link"
for path in /dev/stdout /dev/stderr /dev/fd/1 /proc/self/fd/1 /dev/null; do
    run SEMCACHE_REPORT=$path ./secure rights 2>link.stderr | cat >out.txt || true
    [ "$(wc -l <out.txt)" = 2 ] && grep -q "cannot write the report $path" link.stderr || fail "$path: $(cat out.txt link.stderr)"
done
# A report to a fifo could block, and one to a socket fail.
mkfifo "$reports/fifo"
run SEMCACHE_REPORT="$reports/fifo" timeout -s KILL "$HANG" ./secure rights >/dev/null 2>link.stderr || [ $? = 7 ] || fail "a report to a fifo hangs"
[ -p "$reports/fifo" ] || fail "a report replaces a fifo"
# The temporary file beside the report: a link at its path is not followed either, whatever the process's id is.
echo mine >"$reports/target"
(
    ln -s target "$reports/beside.$BASHPID.tmp"
    exec env "${HARD[@]}" "SEMCACHE_DEVICES=$DEVICES" "LD_PRELOAD=$LIBRARY" "SEMCACHE_REPORT=$reports/beside" ./secure rights >/dev/null
) || true
[ "$(cat "$reports/target")" = mine ] && [ ! -L "$reports/beside" ] || fail "a link beside the report was followed"
[ "$(find "$reports" -name '*.tmp' | wc -l)" = 0 ] || fail "left over: $(ls "$reports")"
say "reports: 0600, never through a link"

# No file is read from the current folder, also not by names that the variables leave relative or empty.
mkdir -p decoys/{lib64,bin,lib/python3.11/site-packages/nvidia/cublas/lib}
for name in libblas.so.3 libopenblas.so.0 libcuda.so.1 libcublas.so.12 libcublas.so.13 libcudart.so.13 libnvrtc.so.13 liblapack.so.3; do
    for at in . lib64 lib bin lib/python3.11/site-packages/nvidia/cublas/lib; do cp evil.so "decoys/$at/$name"; done
done
printf '#!/bin/sh\necho evil was run >&2\n' >decoys/bin/python3
chmod +x decoys/bin/python3
ln -s bin/python3 decoys/python3
for command in "env SEMCACHE_DEVICES=cuda" "env SEMCACHE_DEVICES=auto" "env SEMCACHE_DEVICES=cuda CUDA_HOME=. CUDA_PATH= VIRTUAL_ENV=. CONDA_PREFIX=. PATH=:.:bin:$PATH"; do
    (
        cd decoys
        # shellcheck disable=SC2086
        SEMCACHE_OFFLOAD=always LD_PRELOAD=$LIBRARY strace -f -o ../trace.txt -e trace=execve,open,openat,stat,newfstatat,access,readlink $command ../secure rights >../out.txt 2>../err.txt ||
            [ $? = 7 ]
    ) || fail "$command: $(cat err.txt)"
    if grep -q evil err.txt; then fail "$command: something of the current folder was used"; fi
    # Every name that was looked up begins with a slash, except the program's own.
    if grep -oE '(open|openat|stat|newfstatat|access)\((AT_FDCWD, )?"[^/"][^"]*"' trace.txt | grep -v '"\.\./secure"'; then
        fail "$command: a name relative to the current folder"
    fi
done
# doctor's exit status is 1 on a machine that has no GPU.
(cd decoys && PATH=:.:bin:$PATH SEMCACHE_LIB=$LIBRARY "$COMMAND" doctor) >doctor.txt 2>&1 || [ $? = 1 ] || fail "doctor: $(cat doctor.txt)"
if grep evil doctor.txt; then fail "doctor uses the current folder"; fi
say "nothing is read from the current folder"

# In a process with more rights than the user's, the dynamic linker decides about preloading, and a program that is
# linked with the library takes no path from its user. Needs root, and a file system that honours the set-user-id bit.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp secure secure_linked "$open/"
    chmod 4755 "$open/secure" "$open/secure_linked"
    cp evil.so "$open/"
    mkdir -p "$open/user/cuda/lib64" "$open/user/lib"
    chmod 777 "$open/user"
    for name in libcublas.so.12 libcublas.so.13; do cp evil.so "$open/user/cuda/lib64/$name" && cp evil.so "$open/user/lib/$name"; done
    user() { # PROGRAM: as the user nobody, with all variables that a user could set
        (cd "$open/user" && setpriv --reuid=65534 --regid=65534 --clear-groups env "${HARD[@]}" "SEMCACHE_DEVICES=${2:-$DEVICES}" \
            SEMCACHE_HOST_BLAS="$open/evil.so" SEMCACHE_REPORT="$open/user/report.json" SEMCACHE_TRACE="$open/user/trace.json" \
            SEMCACHE_RATES="$open/user/no-rates" CUDA_HOME="$open/user/cuda" CUDA_PATH="$open/user/cuda" VIRTUAL_ENV="$open/user" CONDA_PREFIX="$open/user" \
            LD_PRELOAD="$LIBRARY" "$1" rights)
    }
    if ! user "$open/secure" >out.txt 2>err.txt && grep -q '^secure 1, real 65534, effective 0$' out.txt; then
        grep -v "cannot be preloaded" err.txt && fail "setuid: $(cat err.txt)"
        for devices in "$DEVICES" auto cuda; do
            user "$open/secure_linked" "$devices" >linked.txt 2>err.txt || [ $? = 7 ] || fail "setuid, linked: $(cat err.txt)"
            cmp out.txt linked.txt || fail "setuid, linked, $devices"
            if grep evil err.txt; then fail "setuid, linked, $devices: a user's library was loaded"; fi
            if grep no-rates err.txt; then fail "setuid, linked, $devices: a user's rates were read"; fi
        done
        [ -z "$(find "$open/user" -name '*json*')" ] || fail "setuid: a user's path was written: $(ls -l "$open/user")"
        # Without the bit the same variables have their effect: so the test can fail.
        chmod 755 "$open/secure_linked"
        user "$open/secure_linked" >linked.txt 2>err.txt || [ $? = 7 ] || fail "linked: $(cat err.txt)"
        grep -q evil err.txt && grep -q no-rates err.txt && [ -s "$open/user/report.json" ] || fail "a plain user's variables do not count: $(cat err.txt)"
        say "more rights than the user's: no path of the user's counts"
    else
        say "no setuid programs here: not tested ($(cat out.txt err.txt))"
    fi
fi
