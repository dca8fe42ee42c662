#!/bin/bash
# Random programs against their right answer: see ../fuzz.sh.
#
#   fuzz.sh [--quick] [PROGRAMS [FIRST]]      default 10000 programs from seed 1; --quick: 300
set -euo pipefail
programs=10000
[ "${1:-}" = --quick ] && programs=300 && shift
exec "$(dirname "$0")/../fuzz.sh" "${1:-$programs}" "${2:-1}"
