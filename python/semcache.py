"""Hints for programs that may run under semcache (`semcache run -- python program.py`).

Each function takes a NumPy array, or whatever else has NumPy's array interface, and returns a `Status`. Without the library all of them do
nothing and return `Status.ABSENT`; what the program computes is the same with and without them. docs/library.md says when each pays. `csr`
is no hint: it multiplies a sparse matrix, without the library by SciPy.

    import semcache
    sent = semcache.prefetch(a)       # sent to the devices by a thread of the library, while Python goes on
    ...
    b = a @ c                         # waits by itself
"""

import contextlib
import ctypes
import enum
import functools

__all__ = ["ALL_DEVICES", "HOST", "Distribution", "Event", "Status", "coherent", "csr", "devices", "distribute", "evict", "name", "pin",
           "predict", "prefetch", "range", "rates", "read_cpu", "read_gpu", "residency", "section", "statistics", "unpin", "write_cpu",
           "write_gpu"]

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


class _Sparse(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_uint32) for name in ("size", "type", "index_bytes", "base")] +
                [(name, ctypes.c_int64) for name in ("rows", "cols")] +
                [(name, ctypes.c_void_p) for name in ("row_offsets", "columns", "values")])


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
                ("predict", ctypes.CFUNCTYPE(_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), _int, ctypes.POINTER(_Prediction))),
                ("csr_multiply", ctypes.CFUNCTYPE(_int, ctypes.POINTER(_Sparse), _int, ctypes.c_void_p, _matrix, ctypes.c_void_p, _matrix))]


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


def csr(matrix):
    """A linear operator (of SciPy, where SciPy is there) that multiplies by a matrix in compressed rows: SciPy's, or what has the same
    arrays `indptr`, `indices` and `data` and a `shape`. With the library devices keep the matrix until it changes, and results until the
    CPU touches them; without it the products are SciPy's.

    The operator has no copy: what is changed in the matrix, in place or by a new array, is in the next product. Operands of another type
    than the matrix are converted if its type can hold them, else the product is SciPy's."""
    return _operator()(matrix)


@functools.lru_cache(maxsize=None)
def _operator():
    """The class of operators, with SciPy's as base if there is one. SciPy is not imported before it is needed."""
    try:
        from scipy.sparse.linalg import LinearOperator as base  # pylint: disable=import-outside-toplevel
    except ImportError:
        base = _Operator
    return type("CsrOperator", (_Products, base), {"__doc__": csr.__doc__})


