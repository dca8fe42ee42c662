# Sourced by edge.sh: signals, resource limits and kinds of memory in all their forms; allocators, sanitizers,
# interpreters, virtual machines and debuggers in the same process.

all=("${settings[@]}")
trapping=()
for setting in "${all[@]}"; do [[ $setting == *eager ]] || trapping+=("$setting"); done

for what in flags statics blocks; do expected=0 same "crashes_$what" offloaded cache.closes -- ./crashes $what; done
# With SEMCACHE_GATE=eager the runtime installs no SIGSEGV handler, and a fault in freed memory of its reserved range,
# which is protected and not unmapped, has another signal code than in a plain run.
settings=("${trapping[@]}")
expected=0 same crashes_freed offloaded cache.closes faults -- ./crashes freed
# Not with SEMCACHE_GATE=eager: there each BLAS call of the timer's handler waits for the write-back of its results,
# which the late mode delays, and the handler would take nearly all of the time.
expected=0 same interrupted offloaded cache.closes faults -- ./interrupted
expected=0 same deferred offloaded cache.closes -- ./deferred
# In the default setting, with matrices that stay on the host: large blocks are allocated and freed in the same way.
hard=("${HARD[@]}") HARD=()
for what in interrupted deferred; do expected=0 same "${what}_default" -- ./$what; done
HARD=("${hard[@]}")
settings=("${all[@]}")
same stacks offloaded cache.closes faults -- ./stacks
for what in made switched; do expected=0 same "contexts_$what" offloaded cache.closes faults -- ./contexts $what; done
# With panels of 2 MiB, as large as a whole stack.
more=(SEMCACHE_PANEL=2MiB)
for what in made switched; do expected=0 same "contexts_${what}_large" offloaded -- ./contexts $what; done
more=()

same shared offloaded cache.closes faults -- ./shared
# The number of huge pages is a setting of the whole machine; it is raised to the number needed, and restored
# afterwards.
huge=$(cat /proc/sys/vm/nr_hugepages 2>/dev/null || echo 0)
if chosen shared_huge; then
    { [ "$huge" -ge 4 ] || echo $((huge + 4)) >/proc/sys/vm/nr_hugepages; } 2>/dev/null || true
    status=0
    "${WITHIN[@]}" ./shared huge >/dev/null 2>&1 || status=$?
    if [ $status = 77 ]; then
        say "shared_huge: skipped, the kernel gives no huge pages"
    else
        same shared_huge offloaded cache.closes faults -- ./shared huge
    fi
    { echo "$huge" >/proc/sys/vm/nr_hugepages; } 2>/dev/null || true
fi

same foreign offloaded cache.closes faults -- ./foreign ./foreign_library.so

# Limits on memory count the simulator's memory, too, so it is small.
more=(SEMCACHE_MEMORY=64MiB)
simulated || more=()
same limits_refused offloaded cache.closes faults -- ./limits refused
mappings=$(cat /proc/sys/vm/max_map_count)
same limits_mappings offloaded cache.closes faults -- ./limits mappings $((mappings - 5530))
same limits_memlock offloaded cache.closes faults -- ./limits memlock 0
# If the process runs out of mappings, pages are made inaccessible no more, which one line says.
said='close|mapping|map_count' same limits_exhausted offloaded degraded.map_limit -- ./limits mappings $((mappings - 530))
if simulated; then
    same limits_as offloaded cache.closes faults -- ./limits as 8000
    same limits_data offloaded cache.closes faults -- ./limits data 1000
fi
status=0
./limits locked >/dev/null 2>&1 || status=$?
# A driver maps much more memory than its devices' matrices need, and mlockall fills all of it with pages.
much=1000
simulated || much=20000
[ $status = 77 ] || same limits_locked offloaded cache.closes faults -- ./limits locked $much
more=()
# mlockall does not fill the memory of simulated devices with pages, however much they have.
[ $status = 77 ] || ! simulated || same limits_locked_large offloaded -- ./limits locked

# The CPU and BLAS calls use one panel in turn. Of 1500 calls far fewer than one in ten may find their panel made
# inaccessible again before the CPU's access.
more=(SEMCACHE_PANEL=2MiB)
[ "${SETTING:-hard}" = hard ] || more=()
same progress_turns offloaded cache.closes faults "faults<$((${#trapping[@]} * 150))" -- ./progress turns 1500
for what in reader writer many; do same "progress_$what" offloaded cache.closes faults -- ./progress $what 300; done
more=()
same progress_pages offloaded cache.closes faults -- ./progress many 300

