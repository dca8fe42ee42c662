"""Hints for programs that may run under semcache (`semcache run -- python program.py`).

Each function takes a NumPy array, or whatever else has NumPy's array interface, and returns a `Status`. Without the library all of them do
nothing and return `Status.ABSENT`; what the program computes is the same with and without them. docs/library.md says when each pays.

    import semcache
    sent = semcache.prefetch(a)       # sent to the devices by a thread of the library, while Python goes on
    ...
    b = a @ c                         # waits by itself
"""

import contextlib
import ctypes
import enum

__all__ = ["ALL_DEVICES", "HOST", "Distribution", "Event", "Status", "coherent", "devices", "distribute", "evict", "name", "pin", "predict",
           "prefetch", "range", "rates", "read_cpu", "read_gpu", "residency", "section", "statistics", "unpin", "write_cpu", "write_gpu"]

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


class Distribution(ctypes.Structure):
    """Which device each block of a matrix belongs to. Rows and columns are those of the array as C sees it (`_view`): of a C-contiguous
    array they change places."""

    _OWNER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    _fields_ = [("size", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("mb", ctypes.c_int64), ("nb", ctypes.c_int64),
                ("p", ctypes.c_int32), ("q", ctypes.c_int32), ("owner", _OWNER), ("user", ctypes.c_void_p)]

    def __init__(self, kind, **fields):
        super().__init__(size=ctypes.sizeof(Distribution), kind=kind, **fields)

    @classmethod
    def none(cls):
        """Ends an earlier distribution."""
        return cls(0)

    @classmethod
    def rows(cls):
        """One share of the rows for each device."""
        return cls(1)

    @classmethod
    def columns(cls):
        """One share of the columns for each device."""
        return cls(2)

    @classmethod
    def blocks(cls, p=0, q=0):
        """One block for each device of a grid of p x q; zero: as square as the devices permit."""
        return cls(3, p=p, q=q)

    @classmethod
    def block_cyclic(cls, mb, nb, p=0, q=0):
        """Blocks of mb x nb, dealt to a grid of p x q devices."""
        return cls(4, mb=mb, nb=nb, p=p, q=q)

    @classmethod
    def owners(cls, mb, nb, owner):
        """Blocks of mb x nb; `owner(i, j)` says which device each belongs to."""
        def asked(i, j, _user):
            try:
                return owner(i, j)
            except Exception:  # pylint: disable=broad-except
                return -1      # No device: the distribution is refused.

        return cls(5, mb=mb, nb=nb, owner=cls._OWNER(asked))


class _DeviceMatrix(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("device", ctypes.c_int32), ("address", ctypes.c_uint64), ("ld", ctypes.c_int64),
                ("hold", ctypes.c_uint64), ("context", ctypes.c_void_p)]


class _Rates(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64)] + [(name, ctypes.c_double) for name in (
        "h2d_bytes_per_s", "d2h_bytes_per_s", "p2p_bytes_per_s", "latency_s", "sgemm_flops", "dgemm_flops", "host_sgemm_flops",
        "host_dgemm_flops")] + [("memory", ctypes.c_uint64)]


class _Prediction(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("devices", ctypes.c_int32), ("host_s", ctypes.c_double), ("devices_s", ctypes.c_double)]


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
                ("statistics", ctypes.CFUNCTYPE(_int, ctypes.POINTER(_Statistics))),
                ("section", ctypes.CFUNCTYPE(_int, _int, _number)),
                ("distribute", ctypes.CFUNCTYPE(_int, _matrix, ctypes.POINTER(Distribution), _number)),
                ("pin", ctypes.CFUNCTYPE(_int, _matrix, _int, _int, _number)),
                ("to_gpu", ctypes.CFUNCTYPE(_int, _matrix, _int, _int, ctypes.POINTER(_DeviceMatrix))),
                ("release", ctypes.CFUNCTYPE(_int, ctypes.c_uint64)),
                ("name", ctypes.CFUNCTYPE(_int, _matrix, ctypes.c_char_p)),
                ("range", ctypes.CFUNCTYPE(_int, ctypes.c_char_p)),
                ("rates", ctypes.CFUNCTYPE(_int, _int, ctypes.POINTER(_Rates))),
                ("predict", ctypes.CFUNCTYPE(_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), _int, ctypes.POINTER(_Prediction)))]


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


