//! Opens a host BLAS library and calls its routines by their Fortran names.

#![expect(
    unsafe_code,
    reason = "opens a library and calls what it has; the process does nothing else"
)]

use std::error::Error as _;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::ManuallyDrop;

use libloading::os::unix as loader;
use num_complex::Complex64;
use semcache::base::Dtype;

use super::data::{Layout, Matrix, Vector};

/// The number of arguments of the longest routine, with the lengths of its character arguments.
const MOST: usize = 16;

/// The registers xmm0 and xmm1, in which functions return: real values and single precision complex ones in the first,
/// double precision complex ones in both.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pair(f64, f64);

type Address = *const c_void;
type Arguments = [Address; MOST];

macro_rules! called {
    ($f:expr, $result:ty, $a:expr) => {{
        type P = Address;
        // SAFETY: a routine of the BLAS: its arguments are addresses, followed by the lengths of characters, all in
        // integer registers or on the stack, from which the caller removes them; so further ones do no harm.
        let f = unsafe {
            std::mem::transmute::<Address, unsafe extern "C" fn(P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P) -> $result>($f)
        };
        let a = $a;
        // SAFETY: each address is that of an argument as the routine expects it; the argument lives until the routine
        // returns.
        unsafe { f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]) }
    }};
}

/// An open library, the prefix and suffix that it adds to the names of routines, and how its functions return values.
#[derive(Debug)]
pub(crate) struct Library {
    path: String,
    /// Never closed: threads of the library may be running, and addresses of its routines are kept.
    file: ManuallyDrop<loader::Library>,
    /// The libraries that the process started with.
    process: loader::Library,
    /// Whether routines of preloaded libraries are preferred, as for programs that are linked with the library. Not if
    /// semcache is preloaded: then the routines of its host BLAS are to be called.
    preloads: bool,
    before: &'static str,
    after: &'static str,
    /// Whether single-precision functions return double-precision values, as in f2c's convention.
    widened: bool,
    /// Whether complex functions store their value at an address that is passed before all arguments, as in f2c's
    /// convention.
    hidden: bool,
}

fn lookup(scope: &loader::Library, name: &CStr) -> Option<Address> {
    // SAFETY: what lies at the address is not used here.
    let found = unsafe { scope.get::<Address>(name) }.ok()?.as_raw_ptr();
    (!found.is_null()).then_some(found.cast_const())
}

/// Whether the functions of a scope are semcache's: no other BLAS exports all of these names.
fn is_semcache(scope: &loader::Library) -> bool {
    let names = [
        c"scipy_dgemm_",
        c"scipy_cblas_dgemm64_",
        c"cblas_dgemm_64",
        c"dgemm_64",
    ];
    names.into_iter().all(|name| lookup(scope, name).is_some())
}

impl Library {
    /// Opens a library.
    pub(crate) fn open(path: &str) -> Result<Library, String> {
        // SAFETY: the library's constructors run here as they would in a program; it is never closed.
        let file =
            unsafe { loader::Library::open(Some(path), loader::RTLD_LAZY | loader::RTLD_LOCAL) }
                .map_err(|e| {
                    e.source()
                        .map_or_else(|| e.to_string(), ToString::to_string)
                })?;
        let process = loader::Library::this();
        let mut library = Library {
            path: path.to_owned(),
            file: ManuallyDrop::new(file),
            preloads: !is_semcache(&process),
            process,
            before: "",
            after: "_",
            widened: false,
            hidden: false,
        };
        if is_semcache(&library.file) {
            return Err("that is semcache itself".into());
        }
        let spellings = [
            ("", "_"),
            ("", "_64_"),
            ("scipy_", "_"),
            ("scipy_", "_64_"),
            ("", ""),
        ];
        for (before, after) in spellings {
            (library.before, library.after) = (before, after);
            if library.symbol("dgemm").is_some() {
                return Ok(library);
            }
        }
        Err("has no dgemm".into())
    }

    /// The address to which a program that is linked with the library would be bound for a name.
    fn find(&self, name: &CStr) -> Option<Address> {
        let preloaded = self.preloads.then(|| lookup(&self.process, name));
        preloaded.flatten().or_else(|| lookup(&self.file, name))
    }

