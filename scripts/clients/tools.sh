#!/bin/bash
# Programs without matrices must not change their behaviour under the preload: same output, same status.
#
#   tools.sh [--quick]
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
build
clients_built
dir=$(fresh tools)
devices=$(machine 1)
cd "$dir"

# same NAME SCRIPT: runs SCRIPT in a fresh directory, in a plain run and under the preload (in the shell and in all
# processes that it starts); output and status must be the same.
same() {
    local name=$1 script=$2 way
    for way in plain preload; do
        rm -rf work && mkdir work
        (
            cd work
            [ $way = preload ] && export LD_PRELOAD=$LIBRARY SEMCACHE_DEVICES="$devices" "${HARD[@]}"
            export HOME=$dir/work GIT_CONFIG_NOSYSTEM=1
            bash -c "$script" >"../$name.$way" 2>&1 </dev/null
            echo "status $?" >>"../$name.$way"
        ) || true
    done
    diff "$name.plain" "$name.preload" || fail "$name behaves differently under the preload"
    grep -q 'status 0' "$name.plain" || { cat "$name.plain"; fail "$name fails plainly"; }
    say "$name: as plain"
}

same tar 'mkdir d && for i in 1 2 3; do seq $((i * 40000)) >d/$i; done && ln d/1 d/4 && ln -s 1 d/5 &&
    tar czf t.tgz --owner=0 --group=0 --mtime=@0 --sort=name d && mkdir x && tar xzf t.tgz -C x && diff -r d x/d &&
    gzip -dc t.tgz | sha256sum && tar tf t.tgz'
same git 'export GIT_AUTHOR_DATE="1000000000 +0000" GIT_COMMITTER_DATE="1000000000 +0000"
    git -c init.defaultBranch=main init -q r && cd r && git config user.email a@b && git config user.name a &&
    for i in 1 2 3; do seq $((i * 5000)) >f$i; git add . ; git commit -qm "c$i"; done &&
    git branch b HEAD~1 && git checkout -q b && echo x >>f1 && git commit -qam d && git merge -q -m m main &&
    git repack -adq && git fsck 2>&1 && git log --oneline && git diff HEAD~2 | sha256sum'
same shell 'for i in $(seq 60); do x=$(/bin/echo $i | cat | (read y; echo $((y * y)))); echo $x; done
    (exit 7); echo $?; sh -c "kill -TERM \$\$" 2>/dev/null; echo $?; ulimit -n; exec /bin/echo done'
same threads 'yes | head -n 200000 | sort | uniq -c; xargs -P 4 -n 1 echo < <(seq 50) | sort -n | sha256sum'
same gcc 'printf "#include <stdio.h>\nint main(void){double s=0;for(int i=1;i<100;i++)s+=1.0/i;printf(\"%%.10f\\\\n\",s);return 0;}\n" >a.c &&
    gcc -O2 -Wall -c a.c && sha256sum a.o && gcc -o a a.o && ./a && gcc -E a.c | wc -l'
same python 'python3 - <<EOP
import subprocess, os, threading, mmap, tempfile, sys
print(subprocess.check_output(["echo", "child"]).decode(), end="")
pid = os.fork()
if pid == 0:
    b = bytearray(8 << 20); b[5] = 1; os._exit(b[5])
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
ts = [threading.Thread(target=lambda: bytes(4 << 20)) for _ in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
with tempfile.TemporaryFile() as f:
    f.write(b"x" * (3 << 20)); f.flush()
    m = mmap.mmap(f.fileno(), 0); m[7] = 65; print(m[7], len(m)); m.close()
big = bytearray(64 << 20); big.extend(b"tail"); print(len(big), bytes(big[-4:]))
sys.exit(0)
EOP'
# A program that makes no BLAS call has the same threads and descriptors as in a plain run.
same quiet 'python3 -c "
import os
print(len(os.listdir(\"/proc/self/task\")))"; ls /proc/self/fd | wc -l'