def distribute(array, distribution):
    """Sends the blocks of an array to the devices of a `Distribution`, which compute them from then on; returns an `Event`."""
    return _with_event("distribute", ctypes.byref(_view(array)), ctypes.byref(distribution))


def pin(array, device=ALL_DEVICES):
    """As `prefetch`, and calls that need room evict other copies first, until `unpin`; returns an `Event`."""
    return _with_event("pin", ctypes.byref(_view(array)), device, 1)


def unpin(array):
    """Ends what `pin` began for this array, or for parts of it."""
    return _call("pin", ctypes.byref(_view(array)), ALL_DEVICES, 0, None)


class section:  # pylint: disable=invalid-name
    """Products of this thread in the `with` block return once they are queued. Its end waits for them, or, with `wait=False`, leaves that to
    the section's `wait()` and `test()`, which are those of an `Event`."""

    def __init__(self, wait=True):
        self._waits, self._event = wait, Event(Status.OK, ctypes.c_uint64(0))

    def __enter__(self):
        _call("section", 1, None)
        return self

    def __exit__(self, *_):
        number = ctypes.c_uint64(0)
        self._event = Event(_call("section", 0, None if self._waits else ctypes.byref(number)), number)

    def wait(self):
        """Returns when the products of the section are complete."""
        return self._event.wait()

    def test(self):
        """As `wait`, but returns `Status.PENDING` at once if they are not."""
        return self._event.test()


@contextlib.contextmanager
def _on_gpu(array, device, write):
    found = _DeviceMatrix(size=ctypes.sizeof(_DeviceMatrix))
    status = _call("to_gpu", ctypes.byref(_view(array)), device, write, ctypes.byref(found))
    try:
        yield found if status == Status.OK else None
    finally:
        if status == Status.OK:
            _call("release", found.hold)


def read_gpu(array, device=0):
    """In the `with` block a kernel of one's own may read the array on a device: `address`, `ld` (elements between two columns, as C sees
    the array) and the driver's `context`; `None` where it is not there."""
    return _on_gpu(array, device, 0)


def write_gpu(array, device=0):
    """As `read_gpu`, for a kernel that changes the array. In the `with` block nothing else may use the array."""
    return _on_gpu(array, device, 1)


def name(array, text):
    """Names an array in messages and traces; `None` takes the name away."""
    return _call("name", ctypes.byref(_view(array)), None if text is None else str(text).encode(errors="replace"))


@contextlib.contextmanager
def range(text):  # pylint: disable=redefined-builtin
    """A range of this thread in the trace, for the `with` block."""
    _call("range", str(text).encode(errors="replace"))
    try:
        yield
    finally:
        _call("range", None)


def _fields(found, status):
    if status != Status.OK:
        return {}
    return {field: getattr(found, field) for field, _ in found._fields_ if field != "size"}


def rates(device=0):
    """What the library knows of a device, its links and the host BLAS; empty without the library."""
    found = _Rates(size=ctypes.sizeof(_Rates))
    return _fields(found, _call("rates", device, ctypes.byref(found)))


def predict(routine, m, n=0, k=0, resident=False):
    """What the library expects of a call ("dgemm") of these sizes: seconds on the host and on devices, and the number of devices that it
    would run on; empty without the library."""
    found = _Prediction(size=ctypes.sizeof(_Prediction))
    sizes = (ctypes.c_int64 * 3)(m, n, k)
    return _fields(found, _call("predict", routine.encode(), sizes, int(resident), ctypes.byref(found)))


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
    return _fields(found, _call("statistics", ctypes.byref(found)))