    fn symbol(&self, routine: &str) -> Option<Address> {
        let name = format!("{}{routine}{}", self.before, self.after);
        self.find(&CString::new(name).ok()?)
    }

    /// A routine, if the library has it.
    pub(crate) fn routine<'a>(&self, name: &'a str) -> Option<Routine<'a>> {
        // AMD's BLIS has these routines without their first argument, ORDER.
        if name.ends_with("matcopy") && self.omits_order() {
            return None;
        }
        let address = self.symbol(name)?;
        let (widened, hidden) = (self.widened, self.hidden);
        Some(Routine {
            name,
            address,
            widened,
            hidden,
        })
    }

    fn omits_order(&self) -> bool {
        self.find(c"bli_info_get_version_str").is_some()
            && self.find(c"openblas_get_config").is_none()
    }

    /// Finds out, by calls of `sdot` and `cdotu`, how functions return values.
    pub(super) fn probe(&mut self) {
        let x = [Complex64::new(3.0, 0.0)];
        let first = |routine| {
            let mut call = Call::new(routine, Dtype::S);
            call.int(1).array(&x).int(1).array(&x).int(1);
            call.registers().0
        };
        self.widened = self.routine("sdot").map(first) == Some(9.0);
        // Every argument is the integer one (read as a floating-point number: nearly zero), so that the call is also
        // valid if the function takes its first argument for the address of its value, and each other argument for the
        // one before.
        let overwritten = |routine| {
            let mut call = Call::new(routine, Dtype::C);
            call.int(1).int(1).int(1).int(1).int(1).int(1).run();
            call.arguments[0].words != [1]
        };
        self.hidden = self.routine("cdotu").is_some_and(overwritten);
    }

    /// The path of the file that contains the routine, if that is not the library itself.
    pub(super) fn elsewhere(&self, routine: &str) -> Option<String> {
        let mut about = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: an address in a library, and room for the answer, which is read only if the address was found.
        let path = unsafe {
            if libc::dladdr(self.symbol(routine)?, about.as_mut_ptr()) == 0 {
                return None;
            }
            about
                .assume_init()
                .dli_fname
                .as_ref()
                .map(|p| CStr::from_ptr(p))
        };
        let path = path?.to_string_lossy().into_owned();
        let real = |path: &str| std::fs::canonicalize(path).ok();
        (real(&path) != real(&self.path)).then_some(path)
    }

    /// The string that a function of OpenBLAS's without arguments returns.
    pub(super) fn says(&self, function: &CStr) -> Option<String> {
        let f = self.find(function)?;
        // SAFETY: the two functions for which this is called have this type and return static strings.
        let text = unsafe {
            let f = std::mem::transmute::<Address, unsafe extern "C" fn() -> *const c_char>(f);
            f().as_ref().map(|text| CStr::from_ptr(text))
        };
        Some(text?.to_string_lossy().into_owned())
    }
}

/// One argument of a call: the memory whose address the routine gets, and the value that messages show.
struct Argument {
    words: Vec<u64>,
    shown: Shown,
}

/// The value of an argument that a message shows.
enum Shown {
    Letter(u8),
    Int(i64),
    Scalar(Complex64),
    Array,
}

/// A routine of a library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routine<'a> {
    pub(super) name: &'a str,
    address: Address,
    widened: bool,
    hidden: bool,
}

impl Routine<'_> {
    /// Calls the routine once with these arguments: each is the memory whose address it gets. For times of calls, between which
    /// nothing is allocated.
    pub(crate) fn call(self, arguments: &mut [&mut [u64]]) {
        let mut addresses: Arguments = [std::ptr::without_provenance(1); MOST];
        for (address, argument) in addresses.iter_mut().zip(arguments) {
            *address = argument.as_mut_ptr().cast_const().cast();
        }
        called!(self.address, Pair, addresses);
    }
}

/// A call whose arguments are added one by one.
pub(super) struct Call<'a> {
    routine: Routine<'a>,
    dtype: Dtype,
    arguments: Vec<Argument>,
}

