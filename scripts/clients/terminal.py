"""Runs a program in a terminal of its own, types Ctrl-C once it printed "started", says how it ended.

    terminal.py PROGRAM ARGS...
"""

import os
import pty
import select
import signal
import sys
import time

LIMIT = 600  # seconds for each of: start, end

pid, terminal = pty.fork()
if pid == 0:
    # A background job of a script is started with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])

seen = b""


def read_until(deadline, wanted):
    """Reads until `wanted` was printed, the terminal closed, or the time is over."""
    global seen
    while time.monotonic() < deadline and (wanted is None or wanted not in seen):
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the terminal is closed: the program has ended
                return
            if not data:
                return
            seen += data


def end(text, status):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print(f"{text}; it printed {seen[-2000:]!r}")
    sys.exit(status)


read_until(time.monotonic() + LIMIT, b"started")
if b"started" not in seen:
    end("it did not start", 1)
time.sleep(0.5)  # into the computation
os.write(terminal, b"\x03")
deadline = time.monotonic() + LIMIT
while time.monotonic() < deadline:
    read_until(time.monotonic() + 0.2, None)
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        if os.WIFSIGNALED(status):
            print("killed by", signal.Signals(os.WTERMSIG(status)).name)
        else:
            print("status", os.WEXITSTATUS(status))
        sys.exit(0)
end("Ctrl-C did not end it", 1)
