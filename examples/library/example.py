"""What the examples share: the size, a clock, counts of what was moved, and BLAS. None of it is needed to use semcache.py."""

import contextlib
import ctypes
import sys
import time

import numpy as np
import semcache


def order(otherwise):
    """The order of the matrices: the program's argument. Brings devices and their BLAS up, so that the first variant does not pay for
    it; without the library that does nothing."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else otherwise
    if not 1 <= n <= 46340:
        raise SystemExit(f"usage: {sys.argv[0]} [N]")
    a = np.ones((512, 512))
    if semcache.prefetch(a).wait() == semcache.Status.OK:
        a @ a  # pylint: disable=pointless-statement
    return n


def host_work(n):
    """What a program has to do on the host besides."""
    part = np.arange(1 << 16)
    return sum(float(np.sqrt((part + i) & 1023).sum()) for i in range(0, 8 * n * n, len(part)))


def integers(n, p, q, modulus):
    """A matrix of integers between -modulus / 2 and modulus / 2, by columns."""
    i = np.arange(n)
    return np.asfortranarray((p * i[:, None] + q * i[None, :]) % modulus - modulus // 2, dtype=float)


def checksum(of):
    """A sum in which every row and column counts."""
    rows, columns = np.arange(of.shape[0]) % 13 + 1.0, np.arange(of.shape[-1]) % 11 - 5.0
    return float((rows * of).sum() if of.ndim == 1 else np.einsum("i,ij,j", rows, of, columns))


def yes(condition):
    """For a line of the output."""
    return "yes" if condition else "NO"


@contextlib.contextmanager
def metered(what):
    """Prints seconds and bytes of the `with` block."""
    before, begun = semcache.statistics(), time.perf_counter()
    yield
    seconds, after = time.perf_counter() - begun, semcache.statistics()
    of = {key: after.get(key, 0) - before.get(key, 0) for key in ("h2d", "d2h", "p2p", "offloaded", "faults")}
    print(f"{what}: {seconds:.3f} s; {of['h2d'] / 1e6:.1f} MB to devices, {of['d2h'] / 1e6:.1f} MB to the host, {of['p2p'] / 1e6:.1f} MB "
          f"between devices; {of['offloaded']} calls on devices, {of['faults']} faults", file=sys.stderr)


class Blas:
    """What NumPy lacks of BLAS, by ctypes: products that add to their result, and triangular solves. Matrices are by columns, and may be
    parts of others."""

    def __init__(self):
        try:
            # The BLAS of the process: the library's, if it is there.
            process = ctypes.CDLL(None)
            self._dgemm, self._dtrsm = process.dgemm_, process.dtrsm_
        except AttributeError:
            own = ctypes.CDLL("libblas.so.3")
            self._dgemm, self._dtrsm = own.dgemm_, own.dtrsm_

    @staticmethod
    def _call(function, flags, *arguments):
        passed = [ctypes.c_char_p(flag.encode()) for flag in flags]
        for argument in arguments:
            if isinstance(argument, int):
                passed.append(ctypes.byref(ctypes.c_int(argument)))
            elif isinstance(argument, float):
                passed.append(ctypes.byref(ctypes.c_double(argument)))
            else:
                rows, step = argument.shape[0], argument.strides[1] // argument.itemsize
                assert argument.ndim == 2 and argument.dtype == float and (rows <= 1 or argument.strides[0] == argument.itemsize)
                passed += [ctypes.c_void_p(argument.ctypes.data), ctypes.byref(ctypes.c_int(max(step, rows, 1)))]
        # Fortran's lengths of the flags.
        function(*passed, *[ctypes.c_size_t(1)] * len(flags))

    def gemm(self, alpha, a, b, beta, c):
        """C = alpha A B + beta C."""
        self._call(self._dgemm, "NN", *c.shape, a.shape[1], alpha, a, b, beta, c)

    def trsm(self, flags, a, b):
        """B = A^-1 B, or B A^-1: side, triangle, transpose and diagonal are flags."""
        self._call(self._dtrsm, flags, *b.shape, 1.0, a, b)
