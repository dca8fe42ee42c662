#!/bin/bash
# Debian's Python runs its own tests of files, sockets, mappings and processes with large buffers that are BLAS results
# on inaccessible pages (tests/clients/closed): every test ends as it does with the same buffers and no preload.
#
#   python_io.sh [--quick]     --quick: test_io, test_socket and test_mmap alone
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
[ -z "$PREBUILT" ] || { say "python_io: not on this machine"; exit 0; }
quick=''
[ "${1:-}" = --quick ] && quick=1
"$ROOT/scripts/setup.sh" python
build
clients_built
dir=$(fresh python_io)
cd "$dir"
modules=(${MODULES:-test_io test_socket test_mmap})
[ -n "$quick" ] || modules+=(test_os test_subprocess test_signal test_fileio test_bufio test_posix test_memoryio test_asyncio
    test_multiprocessing_fork test_multiprocessing_spawn test_faulthandler test_select test_selectors test_ssl test_zipfile)

# Tests of sockets between virtual machines never end on some machines; the other one resets the connection on a busy
# machine.
not=(-i '*VSOCK*' -i '*testWithTimeoutTriggeredSend*')

# outcomes FILE: prints each test of a report with its outcome, sorted. (The tests' output is not used: child processes
# write into it.)
outcomes() {
    python3 - "$1" <<'END_OF_PYTHON'
import sys, xml.etree.ElementTree as xml
for line in sorted(f'{t.get("name")} {" ".join(c.tag for c in t) or "ok"}' for t in xml.parse(sys.argv[1]).iter("testcase")): print(line)
END_OF_PYTHON
}

for module in "${modules[@]}"; do
    for way in plain preload; do
        variables=("PYTHONPATH=$ROOT/tests/clients/closed" CLOSE_BYTEARRAYS=1)
        [ $way = plain ] || variables+=("${HARD[@]}" "SEMCACHE_DEVICES=$(machine 1)" "SEMCACHE_REPORT=$dir/reports/$module/%p.json" "LD_PRELOAD=$LIBRARY")
        mkdir -p "reports/$module" "work.$way"
        (cd "work.$way" && env "${variables[@]}" timeout 900 /usr/bin/python3 -m test -v --junit-xml "$dir/$module.$way.xml" "${not[@]}" "$module" \
            >"../$module.$way.log" 2>&1 </dev/null) || true
        outcomes "$module.$way.xml" >"$module.$way" || { tail -40 "$module.$way.log"; fail "$module, $way: no report"; }
    done
    [ -s "$module.plain" ] || { tail "$module.plain.log"; fail "$module: no tests"; }
    diff "$module.plain" "$module.preload" || { tail -40 "$module.preload.log"; fail "$module under the preload"; }
    say "$module: $(wc -l <"$module.plain") tests, $(grep -c ' ok$' "$module.plain") of them passed, as plainly"
done
mkdir all
for report in reports/*/*.json; do cp "$report" "all/$(basename "$(dirname "$report")").$(basename "$report")"; done
sum all offloaded cache.closes
