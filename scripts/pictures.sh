#!/bin/bash
# Makes the pictures in docs/: of the demo, and of the page that it writes in a browser (Debian: chromium) at two widths. That of
# `semcache top` is made by its tests (SEMCACHE_GOLDEN=write cargo test -p semcache-cli top::).
set -euo pipefail
. "$(dirname "$0")/setting.sh"
build
dir=$(fresh pictures)
"$ROOT/scripts/demo.sh" >"$dir/demo" 2>&1 || fail "the demo: $(cat "$dir/demo")"
python3 - "$dir/demo" "$ROOT" >"$ROOT/docs/demo.svg" <<'PYTHON'
import sys
from html import escape

text = open(sys.argv[1]).read().replace(sys.argv[2] + "/", "")
lines = [line.expandtabs() for line in text.splitlines()]
width, high = 8 * max(map(len, lines)) + 24, 17
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {high * len(lines) + 24}" font-family="monospace" font-size="13.3">')
print('<rect width="100%" height="100%" rx="6" fill="#15181d"/>')
for at, line in enumerate(lines):
    color = "#8fb8ff" if line.startswith("== ") else "#7ee2a8" if line.startswith("semcache: ") else "#d8dde4"
    print(f'<text x="12" y="{high * at + 26}" fill="{color}" xml:space="preserve" textLength="{8 * len(line)}">{escape(line)}</text>')
print("</svg>")
PYTHON
page=$TARGET/suites/demo/jacobi.html
[ -e "$page" ] || fail "the demo has not written $page"
for picture in wide:1280,2870 narrow:400,2700; do
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="${picture#*:}" \
        --screenshot="$ROOT/docs/report-${picture%:*}.png" "file://$page" 2>"$dir/chromium" || fail "chromium: $(tail -3 "$dir/chromium")"
done
say "docs/demo.svg, docs/report-wide.png, docs/report-narrow.png"
