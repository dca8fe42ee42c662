"""Drives `semcache top` and `semcache run --progress` in a terminal of their own, and checks that the terminal is as before
afterwards.

    top_terminal.py top END COMMAND PROGRAM_PID    END: q, escape, interrupt, terminate, ended
    top_terminal.py progress COMMAND PROGRAM...
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

LIMIT = 60  # seconds for each thing that is waited for

ENTER, LEAVE, SHOW = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"

master, slave = pty.openpty()
seen = b""


def size(rows, columns):
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def fail(text):
    print(f"{text}; it printed {seen[-3000:]!r}")
    if child.poll() is None:
        child.kill()
    sys.exit(1)


def read(seconds):
    """Reads what comes within this time."""
    global seen
    if select.select([master], [], [], seconds)[0]:
        seen += os.read(master, 65536)


def screen():
    """What the terminal shows: only cells that change are written, at the places that the program names."""
    cells, row, column = {}, 1, 1
    text = seen.decode("utf-8", "ignore")
    for move, clear, other, char in re.findall(r"\x1b\[([\d;]*)H|(\x1b\[2J)|(\x1b\[[?\d;]*[a-zA-Z])|([^\x1b])", text):
        if move:
            row, column = (int(n) for n in move.split(";"))
        elif clear:
            cells = {}
        elif char and not other:
            cells[row, column] = char
            column += 1
    lines = (range(1, 1 + max((c for r, c in cells if r == line), default=0)) for line in range(1, 25))
    return "\n".join("".join(cells.get((i, c), " ") for c in line) for i, line in enumerate(lines, 1))


def wait_for(*wanted, on=screen):
    """Reads until the terminal shows all of `wanted`."""
    begun = time.monotonic()
    while not all(part in on() for part in wanted):
        if time.monotonic() > begun + LIMIT or child.poll() is not None:
            fail(f"no {wanted!r} after {time.monotonic() - begun:.0f} s, status {child.poll()}, but\n{on()}\n")
        read(0.1)


def printed():
    return seen.decode("utf-8", "ignore")


def end(status):
    """Waits for the end, which is to have this status, and for a terminal as it was."""
    deadline = time.monotonic() + LIMIT
    while child.poll() is None:
        if time.monotonic() > deadline:
            fail("it did not end")
        read(0.1)
    read(0.1)
    if child.returncode != status:
        fail(f"status {child.returncode}, not {status}")
    if termios.tcgetattr(slave) != before:
        fail("the terminal has other settings than before")


def start(arguments):
    return subprocess.Popen(
        arguments, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip


size(24, 80)
before = termios.tcgetattr(slave)
what = sys.argv[1]
if what == "progress":
    child = start([sys.argv[2], "run", "--progress", "--devices", "sim:2", "--", *sys.argv[3:]])
    wait_for("\r\x1b[Ksemcache: 0:0", "5 calls on devices", on=printed)
    child.send_signal(signal.SIGTERM)
    end(-signal.SIGTERM)
    # The line of the progress is erased before the closing line is written.
    line = bytes(seen).rsplit(b"\r\x1b[K", 1)[-1]
    if not line.startswith(b"semcache: ") or b"5 of 5 dgemm calls ran on devices" not in line:
        fail("no closing line")
    sys.exit(0)

how, command, program = sys.argv[2], sys.argv[3], int(sys.argv[4])
child = start([command, "top", "--interval", "0.2", str(program)])
wait_for("Routines", "dgemm  ", "counted", "q quit", "     5")
os.write(master, b"p")
wait_for("runs", f"\n{program}  ")
size(12, 40)
wait_for("bytes moved", f"\n{program}  ")
os.write(master, b"p")
wait_for("\nsim0 ")
if how == "ended":
    os.kill(program, signal.SIGTERM)
    wait_for("The run has ended")
    time.sleep(0.5)
    if child.poll() is not None:
        fail("it did not stay until a key")
    os.write(master, b"x")
elif how == "terminate":
    child.send_signal(signal.SIGTERM)
else:
    os.write(master, {"q": b"q", "escape": b"\x1b", "interrupt": b"\x03"}[how])
end(-signal.SIGTERM if how == "terminate" else 0)
if ENTER not in seen or LEAVE not in seen or SHOW not in seen:
    fail("the screen was not left")
