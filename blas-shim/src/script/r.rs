//! The line of an R script. R notes lines in functions that are parsed with `options(keep.source = TRUE)`: by default in an interactive
//! session, else if the option is set before `source`.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use super::interpreter::{Line, function, is_main, loaded};

type Object = *mut c_void;

/// The functions of R's C interface, as `Rinternals.h` declares them.
struct Api {
    current: unsafe extern "C" fn(c_int) -> Object,
    kind: unsafe extern "C" fn(Object) -> c_int,
    file: unsafe extern "C" fn(Object) -> Object,
    integers: unsafe extern "C" fn(Object) -> *mut c_int,
    length: unsafe extern "C" fn(Object) -> c_int,
    element: unsafe extern "C" fn(Object, isize) -> Object,
    text: unsafe extern "C" fn(Object) -> *const c_char,
    /// The address of `R_NilValue`.
    nil: usize,
}

/// The most calls of R's functions that are looked at.
const DEEPEST: c_int = 64;
/// The type of vectors of integers.
const INTSXP: c_int = 13;

/// The functions, if the process has an R.
#[expect(
    clippy::missing_transmute_annotations,
    reason = "the type is that of the field"
)]
fn api() -> Option<&'static Api> {
    static API: OnceLock<Option<Api>> = OnceLock::new();
    let found = || {
        Some(Api {
            current: function!(c"R_GetCurrentSrcref"),
            kind: function!(c"TYPEOF"),
            file: function!(c"R_GetSrcFilename"),
            integers: function!(c"INTEGER"),
            length: function!(c"Rf_length"),
            element: function!(c"STRING_ELT"),
            text: function!(c"R_CHAR"),
            nil: loaded(c"R_NilValue")?.expose_provenance(),
        })
    };
    API.get_or_init(found).as_ref()
}

/// The line that R runs on this thread, if it has noted one.
pub(super) fn line() -> Option<Line> {
    let api = api().filter(|_| is_main())?;
    // SAFETY: the data of this name is a pointer to an object, which R sets before it runs anything.
    let nil = unsafe { *core::ptr::with_exposed_provenance::<Object>(api.nil) };
    // SAFETY: this is R's thread, in a function that R has called. Neither function allocates where there is a reference to source. A
    // reference holds eight integers, of which the first is the line, and refers to the file's name.
    unsafe {
        // That of byte code is a symbol.
        let integers = |reference: &Object| {
            !reference.is_null() && *reference != nil && (api.kind)(*reference) == INTSXP
        };
        let mut references = (0..DEEPEST).map(|skip| (api.current)(skip));
        let reference = references.find(integers)?;
        if (api.length)(reference) < 1 {
            return None;
        }
        let line = *(api.integers)(reference);
        let name = (api.file)(reference);
        if name.is_null() || name == nil || (api.length)(name) < 1 {
            return None;
        }
        let text = (api.text)((api.element)(name, 0));
        let file = CStr::from_ptr(text).to_string_lossy().into_owned();
        (!file.is_empty()).then_some(Line { file, line })
    }
}
