"""What faulthandler says of a crash, in a program that computes with NumPy.

    dumps.py segv|null|overflow|wild|abort|late|none
"""

import ctypes
import faulthandler
import os
import signal
import sys

import numpy as np

what = sys.argv[1]
if what != "late":
    faulthandler.enable()
a = np.arange(120 * 120, dtype=float).reshape(120, 120) % 7
for _ in range(5):
    c = a @ a
    c = c @ a % 5
    print(c.sum(), flush=True)
if what == "late":
    faulthandler.enable()
d = a @ a
print(faulthandler.is_enabled(), d[3, 4], flush=True)
# A dump that is asked for, in the middle of results.
faulthandler.register(signal.SIGUSR1, file=sys.stdout)
d = a @ a
os.kill(os.getpid(), signal.SIGUSR1)
print(d.sum(), flush=True)
d = a @ a


def crash():
    if what == "segv":
        faulthandler._sigsegv()
    elif what == "null":
        faulthandler._read_null()
    elif what == "overflow":
        faulthandler._stack_overflow()
    elif what == "abort":
        os.abort()
    elif what != "none":
        ctypes.string_at(77)


crash()