# Two processes at a time.
if chosen progress_two; then
    ./limits none >two.plain
    two=()
    for i in 1 2; do
        preloaded reports/two "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 1)" -- \
            "${WITHIN[@]}" ./limits none >two.$i 2>two.$i.stderr &
        two+=($!)
    done
    for i in 1 2; do
        wait "${two[i - 1]}" && cmp two.plain two.$i && [ ! -s two.$i.stderr ] || fail "two processes: $(cat two.$i.stderr)"
    done
    sum reports/two "reports>=2" offloaded cache.closes faults
    say "two processes: as plain"
fi

# Other allocators, before semcache and behind it in load order. If one comes before, semcache serves no allocations:
# operands are copied at each call, and one line says so.
library=$LIBRARY
for allocator in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2; do
    file=/usr/lib/x86_64-linux-gnu/$allocator name=malloc_${allocator%%.so*}
    if [ ! -e "$file" ]; then
        say "$name: skipped, not installed"
        continue
    fi
    plainly=(env LD_PRELOAD="$file")
    settings=("${all[0]}" "${all[2]}")
    LIBRARY=$file:$library said='another malloc serves' same "${name}_before" offloaded degraded.foreign_malloc -- ./fixed
    LIBRARY=$library:$file said='another malloc serves' same "${name}_behind" offloaded -- ./fixed
    LIBRARY=$library:$file said='another malloc serves' same "${name}_many" offloaded -- ./limits none
    settings=("${all[@]}")
    plainly=()
done
# An allocator that calls a hook while the dynamic linker looks up the libc function behind that hook.
settings=("${all[0]}" "${all[2]}") plainly=(env LD_PRELOAD="$dir/timed.so")
LIBRARY=$dir/timed.so:$library said='another malloc serves' same malloc_timed_before offloaded -- ./fixed
LIBRARY=$library:$dir/timed.so said='another malloc serves' same malloc_timed_behind offloaded -- ./fixed
settings=("${all[@]}") plainly=() LIBRARY=$library

# Programs with the address sanitizer, whose library requires to come first in load order.
asan=$(ldd ./fixed_asan 2>/dev/null | sed -n 's/.*libasan[^ ]* => \([^ ]*\).*/\1/p')
if [ -n "$asan" ]; then
    export ASAN_OPTIONS=detect_leaks=0
    # NVIDIA's driver needs addresses that the sanitizer reserves for itself by default.
    simulated || ASAN_OPTIONS+=:protect_shadow_gap=0
    settings=("${all[0]}" "${all[3]:-${all[2]}}")
    LIBRARY=$asan:$library said='another malloc serves' same asan_fixed offloaded -- ./fixed_asan
    for what in before chain inside masked; do
        LIBRARY=$asan:$library said='another malloc serves' expected=0 same "asan_$what" offloaded -- ./signals_asan $what
    done
    LIBRARY=$asan:$library said='another malloc serves' expected=1 same asan_default -- ./signals_asan default
    LIBRARY=$library
    settings=("${all[@]}")
    unset ASAN_OPTIONS
fi

# The thread sanitizer calls hooks before thread-local variables exist. It does not start on every machine, and its
# reports about the host BLAS's threads do not concern semcache. Only programs that were compiled with it survive the
# start of its library.
tsan=$(ldd ./fixed_tsan 2>/dev/null | sed -n 's/.*libtsan[^ ]* => \([^ ]*\).*/\1/p')
if [ -n "$tsan" ] && simulated && TSAN_OPTIONS=report_bugs=0 ./fixed_tsan >/dev/null 2>&1; then
    export TSAN_OPTIONS=report_bugs=0
    settings=("${all[0]}" "${all[3]:-${all[2]}}")
    within=("${WITHIN[@]}") WITHIN=()
    LIBRARY=$tsan:$library said='another malloc serves' same tsan_fixed offloaded -- ./fixed_tsan
    LIBRARY=$library WITHIN=("${within[@]}")
    settings=("${all[@]}")
    unset TSAN_OPTIONS
