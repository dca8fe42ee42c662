"""Makes the buffers of Python's own tests inaccessible results, or cached inputs, first: the BLAS copies large ones onto
themselves before the program or the kernel accesses them. Found by PYTHONPATH; the bytes are the same with any BLAS."""
import builtins
import ctypes
import os
import socket

_blas = ctypes.CDLL("libblas.so.3", mode=ctypes.RTLD_GLOBAL)
# The first definition in the process: the preloaded one, if there is one.
_process = ctypes.CDLL(None)
_dcopy = _process.dcopy_
_one = ctypes.byref(ctypes.c_int(1))
LEAST = 8192


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = (ctypes.POINTER(_Buffer),)
_mine = {}


def close(data):
    """From here on the newest bytes of `data`, if it is large, are on a device."""
    view = _Buffer()
    try:
        _get(data, ctypes.byref(view), 0)
    except (TypeError, BufferError, ValueError, AttributeError):
        return data
    try:
        at = -view.buf % 8 + (view.buf or 0)
        n = ((view.buf or 0) + view.len - at) // 8
        if view.len >= LEAST and n > 0:
            copy = _mine.get(n)
            if copy is None:
                _mine.clear()
                copy = _mine[n] = (ctypes.c_double * n)()
            count = ctypes.byref(ctypes.c_int(n))
            _dcopy(count, ctypes.c_void_p(at), _one, copy, _one)
            _dcopy(count, copy, _one, ctypes.c_void_p(at), _one)
    finally:
        _release(ctypes.byref(view))
    return data


class _Closed(bytearray):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        close(self)


def _first(function, *positions):
    """`function`, called after the buffers at these positions were made inaccessible."""
    def wrapped(*args, **named):
        for i in positions:
            if i < len(args):
                each = args[i] if isinstance(args[i], (list, tuple)) else (args[i],)
                for data in each:
                    close(data)
        return function(*args, **named)
    wrapped.__name__ = wrapped.__qualname__ = function.__name__
    return wrapped


for _name in ("write", "pwrite", "writev", "pwritev", "readv", "preadv"):
    setattr(os, _name, _first(getattr(os, _name), 1))
for _name in ("send", "sendall", "sendto", "sendmsg", "recv_into", "recvfrom_into", "recvmsg_into"):
    setattr(socket.socket, _name, _first(getattr(socket.socket, _name), 1))
if os.environ.get("CLOSE_BYTEARRAYS"):
    _Closed.__name__ = _Closed.__qualname__ = "bytearray"
    builtins.bytearray = _Closed