class _Operator:
    """What of SciPy's LinearOperator there is without SciPy."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape

    def matvec(self, x):
        """A x"""
        return self._matvec(x)

    def rmatvec(self, x):
        """A^H x"""
        return self._rmatvec(x)

    dot = matmat = __matmul__ = matvec
    rmatmat = rmatvec
    T = property(lambda self: self._transpose())
    H = property(lambda self: self._adjoint())


class _Products:
    """The products of an operator of a sparse matrix, or of its transpose, or with conjugated entries, or both."""

    _LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}

    def __init__(self, matrix, transposed=False, conjugated=False):
        self._matrix, self._transposed, self._conjugated = matrix, transposed, conjugated
        self._arrays, self._sparse = self._described()
        rows, cols = matrix.shape
        super().__init__(matrix.data.dtype, (cols, rows) if transposed else (rows, cols))

    def _described(self):
        """The arrays of the matrix, and what the library is told of them."""
        import numpy as np  # pylint: disable=import-outside-toplevel
        matrix = self._matrix
        named = "indptr", "indices", "data", "shape"
        if getattr(matrix, "format", "csr") != "csr" or not all(hasattr(matrix, of) for of in named):
            raise TypeError(f"a matrix in compressed rows (CSR) is expected, not {type(matrix).__name__}: .tocsr() of SciPy's sparse "
                            "matrices makes one")
        arrays = matrix.indptr, matrix.indices, matrix.data
        if not all(isinstance(of, np.ndarray) for of in arrays):
            raise TypeError("indptr, indices and data are not all NumPy arrays")
        indptr, indices, data = arrays
        letter = self._LETTERS.get(data.dtype.char)
        if letter is None or not data.dtype.isnative:
            raise TypeError(f"entries are float32, float64, complex64 or complex128, not {data.dtype}: .astype(float) converts them")
        if indptr.dtype != indices.dtype or indptr.dtype not in (np.int32, np.int64):
            raise TypeError(f"indptr and indices are both int32 or both int64, not {indptr.dtype} and {indices.dtype}")
        if any(of.ndim != 1 or not of.flags.c_contiguous or not of.flags.aligned for of in arrays):
            raise ValueError("indptr, indices and data are contiguous and have one dimension")
        if len(matrix.shape) != 2 or len(indptr) != matrix.shape[0] + 1:
            raise ValueError(f"{len(indptr)} row offsets for a matrix of shape {matrix.shape}")
        return arrays, _Sparse(ctypes.sizeof(_Sparse), ord(letter), indptr.itemsize, 0, *matrix.shape, *(of.ctypes.data for of in arrays))

    def _now(self):
        """What the library is told of the matrix as it is now."""
        matrix, (indptr, indices, data) = self._matrix, self._arrays
        if matrix.indptr is not indptr or matrix.indices is not indices or matrix.data is not data:
            self._arrays, self._sparse = self._described()
            indptr, indices, data = self._arrays
        if data.dtype != self.dtype or tuple(matrix.shape) != (self.shape[::-1] if self._transposed else self.shape):
            raise ValueError("the matrix has changed its shape or type")
        if indptr[-1] > min(len(indices), len(data)):
            raise ValueError(f"the last row ends with entry {indptr[-1]}, of {min(len(indices), len(data))}")
        return self._sparse

    def multiply(self, x, out=None, alpha=1, beta=0):
        """`alpha A x + beta out`, for a vector or the columns of a matrix. It is written to `out`, if that is given, and returned. In place
        are used vectors without strides and matrices by columns (`order="F"`); others are copied."""
        return self._product(self._transposed, self._conjugated, x, out, self._number(alpha), self._number(beta))

    def _number(self, value):
        if self.dtype.kind == "c":
            return complex(value)
        if isinstance(value, complex) or getattr(value, "dtype", self.dtype).kind == "c":
            raise TypeError("a real matrix has real factors")
        return float(value)

    def _product(self, transposed, conjugated, x, out=None, alpha=1.0, beta=0.0):
        import numpy as np  # pylint: disable=import-outside-toplevel
        x, sparse, dtype = np.asarray(x), self._now(), self.dtype
        to, of = (sparse.cols, sparse.rows) if transposed else (sparse.rows, sparse.cols)
        if x.ndim not in (1, 2) or x.shape[0] != of:
            raise ValueError(f"dimension mismatch: {(to, of)} and {x.shape}")
        shape = (to,) + x.shape[1:]
        if out is None and beta:
            raise ValueError("beta without an array that it multiplies")
        if out is not None and (not isinstance(out, np.ndarray) or out.shape != shape or not out.flags.writeable):
            raise ValueError(f"out is no array of shape {shape} that can be written")
        conjugated = conjugated and dtype.kind == "c"
        if conjugated and not transposed:
            # No product of the library: of all that is conjugated instead.
            before = np.conj(out) if beta else None
            return np.conj(self._product(False, False, np.conj(x), before, np.conj(alpha), np.conj(beta)), out=out)
        if np.result_type(dtype, x.dtype) == dtype and (out is None or out.dtype == dtype):
            y = np.empty(shape, dtype, order="F") if out is None else out
            if _leading(y) is None:
                y = np.array(out, order="F")
            operand = np.asarray(x, dtype)
            if _leading(operand) is None or np.may_share_memory(operand, y):
                operand = np.array(operand, order="F")
            numbers = np.array((alpha, beta), dtype)
            at = numbers.ctypes.data
            status = _call("csr_multiply", ctypes.byref(sparse), ord("C" if conjugated else "T" if transposed else "N"), at,
                           ctypes.byref(_leading(operand)), at + dtype.itemsize, ctypes.byref(_leading(y)))
            if status == Status.INVALID:
                raise ValueError("row offsets descend, a column is not in the matrix, or out overlaps the matrix")
            if status not in (Status.OK, Status.ABSENT):
                raise RuntimeError(f"the product has failed: {status.name}")
            if status == Status.OK:
                if out is not None and y is not out:
                    out[...] = y
                return y if out is None else out
        return self._by_scipy(transposed, conjugated, x, out, alpha, beta)

    def _by_scipy(self, transposed, conjugated, x, out, alpha, beta):
        import numpy as np  # pylint: disable=import-outside-toplevel
        matrix = self._matrix
        if not hasattr(matrix, "__matmul__"):
            from scipy.sparse import csr_array  # pylint: disable=import-outside-toplevel
            matrix = csr_array((matrix.data, matrix.indices, matrix.indptr), matrix.shape)
        if transposed:
            matrix = matrix.T
        y = np.conj(matrix @ np.conj(x)) if conjugated else matrix @ x
        if alpha != 1:
            y *= alpha
        if out is None:
            return y
        if beta:
            y = y + beta * out
        np.copyto(out, y, casting="same_kind")
        return out

    def _matvec(self, x):
        return self._product(self._transposed, self._conjugated, x)

    def _rmatvec(self, x):
        return self._product(not self._transposed, not self._conjugated, x)

    _matmat, _rmatmat = _matvec, _rmatvec

    def _transpose(self):
        return type(self)(self._matrix, not self._transposed, self._conjugated)

    def _adjoint(self):
        return type(self)(self._matrix, not self._transposed, not self._conjugated)


def _leading(array):
    """A vector, or the columns of a matrix, as the library is told of them; `None` if columns are not contiguous, or overlap."""
    rows, cols, item = array.shape[0], array.shape[1] if array.ndim == 2 else 1, array.itemsize
    ld = max(rows, 1)
    if cols > 1 and rows:  # An empty array has no bytes.
        ld = array.strides[1] // item
        if array.strides[1] % item or ld < rows:
            return None
    if not array.flags.aligned or (rows > 1 and cols and array.strides[0] != item):
        return None
    return _Matrix(ctypes.sizeof(_Matrix), item, array.ctypes.data, rows, cols, ld)