else
    say "tsan: skipped, it does not start here"
fi

# Python's faulthandler: it reports a crash as in a plain run, and does not report page faults that semcache serves.
if chosen dumps; then
    # Compared without the addresses of threads and without bash's message.
    anonymous() { sed -E '/: line [0-9]+: .*(Segmentation fault|Aborted) /d; s/0x[0-9a-f]+/ADDRESS/g' "$1"; }
    for what in segv null overflow wild late abort; do
        status=0
        "$PYTHON" "$source/dumps.py" $what >dumps.plain 2>dumps.plain.stderr || status=$?
        wanted=$status status=0
        preloaded reports/dumps "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 1)" -- \
            timeout --foreground "$HANG" "$PYTHON" "$source/dumps.py" $what >dumps.out 2>dumps.stderr || status=$?
        [ $status = "$wanted" ] && diff <(anonymous dumps.plain) <(anonymous dumps.out) &&
            diff <(anonymous dumps.plain.stderr) <(anonymous dumps.stderr) || fail "dumps $what: status $status, expected $wanted"
        grep -q 'most recent call first' dumps.stderr || { cat dumps.plain.stderr; fail "dumps $what: no dump plainly"; }
    done
    preloaded reports/dumps "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 1)" -- "$PYTHON" "$source/dumps.py" none >/dev/null
    sum reports/dumps offloaded cache.closes faults
    say "dumps: as plain"
fi

# A Java program that computes by JNI: the virtual machine itself uses page faults for null checks, stack overflows and
# safepoints.
if chosen java; then
    jdk=$(readlink -f "$(command -v javac)") || jdk=
    jdk=${jdk%/bin/javac}
    if [ -n "$PREBUILT" ] || [ ! -e "$jdk/include/jni.h" ]; then
        say "java: skipped, no JDK"
    else
        mkdir -p java
        "$jdk/bin/javac" -d java "$source/Edge.java"
        gcc -O2 -g -shared -fPIC -I"$jdk/include" -I"$jdk/include/linux" -o java/libedge.so "$source/edge_jni.c" -lblas
        settings=("${all[0]}")
        same java offloaded cache.closes faults -- "$jdk/bin/java" -Xcheck:jni -Xmx128m -Djava.library.path=java -cp java Edge
        settings=("${all[@]}")
    fi
fi

# Under valgrind all calls run on the host BLAS, one line says so, and valgrind finds no uninitialised memory.
if [ -n "$PREBUILT" ] || ! command -v valgrind >/dev/null; then
    say "valgrind: skipped, not there"
else
    settings=("${all[0]}" "${all[3]:-${all[2]}}")
    LD_LIBRARY_PATH=$reference expected=0 said='runs under valgrind; computing on the host' same valgrind \
        degraded.valgrind calls.dgemm.offloaded==0 -- valgrind -q --error-exitcode=9 ./checked
    settings=("${all[@]}")
fi

# Under gdb, which must pass SIGSEGV on (docs/clients.md).
if chosen gdb; then
    if ! gdb -q -nx -batch -ex run -ex 'print $_exitcode' --args true 2>/dev/null | grep -q '= 0'; then
        say "gdb: skipped, not there or not allowed to trace"
    else
        under=(gdb -q -nx -batch -ex 'handle SIGSEGV nostop noprint pass'
            -ex "set exec-wrapper env ${HARD[*]} SEMCACHE_DEVICES=$(machine 1) SEMCACHE_REPORT=$dir/gdb.json LD_PRELOAD=$LIBRARY")
        ./fixed >gdb.plain
        "${WITHIN[@]}" "${under[@]}" -ex 'run >gdb.out' --args ./fixed >gdb.log 2>&1 </dev/null && cmp gdb.plain gdb.out ||
            { cat gdb.log; fail "under gdb"; }
        sum gdb.json offloaded cache.closes faults
        ./signals default >gdb.plain 2>/dev/null || true
        "${WITHIN[@]}" "${under[@]}" -ex 'run default >gdb.out' --args ./signals >gdb.log 2>&1 </dev/null || true
        cmp gdb.plain gdb.out && grep -q 'terminated with signal SIGSEGV' gdb.log || { cat gdb.log; fail "a crash under gdb"; }
        say "gdb: as plain"
    fi
fi
