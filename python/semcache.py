"""Hints for programs that may run under semcache (`semcache run -- python program.py`).

Each function takes a NumPy array, or whatever else has NumPy's array interface, and returns a `Status`. Without the library all of them do
nothing and return `Status.ABSENT`; what the program computes is the same with and without them. docs/library.md says when each pays.

    import semcache
    sent = semcache.prefetch(a)       # sent to the devices by a thread of the library, while Python goes on
    ...
    b = a @ c                         # waits by itself
"""

import ctypes
import enum

__all__ = ["ALL_DEVICES", "HOST", "Event", "Status", "coherent", "devices", "evict", "prefetch", "read_cpu", "residency", "statistics",
           "write_cpu"]

# In place of the number of a device.
ALL_DEVICES, HOST = -1, -2


class Status(enum.IntEnum):
    """What became of a request."""

    OK = 0
    ABSENT = 1
    PENDING = 2
    NO_DEVICE = 3
    INVALID = 4
    UNTRACKED = 5
    NO_ROOM = 6
    LOST = 7
    BUSY = 8
    FAILED = 9


class _Matrix(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("element", ctypes.c_uint32), ("data", ctypes.c_void_p),
                ("rows", ctypes.c_int64), ("cols", ctypes.c_int64), ("ld", ctypes.c_int64)]


class _Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("size", "offloaded", "h2d", "d2h", "p2p", "faults")]


_int, _matrix, _number = ctypes.c_int, ctypes.POINTER(_Matrix), ctypes.POINTER(ctypes.c_uint64)


class _Interface(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t),
                ("devices", ctypes.CFUNCTYPE(_int)),
                ("prefetch", ctypes.CFUNCTYPE(_int, _matrix, _int, _number)),
                ("coherent", ctypes.CFUNCTYPE(_int, _matrix, _number)),
                ("to_cpu", ctypes.CFUNCTYPE(_int, _matrix, _int)),
                ("evict", ctypes.CFUNCTYPE(_int, _matrix, _int)),
                ("residency", ctypes.CFUNCTYPE(_int, _matrix, _int, ctypes.POINTER(ctypes.c_int64))),
                ("wait", ctypes.CFUNCTYPE(_int, _number, _int)),
                ("statistics", ctypes.CFUNCTYPE(_int, ctypes.POINTER(_Statistics)))]


def _library():
    try:
        return _Interface.in_dll(ctypes.CDLL(None), "semcache_interface_1")
    except (OSError, ValueError):
        return None


_LIBRARY = _library()


def _call(name, *arguments):
    """The status of a function of the table, which an older library may lack."""
    field = getattr(_Interface, name)
    if _LIBRARY is None or field.offset + field.size > _LIBRARY.size:
        return Status.ABSENT
    return Status(getattr(_LIBRARY, name)(*arguments))


def _view(array):
    """The array as a matrix in column-major order; of its transpose, if its rows are contiguous."""
    interface = getattr(array, "__array_interface__", None)
    if interface is None:
        raise TypeError(f"an array is expected, not {type(array).__name__}")
    shape, item = tuple(interface["shape"]), int(interface["typestr"][2:])
    strides = interface.get("strides")
    if strides is None:
        strides, step = [], item
        for length in reversed(shape):
            strides.insert(0, step)
            step *= length
    data = interface["data"][0]
    # Dimensions of length one are left out; an empty array has no bytes.
    kept = sorted((stride, length) for stride, length in zip(strides, shape) if length != 1)
    if any(length == 0 for length in shape):
        kept, rows, cols, ld = [], 0, 0, 1
    else:
        rows, cols, ld = 1, 1, 1
    # Of more dimensions than two, those that follow each other without a gap are the columns.
    joined = kept[:2]
    for stride, length in kept[2:]:
        if stride == joined[-1][0] * joined[-1][1]:
            joined[-1] = (joined[-1][0], joined[-1][1] * length)
        else:
            joined.append((stride, length))
    if any(stride <= 0 or stride % item for stride, _ in joined) or len(joined) > 2 or (len(joined) == 2 and joined[0][0] != item):
        raise ValueError("the array is no matrix with contiguous rows or columns")
    if len(joined) == 2:
        (_, rows), (stride, cols) = joined
        ld = stride // item
    elif joined and joined[0][0] == item:
        rows = ld = joined[0][1]
    elif joined:
        ld, cols = joined[0][0] // item, joined[0][1]
    # Elements of other sizes than BLAS's: bytes.
    if item not in (1, 2, 4, 8, 16):
        rows, ld, item = rows * item, ld * item, 1
    return _Matrix(ctypes.sizeof(_Matrix), item, data, rows, cols, ld)


class Event:
    """A request that may not be complete. `status` is what came of queueing it."""

    def __init__(self, status, number):
        self.status, self._number = status, number

    def _ask(self, waits):
        if self.status != Status.OK or not self._number.value:
            return self.status
        return _call("wait", ctypes.byref(self._number), waits)

    def wait(self):
        """Returns when the request is complete, and what became of it."""
        return self._ask(1)

    def test(self):
        """As `wait`, but returns `Status.PENDING` at once if the request is not complete."""
        return self._ask(0)


def _with_event(name, *arguments):
    number = ctypes.c_uint64(0)
    return Event(_call(name, *arguments, ctypes.byref(number)), number)


def prefetch(array, device=ALL_DEVICES):
    """Copies an array to a device, or shares of it to all, before it is used; returns an `Event`."""
    return _with_event("prefetch", ctypes.byref(_view(array)), device)


def coherent(array):
    """Copies the newest bytes of an array to the host; devices keep their copies. Returns an `Event`."""
    return _with_event("coherent", ctypes.byref(_view(array)))


def read_cpu(array):
    """Python is about to read the array: its newest bytes come to the host at once instead of by page faults."""
    return _call("to_cpu", ctypes.byref(_view(array)), 0)


def write_cpu(array):
    """Python is about to change the array: as `read_cpu`, and devices drop their copies."""
    return _call("to_cpu", ctypes.byref(_view(array)), 1)


def evict(array, device=ALL_DEVICES):
    """Frees the memory of a device, or of all, that holds bytes of the array."""
    return _call("evict", ctypes.byref(_view(array)), device)


def residency(array, place=ALL_DEVICES):
    """How many bytes of the array a device holds, any device, or the host (`HOST`); `None` without the library."""
    held = ctypes.c_int64(0)
    status = _call("residency", ctypes.byref(_view(array)), place, ctypes.byref(held))
    return held.value if status == Status.OK else None


def devices():
    """The number of devices in use: zero before the first large product or prefetch, and without the library."""
    return 0 if _LIBRARY is None else _LIBRARY.devices()


def statistics():
    """Calls that ran on devices, bytes copied, and page faults so far; empty without the library."""
    found = _Statistics(size=ctypes.sizeof(_Statistics))
    if _call("statistics", ctypes.byref(found)) != Status.OK:
        return {}
    return {name: getattr(found, name) for name, _ in _Statistics._fields_ if name != "size"}
