//! The line of an R script. R notes lines in functions that are parsed with `options(keep.source = TRUE)`: by default in an interactive
//! session, else if the option is set before `source`.

use core::ffi::{CStr, c_char, c_int, c_void};

use super::interpreter::{Line, api, is_main};

type Object = *mut c_void;

// Functions of R's C interface, as `Rinternals.h` declares them.
api! {
    current: unsafe extern "C" fn(c_int) -> Object = c"R_GetCurrentSrcref";
    kind: unsafe extern "C" fn(Object) -> c_int = c"TYPEOF";
    file: unsafe extern "C" fn(Object) -> Object = c"R_GetSrcFilename";
    integers: unsafe extern "C" fn(Object) -> *mut c_int = c"INTEGER";
    length: unsafe extern "C" fn(Object) -> c_int = c"Rf_length";
    element: unsafe extern "C" fn(Object, isize) -> Object = c"STRING_ELT";
    text: unsafe extern "C" fn(Object) -> *const c_char = c"R_CHAR";
}

/// The most calls of R's functions that are looked at.
const DEEPEST: c_int = 64;
/// The types of vectors of integers and of texts.
const INTSXP: c_int = 13;
const STRSXP: c_int = 16;

/// The line that R runs on this thread, if it has noted one.
pub(super) fn line() -> Option<Line> {
    let api = api().filter(|_| is_main())?;
    // SAFETY: this is R's thread, in a function that R has called. Neither function allocates where there is a reference to source. A
    // reference holds eight integers, of which the first is the line, and refers to the file's name.
    unsafe {
        // That of byte code is a symbol.
        let is = |object: Object, kind| !object.is_null() && (api.kind)(object) == kind;
        let mut references = (0..DEEPEST).map(|skip| (api.current)(skip));
        let reference = references.find(|reference| is(*reference, INTSXP))?;
        if (api.length)(reference) < 1 {
            return None;
        }
        let line = *(api.integers)(reference);
        let name = (api.file)(reference);
        if !is(name, STRSXP) || (api.length)(name) < 1 {
            return None;
        }
        let text = (api.text)((api.element)(name, 0));
        let file = CStr::from_ptr(text).to_string_lossy().into_owned();
        (!file.is_empty()).then_some(Line { file, line })
    }
}
