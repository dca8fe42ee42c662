#!/bin/bash
# R, Octave, pytest and a gfortran program, each of which installs its own SIGSEGV handler after the library's. Under
# the preload and the hard setting they start, print the results of the plain run, react to Ctrl-C and end. Octave's own
# tests of matrix functions and R's own tests of its BLAS pass and fail as in the plain run.
#
#   r_octave.sh [--quick]     --quick: fewer of Octave's tests
set -euo pipefail
. "$(dirname "$0")/../setting.sh"
quick=''
[ "${1:-}" = --quick ] && quick=1
build
legacy_clients
dir=$(fresh r_octave)
python=$PYTHON
cd "$dir"

cat >a.R <<'END'
n <- 150; i <- matrix(rep(0:(n - 1), n), n); j <- t(i)
a <- (3 * i + 5 * j) %% 7 - 3; b <- (2 * i + 7 * j) %% 5 - 2
p <- a %*% b; p[3, 4] <- p[3, 4] + 1; q <- crossprod(p, a); v <- a %*% rep(1, n)
cat(sum(p * i), sum(q * j), sum(v), "\n")
s <- a + t(a) + 900 * diag(n)
cat(sprintf("%.6f\n", 1e4 + sum(abs(solve(s, b)) * i)))
bad <- function() .Fortran("dgemm", "N", "N", 9L, 9L, 9L, 1, a, 1L, b, 9L, 0, p, 9L)
cat(tryCatch({ bad(); "no error" }, error = conditionMessage), "\n")
cat(tryCatch(stop("own"), error = conditionMessage), "\n")
END
# Forks: the newest bytes of data that a child inherits may be on a device only. Processes of a socket cluster start
# anew.
cat >parallel.R <<'END'
library(parallel)
n <- 150; i <- matrix(rep(0:(n - 1), n), n); j <- t(i)
a <- (3 * i + 5 * j) %% 7 - 3; b <- (2 * i + 7 * j) %% 5 - 2
p <- a %*% b
child <- function(k) { p[k, k] <- k; q <- p %*% a; c(sum(p * i), sum(q * j), k) }
cat(unlist(mclapply(1:6, child, mc.cores = 2)), "\n")
q <- (p %% 11) %*% b
cat(unlist(mclapply(1:3, function(k) sum(q * (i + k * j)), mc.cores = 3, mc.preschedule = FALSE)), sum(p * j), "\n")
job <- mcparallel(sum(((q %% 5) %*% a) * i)); s <- sum(((q %% 3) %*% b) * j); cat(mccollect(job)[[1]], s, "\n")
cat(system("echo from a shell", intern = TRUE), "\n")
END
cat >a.m <<'END'
n = 150; i = repmat((0:n-1)', 1, n); j = i';
a = mod(3*i + 5*j, 7) - 3; b = mod(2*i + 7*j, 5) - 2;
p = a*b; p(3,4) += 1; q = p'*a; v = a*ones(n,1);
printf("%d %d %d\n", sum(sum(p.*i)), sum(sum(q.*j)), sum(v));
c = single(a)*single(b); z = (a+1i*b)*(b-1i*a);
printf("%d %d %d\n", sum(sum(double(c).*i)), real(sum(sum(z))), imag(sum(sum(z))));
s = a + a' + 900*eye(n); printf("%.6f\n", 1e4 + sum(sum(abs(s\b).*i)));
try; error("own"); catch e; disp(e.message); end
END
cat >test_a.py <<'END'
import faulthandler
import numpy as np

def test_product():
    a = (np.arange(90000).reshape(300, 300) % 7 - 3).astype(float)
    assert np.array_equal(a @ a, (a.astype(int) @ a.astype(int)).astype(float))

def test_handler_is_theirs():
    assert faulthandler.is_enabled()

def test_failure_is_reported():
    try:
        assert False
    except AssertionError:
        pass
END

# The same programs in endless loops; each prints a line when it has started.
cat >forever.R <<'END'
a <- matrix(1, 200, 200); cat("started\n"); flush(stdout())
repeat { b <- a %*% a; b[1] <- 0; s <- sum(b) }
END
cat >forever.m <<'END'
a = ones(200); printf("started\n"); fflush(stdout);
while true; b = a*a; b(1) = 0; s = sum(sum(b)); end
END
cat >test_forever.py <<'END'
import sys
import numpy as np

def test_for_ever():
    a = np.ones((200, 200))
    print("started", file=sys.__stderr__, flush=True)
    while True:
        b = a @ a
        b[0] = 0
        s = b.sum()
END
cat >forever.f90 <<'END'
program forever
  implicit none
  integer, parameter :: n = 200
  double precision, allocatable :: a(:, :), b(:, :)
  allocate (a(n, n), b(n, n))
  a = 1
  print '(a)', 'started'
  flush (6)
  do
    call dgemm('N', 'N', n, n, n, 1d0, a, n, a, n, 0d0, b, n)
    b(1, 1) = 0
    if (sum(b) < 0) exit
  end do
end program forever
END
gfortran -O1 -o forever_f forever.f90 -lblas

R=(R --vanilla --no-echo)
octave=(octave-cli --no-init-file --quiet)
pytest=("$python" -m pytest -q -p no:cacheprovider)
hard() { # hard NAME COMMAND...
    local name=$1
    shift
    preloaded "$dir/reports/$name" "${HARD[@]}" "SEMCACHE_DEVICES=$(machine 2)" -- "$@"
}

# without_times FILE: pytest's summary ends in seconds, and from a minute on also in minutes.
without_times() { sed -E 's/ in [0-9.]+s( \([0-9:]+\))?//' "$1"; }

# computes NAME COMMAND...: status 0 and the same output, in a plain run and under the preload.
computes() {
    local name=$1
    shift
    "$@" >"$name.plain" 2>&1 || { cat "$name.plain"; fail "$name: plain run"; }
    hard "$name" "$@" >"$name.out" 2>&1 || { cat "$name.out"; fail "$name: status under the preload"; }
    diff <(without_times "$name.plain") <(without_times "$name.out") || fail "$name: other output than plain"
    say "$name computes as plain"
    sum "$dir/reports/$name" offloaded cache.closes faults
}
computes R "${R[@]}" --file=a.R
computes parallel "${R[@]}" --file=parallel.R
computes octave "${octave[@]}" a.m
computes pytest "${pytest[@]}" test_a.py
computes gfortran "$TARGET/legacy/cg_f" 1000

# interrupted NAME COMMAND...: Ctrl-C in a terminal while the program computes ends it as in a plain run. terminal.py
# gives the program a terminal of its own, types Ctrl-C after "started" and prints how the program ended.
interrupted() {
    local name=$1 plain ours
    shift
    plain=$(python3 "$ROOT/scripts/clients/terminal.py" "$@") || fail "$name: Ctrl-C, plain run: $plain"
    ours=$(hard "$name.ctrl-c" python3 "$ROOT/scripts/clients/terminal.py" "$@") || fail "$name: Ctrl-C: $ours"
    [ "$plain" = "$ours" ] || fail "$name: Ctrl-C: plain '$plain', under the preload '$ours'"
    say "$name takes Ctrl-C as plain: $ours"
}
interrupted R "${R[@]}" --file=forever.R
interrupted octave "${octave[@]}" forever.m
interrupted pytest "${pytest[@]}" -s test_forever.py
interrupted gfortran ./forever_f

# R's own tests of its BLAS: missing values, infinities, extents of zero.
regression=$CACHE/src/r-base/tests/reg-BLAS.R
[ -e "$regression" ] || fail "no $regression: run scripts/setup.sh"
"${R[@]}" --file="$regression" >reg.plain 2>&1 || { tail reg.plain; fail "reg-BLAS.R: plain run"; }
hard reg "${R[@]}" --file="$regression" >reg.out 2>&1 || { tail reg.out; fail "reg-BLAS.R: status under the preload"; }
diff reg.plain reg.out || fail "reg-BLAS.R: other output than plain"
say "reg-BLAS.R: as plain"
# No page is made inaccessible: the matrices are small, and share their pages with R's headers of vectors.
sum "$dir/reports/reg" offloaded

# Octave's own tests: one line for each file of tests, with the number of tests that pass and the number of all.
cat >tests.m <<'END'
warning("off", "all");
names = strsplit(getenv("OCTAVE_TESTS"), " ");
passed = all = 0;
for i = 1:numel(names)
  rand("seed", 1); randn("seed", 1);
  p = n = 0;
  try [p, n] = test(names{i}, "quiet"); catch e, printf("%s: %s\n", names{i}, e.message); end
  if isempty(p), p = n = 0; end
  printf("%s: %d of %d\n", names{i}, p, n);
  passed += p; all += n;
end
printf("all: %d of %d\n", passed, all);
END
functions="chol det eig expm qr svd inv lu schur hess balance qz sylvester kron pinv null orth rank cond norm logm sqrtm givens dot
    gsvd pcg gmres bicg cgs pcr bicgstab qmr tfqmr eigs svds normest condest ols lscov glsfit linsolve krylov housh planerot
    trace vecnorm commutation_matrix conv conv2 filter lsode quad fsolve fminunc fminsearch glpk qp sqp cov corr polyfit"
[ -z "$quick" ] || functions="chol det eig expm qr svd inv lu schur pinv kron norm logm sqrtm dot pcg lscov"
files=$(find /usr/share/octave/*/etc/tests \( -name 'mul*.tst' -o -name 'dMatrix.cc-tst' -o -name 'matrix*.tst' -o -name 'mtimes*' \
    -o -name 'xpow*' -o -name 'blas*' -o -name 'xdiv*' -o -name 'diag-perm.tst' -o -name 'sparse.tst' \) | sort)
# shellcheck disable=SC2086 # words
OCTAVE_TESTS=$(echo $files $functions)
export OCTAVE_TESTS
"${octave[@]}" tests.m >tests.plain 2>&1 || { tail -5 tests.plain; fail "Octave's tests: plain run"; }
hard tests "${octave[@]}" tests.m >tests.out 2>&1 || { tail -5 tests.out; fail "Octave's tests: status under the preload"; }
diff tests.plain tests.out || fail "Octave's tests: other results than plain"
say "Octave's tests as plain: $(grep '^all:' tests.plain)"
# No page is made inaccessible: the matrices are small, and share their pages with other data.
sum "$dir/reports/tests" offloaded
