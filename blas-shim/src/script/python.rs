//! The line of a Python script.
//!
//! The frames of a thread are read with Python's lock held, which modules release around their calls of a BLAS: a call waits for
//! it, while it holds no lock of the runtime. Nothing is kept of Python's objects but numbers and text.

use core::ffi::{CStr, c_char, c_int, c_void};

use super::interpreter::{Line, api};

type Object = *mut c_void;

// Functions of Python's C interface, as of version 3.9.
api! {
    is_initialized: unsafe extern "C" fn() -> c_int = c"Py_IsInitialized";
    ensure: unsafe extern "C" fn() -> c_int = c"PyGILState_Ensure";
    release: unsafe extern "C" fn(c_int) = c"PyGILState_Release";
    frame: unsafe extern "C" fn() -> Object = c"PyEval_GetFrame";
    line: unsafe extern "C" fn(Object) -> c_int = c"PyFrame_GetLineNumber";
    code: unsafe extern "C" fn(Object) -> Object = c"PyFrame_GetCode";
    back: unsafe extern "C" fn(Object) -> Object = c"PyFrame_GetBack";
    attribute: unsafe extern "C" fn(Object, *const c_char) -> Object = c"PyObject_GetAttrString";
    text: unsafe extern "C" fn(Object) -> *const c_char = c"PyUnicode_AsUTF8";
    clear: unsafe extern "C" fn() = c"PyErr_Clear";
    drop: unsafe extern "C" fn(Object) = c"Py_DecRef";
}

/// The most frames that are looked at.
const DEEPEST: usize = 64;
/// Parts of the paths of modules that are not the user's: of Python's own and of installed ones.
const INSTALLED: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python"];

/// The line that the calling thread runs, if it runs one.
pub(super) fn line() -> Option<Line> {
    let api = api()?;
    // SAFETY: may be called without the lock, at any time.
    if unsafe { (api.is_initialized)() } == 0 {
        return None;
    }
    // SAFETY: the interpreter is initialised. The thread may have the lock already.
    let held = unsafe { (api.ensure)() };
    // SAFETY: the lock is held.
    let found = unsafe { line_of_user(api) };
    // SAFETY: what the thread had before `ensure`.
    unsafe { (api.release)(held) };
    found
}

/// The line that the calling thread runs in the innermost function that belongs to no installed module; if all do, in the innermost.
///
/// # Safety
/// The lock is held.
unsafe fn line_of_user(api: &Api) -> Option<Line> {
    let mut innermost = None;
    // SAFETY: by the contract; the frame is borrowed from the thread, which runs no Python code meanwhile.
    let mut frame = unsafe { (api.frame)() };
    let mut owned = false;
    for _ in 0..DEEPEST {
        if frame.is_null() {
            break;
        }
        // SAFETY: a frame of the thread; the code is a new reference, which is dropped once its file is known.
        let at = unsafe {
            let (line, code) = ((api.line)(frame), (api.code)(frame));
            let file = file_of(api, code);
            (api.drop)(code);
            Line { file, line }
        };
        let installed =
            at.file.starts_with('<') || INSTALLED.iter().any(|part| at.file.contains(part));
        // SAFETY: a frame of the thread; the one that called it is a new reference, or null.
        let back = unsafe { (api.back)(frame) };
        if owned {
            // SAFETY: the reference that this loop took.
            unsafe { (api.drop)(frame) };
        }
        (frame, owned) = (back, true);
        if !installed {
            innermost = Some(at);
            break;
        }
        innermost = innermost.or(Some(at));
    }
    if owned && !frame.is_null() {
        // SAFETY: the reference that the loop took last.
        unsafe { (api.drop)(frame) };
    }
    innermost
}

/// The file of a code object.
///
/// # Safety
/// The lock is held, and the code object is alive.
unsafe fn file_of(api: &Api, code: Object) -> String {
    // SAFETY: by the contract; the name is a new reference, and its text lives as long as it does.
    unsafe {
        let name = (api.attribute)(code, c"co_filename".as_ptr());
        let text = if name.is_null() {
            core::ptr::null()
        } else {
            (api.text)(name)
        };
        let copied = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
        if !name.is_null() {
            (api.drop)(name);
        }
        if copied.is_none() {
            (api.clear)();
        }
        copied.unwrap_or_default()
    }
}
