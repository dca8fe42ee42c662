"""NumPy in the children of Python's own modules: results that only a device of the parent's has are read and used in
children by fork, spawn and the fork server, in pools and threads. Integer data: every line is exact."""

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np

N = 120


def matrix(seed):
    i, j = np.indices((N, N))
    return ((3 * i + 5 * j + seed) % 7 - 3).astype(float)


def code(a):
    """Of integers in doubles: the same in every run."""
    return int(a.astype(np.int64).ravel() @ (np.arange(a.size) % 1009 + 1))


def work(seed, a):
    b = a @ matrix(seed)
    b[seed % N] += 1
    return code(b), code(b @ a)


RESULT = None


def inherited(seed):
    """By fork: the parent's own result, as it was then."""
    return code(RESULT), *work(seed, RESULT)


def send(pipe, a):
    pipe.send(work(2, a)[0])
    pipe.close()


def main():
    global RESULT
    RESULT = matrix(1) @ matrix(2)
    RESULT %= 11
    RESULT = RESULT @ matrix(3)
    RESULT = np.fmod(RESULT, 13) @ matrix(4)
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as pool:
        print("fork", pool.map(inherited, range(4)))
        RESULT2 = RESULT @ matrix(5)
        print("pool", pool.starmap(work, [(k, np.fmod(RESULT2, 17)) for k in range(3)]))
    print("parent", code(RESULT), work(9, RESULT))
    ours, theirs = fork.Pipe()
    child = fork.Process(target=send, args=(theirs, RESULT))
    child.start()
    print("process", ours.recv())
    child.join()
    print("exit code", child.exitcode)
    for method in sys.argv[1:]:
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            print(method, list(pool.map(work, range(2), [RESULT, np.fmod(RESULT, 5)])))
    # os.fork while another thread computes, and while results are on the device. The child does not compute: also in a
    # plain run, the other thread may hold OpenBLAS's lock at the fork.
    stop = threading.Event()

    def compute():
        while not stop.is_set():
            matrix(1) @ matrix(2)

    thread = threading.Thread(target=compute)
    thread.start()
    for k in range(5):
        c = RESULT @ matrix(k)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            c[k] = 1
            os._exit(code(c) % 251)
        c[k] = 2
        print("os.fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), code(c))
    stop.set()
    thread.join()
    # Another program, which reads a result from its standard input.
    c = np.fmod(RESULT @ matrix(6), 251).astype(np.uint8)
    out = subprocess.run(["cksum"], input=c.tobytes(), capture_output=True, check=True)
    print("subprocess", out.stdout.decode().strip())


if __name__ == "__main__":
    main()