impl<'a> Call<'a> {
    pub(super) fn new(routine: Routine<'a>, dtype: Dtype) -> Call<'a> {
        Call {
            routine,
            dtype,
            arguments: Vec::with_capacity(MOST),
        }
    }

    /// The number of arguments so far: the position of the next one.
    pub(super) fn count(&self) -> usize {
        self.arguments.len()
    }

    fn add(&mut self, words: Vec<u64>, shown: Shown) -> &mut Self {
        self.arguments.push(Argument { words, shown });
        self
    }

    pub(super) fn letter(&mut self, letter: u8) -> &mut Self {
        self.add(vec![letter.into()], Shown::Letter(letter))
    }

    /// An integer of 64 bits, whose lower half is the same number for libraries with 32-bit integers.
    pub(super) fn int(&mut self, n: i64) -> &mut Self {
        self.add(vec![n.cast_unsigned()], Shown::Int(n))
    }

    pub(super) fn scalar(&mut self, value: Complex64) -> &mut Self {
        self.scalar_of(self.dtype, value)
    }

    /// A real number of the call's precision.
    pub(super) fn real(&mut self, value: f64) -> &mut Self {
        self.scalar_of(real_of(self.dtype), Complex64::new(value, 0.0))
    }

    /// A scalar. If `real`, the routine takes only its real part, and the imaginary part becomes zero.
    pub(super) fn scalar_or_real(&mut self, value: &mut Complex64, real: bool) -> &mut Self {
        if real {
            value.im = 0.0;
            self.real(value.re)
        } else {
            self.scalar(*value)
        }
    }

    fn scalar_of(&mut self, dtype: Dtype, value: Complex64) -> &mut Self {
        self.add(pack(dtype, &[value]), Shown::Scalar(value))
    }

    pub(super) fn array(&mut self, values: &[Complex64]) -> &mut Self {
        self.add(pack(self.dtype, values), Shown::Array)
    }

    /// A vector, and its increment.
    pub(super) fn vector(&mut self, x: &Vector) -> &mut Self {
        self.array(&x.v).int(x.inc)
    }

    /// A matrix, and its leading dimension if it is not packed.
    pub(super) fn matrix(&mut self, a: &Matrix) -> &mut Self {
        self.array(&a.v);
        match a.layout {
            Layout::Full { ld } | Layout::Band { ld, .. } => self.int(ld as i64),
            Layout::Packed => self,
        }
    }

    /// Real numbers of the call's precision.
    pub(super) fn reals(&mut self, values: &[f64]) -> &mut Self {
        let values: Vec<Complex64> = values.iter().map(|&v| v.into()).collect();
        self.add(pack(real_of(self.dtype), &values), Shown::Array)
    }

    /// The addresses of the arguments, followed by ones: the lengths of arguments of one character.
    fn addresses(&mut self) -> Arguments {
        let mut addresses: Arguments = [std::ptr::without_provenance(1); MOST];
        for (address, argument) in addresses.iter_mut().zip(&mut self.arguments) {
            *address = argument.words.as_mut_ptr().cast_const().cast();
        }
        addresses
    }

    fn registers(&mut self) -> Pair {
        called!(self.routine.address, Pair, self.addresses())
    }

    /// Calls a subroutine.
    pub(super) fn run(&mut self) {
        self.registers();
    }

    /// Calls a function of integer value.
    pub(super) fn index(&mut self) -> i64 {
        called!(self.routine.address, i32, self.addresses()).into()
    }

    /// Calls a function whose value is of this type.
    pub(super) fn value(&mut self, dtype: Dtype) -> Complex64 {
        if self.routine.hidden && dtype.is_complex() {
            let words = vec![0; 2];
            let shown = Shown::Array;
            self.arguments.insert(0, Argument { words, shown });
            self.run();
            return unpack(dtype, &self.arguments.remove(0).words)[0];
        }
        let Pair(first, second) = self.registers();
        match dtype {
            Dtype::S if self.routine.widened => first.into(),
            Dtype::D => first.into(),
            Dtype::S | Dtype::C => unpack(dtype, &[first.to_bits()])[0],
            Dtype::Z => Complex64::new(first, second),
        }
    }

    /// The values of an array after the call.
    pub(super) fn now(&self, argument: usize) -> Vec<Complex64> {
        unpack(self.dtype, &self.arguments[argument].words)
    }

    /// The values of an array of real numbers after the call.
    pub(super) fn reals_now(&self, argument: usize) -> Vec<f64> {
        let values = unpack(real_of(self.dtype), &self.arguments[argument].words);
        values.iter().map(|v| v.re).collect()
    }

    /// Fails with a message that shows both values, unless `fine`.
    pub(super) fn must(
        &self,
        fine: bool,
        got: Complex64,
        expected: Complex64,
    ) -> Result<(), Wrong> {
        if fine {
            return Ok(());
        }
        let (got, expected) = (show(got), show(expected));
        Err(Wrong(format!(
            "{got} instead of {expected} in {}",
            self.text()
        )))
    }

    /// Fails if an array holds other values than the expected ones after the call.
    pub(super) fn must_hold(&self, argument: usize, expected: &[Complex64]) -> Result<(), Wrong> {
        let now = self.now(argument);
        let differs = now
            .iter()
            .zip(expected)
            .find(|(now, expected)| now != expected);
        differs.map_or(Ok(()), |(now, expected)| self.must(false, *now, *expected))
    }

    /// The text of the call in messages.
    fn text(&self) -> String {
        let mut text = format!("{}(", self.routine.name);
        for (i, argument) in self.arguments.iter().enumerate() {
            text.push_str(if i == 0 { "" } else { ", " });
            match argument.shown {
                Shown::Letter(letter) => text.push(letter.into()),
                Shown::Int(n) => text.push_str(&n.to_string()),
                Shown::Scalar(value) => text.push_str(&show(value)),
                Shown::Array => text.push('*'),
            }
        }
        text + ")"
    }
}

/// A message that names a call, its wrong result and the right one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wrong(pub(super) String);

fn show(value: Complex64) -> String {
    let part = |v: f64| match v.abs() {
        1e-3..1e9 | 0.0 => v.to_string(),
        _ => format!("{v:e}"),
    };
    if value.im == 0.0 {
        part(value.re)
    } else {
        format!("({}, {})", part(value.re), part(value.im))
    }
}

/// The real type of the same precision.
pub(super) const fn real_of(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::S | Dtype::C => Dtype::S,
        Dtype::D | Dtype::Z => Dtype::D,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers that are exact in either precision, or near enough"
)]
fn pack(dtype: Dtype, values: &[Complex64]) -> Vec<u64> {
    let single = |v: f64| u64::from((v as f32).to_bits());
    match dtype {
        Dtype::S => values
            .chunks(2)
            .map(|pair| single(pair[0].re) | pair.get(1).map_or(0, |v| single(v.re) << 32))
            .collect(),
        Dtype::D => values.iter().map(|v| v.re.to_bits()).collect(),
        Dtype::C => values
            .iter()
            .map(|v| single(v.re) | single(v.im) << 32)
            .collect(),
        Dtype::Z => values
            .iter()
            .flat_map(|v| [v.re.to_bits(), v.im.to_bits()])
            .collect(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "halves of words")]
fn unpack(dtype: Dtype, words: &[u64]) -> Vec<Complex64> {
    let single = |bits: u64| f64::from(f32::from_bits(bits as u32));
    match dtype {
        Dtype::S => words
            .iter()
            .flat_map(|w| [single(*w).into(), single(*w >> 32).into()])
            .collect(),
        Dtype::D => words.iter().map(|w| f64::from_bits(*w).into()).collect(),
        Dtype::C => words
            .iter()
            .map(|w| Complex64::new(single(*w), single(*w >> 32)))
            .collect(),
        Dtype::Z => words
            .chunks(2)
            .map(|w| Complex64::new(f64::from_bits(w[0]), f64::from_bits(w[1])))
            .collect(),
    }
}
