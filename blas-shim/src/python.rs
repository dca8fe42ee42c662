//! The line of a Python script as a call site (`SEMCACHE_SITES=python`).
//!
//! The frames of a thread are read with Python's lock held, which modules release around their calls of a BLAS: a call waits for
//! it, while it holds no lock of the runtime. Nothing is kept of Python's objects but numbers and text.

#![expect(
    unsafe_code,
    reason = "calls functions of Python that it finds by name"
)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use std::sync::OnceLock;

use semcache::base::counters::{Kind, PAGE, sites};
use semcache::process::signals_blocked::SignalsBlocked;
use semcache::runtime::init;

use crate::symbols::Symbol;

type Object = *mut c_void;

/// The functions of Python's C interface, as of version 3.9.
struct Api {
    is_initialized: unsafe extern "C" fn() -> c_int,
    ensure: unsafe extern "C" fn() -> c_int,
    release: unsafe extern "C" fn(c_int),
    frame: unsafe extern "C" fn() -> Object,
    line: unsafe extern "C" fn(Object) -> c_int,
    code: unsafe extern "C" fn(Object) -> Object,
    back: unsafe extern "C" fn(Object) -> Object,
    attribute: unsafe extern "C" fn(Object, *const c_char) -> Object,
    text: unsafe extern "C" fn(Object) -> *const c_char,
    clear: unsafe extern "C" fn(),
    drop: unsafe extern "C" fn(Object),
}

/// The functions, if the process has a Python.
#[expect(
    clippy::missing_transmute_annotations,
    reason = "the type is that of the field"
)]
fn api() -> Option<&'static Api> {
    static API: OnceLock<Option<Api>> = OnceLock::new();
    let found = || {
        // `dlsym` takes the loader's lock.
        let _blocked = SignalsBlocked::new();
        let address = |name: &CStr| {
            // SAFETY: a C string; the loader finds the program's own symbols and those of all its libraries.
            let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!at.is_null()).then_some(at)
        };
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: Python's documentation gives the function of this name this type.
                unsafe { transmute::<*mut c_void, _>(address($name)?) }
            };
        }
        Some(Api {
            is_initialized: function!(c"Py_IsInitialized"),
            ensure: function!(c"PyGILState_Ensure"),
            release: function!(c"PyGILState_Release"),
            frame: function!(c"PyEval_GetFrame"),
            line: function!(c"PyFrame_GetLineNumber"),
            code: function!(c"PyFrame_GetCode"),
            back: function!(c"PyFrame_GetBack"),
            attribute: function!(c"PyObject_GetAttrString"),
            text: function!(c"PyUnicode_AsUTF8"),
            clear: function!(c"PyErr_Clear"),
            drop: function!(c"Py_DecRef"),
        })
    };
    API.get_or_init(found).as_ref()
}

/// The most frames that are looked at.
const DEEPEST: usize = 64;
/// Parts of the paths of modules that are not the user's: of Python's own and of installed ones.
const INSTALLED: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python"];

/// The site of the line of a script that makes a call, if that is wanted and the thread runs one; else `native`.
pub(crate) fn site(symbol: &Symbol, native: Option<usize>) -> Option<usize> {
    if !init::config().python_sites {
        return native;
    }
    api().and_then(|api| line_of(api, symbol)).or(native)
}

fn line_of(api: &Api, symbol: &Symbol) -> Option<usize> {
    // SAFETY: may be called without the lock, at any time.
    if unsafe { (api.is_initialized)() } == 0 {
        return None;
    }
    // SAFETY: the interpreter is initialised. The thread may have the lock already.
    let held = unsafe { (api.ensure)() };
    // SAFETY: the lock is held.
    let found = unsafe { line_of_user(api) }.and_then(|(code, line, file)| {
        let kind = Kind::Call(symbol.index());
        let key = sites::key([code, line as usize, symbol.index()]);
        PAGE.sites.find(key, kind, 0, 0, &|| labelled(&file, line))
    });
    // SAFETY: what the thread had before `ensure`.
    unsafe { (api.release)(held) };
    found
}

/// The line that the calling thread runs in the innermost function that belongs to no installed module; if all do, in the innermost.
/// Returns the address of the function's code, the line, and the file.
///
/// # Safety
/// The lock is held.
unsafe fn line_of_user(api: &Api) -> Option<(usize, c_int, String)> {
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
            (code.addr(), line, file)
        };
        let installed = at.2.starts_with('<') || INSTALLED.iter().any(|part| at.2.contains(part));
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

/// File and line; of a long path its end.
fn labelled(file: &str, line: c_int) -> String {
    const MOST: usize = 100;
    let tail: Vec<char> = file.chars().rev().take(MOST).collect();
    let tail: String = tail.into_iter().rev().collect();
    format!("{tail}:{line}")
}
