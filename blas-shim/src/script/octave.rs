//! The line of an Octave script or function.
//!
//! Octave has no C interface for this: the functions are those of its C++ classes, by the names that GCC and Clang give them. Where a
//! version of Octave lacks one, there is no line.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use super::interpreter::{Line, api, is_main};

type Object = *mut c_void;

/// A `std::string` of GNU's library: its text, and what else it is made of.
#[repr(C)]
struct Text {
    text: *mut c_char,
    _length: usize,
    own: [u8; 16],
}

api! {
    /// `octave::interpreter* octave::interpreter::m_instance`
    interpreter: &'static AtomicPtr<c_void> = c"_ZN6octave11interpreter10m_instanceE";
    /// `tree_evaluator& octave::interpreter::get_evaluator()`
    evaluator: unsafe extern "C" fn(Object) -> Object = c"_ZN6octave11interpreter13get_evaluatorEv";
    /// `int octave::tree_evaluator::debug_user_code_line() const`
    line: unsafe extern "C" fn(Object) -> c_int = c"_ZNK6octave14tree_evaluator20debug_user_code_lineEv";
    /// `octave_user_code* octave::tree_evaluator::debug_user_code() const`
    code: unsafe extern "C" fn(Object) -> Object = c"_ZNK6octave14tree_evaluator15debug_user_codeEv";
    /// `std::string octave_user_code::fcn_file_name() const`: the result's address comes first.
    file: unsafe extern "C" fn(*mut Text, Object) -> *mut Text = c"_ZNK16octave_user_code13fcn_file_nameB5cxx11Ev";
    /// `operator delete(void*)`
    delete: unsafe extern "C" fn(*mut c_void) = c"_ZdlPv";
}

/// The line that Octave runs on this thread, if it is one of a file.
pub(super) fn line() -> Option<Line> {
    let api = api().filter(|_| is_main())?;
    // Null as long as there is no interpreter.
    let interpreter = api.interpreter.load(Relaxed);
    if interpreter.is_null() {
        return None;
    }
    let mut name = Text {
        text: core::ptr::null_mut(),
        _length: 0,
        own: [0; 16],
    };
    // SAFETY: this is the interpreter's thread, in a function that it has called. The functions read its stack of calls. The text is
    // copied and freed as the string's destructor would: unless it lies in the string itself.
    unsafe {
        let evaluator = (api.evaluator)(interpreter);
        let (line, code) = ((api.line)(evaluator), (api.code)(evaluator));
        if code.is_null() || line < 1 {
            return None;
        }
        (api.file)(&raw mut name, code);
        let file = CStr::from_ptr(name.text).to_string_lossy().into_owned();
        if name.text.cast::<u8>() != name.own.as_mut_ptr() {
            (api.delete)(name.text.cast());
        }
        (!file.is_empty()).then_some(Line { file, line })
    }
}
