//! The table that the library exports, with the structures of `semcache.h`.

#![expect(unsafe_code, reason = "reads a table of another library")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// `semcache_matrix`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    pub(crate) size: u32,
    pub(crate) element: u32,
    pub(crate) data: *const c_void,
    pub(crate) rows: i64,
    pub(crate) cols: i64,
    pub(crate) ld: i64,
}

/// `semcache_statistics`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Statistics {
    pub(crate) size: u64,
    pub(crate) offloaded: u64,
    pub(crate) h2d: u64,
    pub(crate) d2h: u64,
    pub(crate) p2p: u64,
    pub(crate) faults: u64,
}

/// `semcache_distribution`.
#[repr(C)]
pub(crate) struct Distribution {
    pub(crate) size: u32,
    pub(crate) kind: u32,
    pub(crate) mb: i64,
    pub(crate) nb: i64,
    pub(crate) p: i32,
    pub(crate) q: i32,
    pub(crate) owner: Option<unsafe extern "C" fn(i64, i64, *mut c_void) -> i32>,
    pub(crate) user: *mut c_void,
}

/// `semcache_device_matrix`.
#[repr(C)]
pub(crate) struct DeviceMatrix {
    pub(crate) size: u32,
    pub(crate) device: i32,
    pub(crate) address: u64,
    pub(crate) ld: i64,
    pub(crate) hold: u64,
    pub(crate) context: *mut c_void,
}

/// `semcache_rates`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Rates {
    pub(crate) size: u64,
    pub(crate) h2d_bytes_per_s: f64,
    pub(crate) d2h_bytes_per_s: f64,
    pub(crate) p2p_bytes_per_s: f64,
    pub(crate) latency_s: f64,
    pub(crate) sgemm_flops: f64,
    pub(crate) dgemm_flops: f64,
    pub(crate) host_sgemm_flops: f64,
    pub(crate) host_dgemm_flops: f64,
    pub(crate) memory: u64,
}

/// `semcache_prediction`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Prediction {
    pub(crate) size: u32,
    pub(crate) devices: i32,
    pub(crate) host_s: f64,
    pub(crate) devices_s: f64,
}

/// `semcache_csr`; `kind` is its `type`.
#[repr(C)]
pub(crate) struct Csr {
    pub(crate) size: u32,
    pub(crate) kind: u32,
    pub(crate) index_bytes: u32,
    pub(crate) base: u32,
    pub(crate) rows: i64,
    pub(crate) cols: i64,
    pub(crate) row_offsets: *const c_void,
    pub(crate) columns: *const c_void,
    pub(crate) values: *const c_void,
}

/// The size of a structure, which is its first field.
pub(crate) const fn size<T>() -> u32 {
    assert!(size_of::<T>() < 1 << 16);
    size_of::<T>() as u32
}

/// Declares the table, and for each of its functions one of the same name that finds it. Null counts as absent.
macro_rules! interface {
    ($($name:ident($($argument:ty),*);)*) => {
        /// `semcache_interface`.
        #[repr(C)]
        struct Interface {
            size: usize,
            $($name: Option<unsafe extern "C" fn($($argument),*) -> c_int>,)*
        }

        $(pub(crate) fn $name() -> Result<unsafe extern "C" fn($($argument),*) -> c_int> {
            type Entry = Option<unsafe extern "C" fn($($argument),*) -> c_int>;
            // SAFETY: the type of the field at this offset.
            let entry = unsafe { entry::<Entry>(offset_of!(Interface, $name)) };
            entry.flatten().ok_or(Error::Absent)
        })*
    };
}

interface! {
    devices();
    prefetch(*const Matrix, c_int, *mut u64);
    coherent(*const Matrix, *mut u64);
    to_cpu(*const Matrix, c_int);
    evict(*const Matrix, c_int);
    residency(*const Matrix, c_int, *mut i64);
    wait(*const u64, c_int);
    statistics(*mut Statistics);
    section(c_int, *mut u64);
    distribute(*const Matrix, *const Distribution, *mut u64);
    pin(*const Matrix, c_int, c_int, *mut u64);
    to_gpu(*const Matrix, c_int, c_int, *mut DeviceMatrix);
    release(u64);
    name(*const Matrix, *const c_char);
    range(*const c_char);
    rates(c_int, *mut Rates);
    predict(*const c_char, *const i64, c_int, *mut Prediction);
    csr_multiply(*const Csr, c_int, *const c_void, *const Matrix, *const c_void, *const Matrix);
}

/// The table: as long as its first field says, which may be shorter or longer than [`Interface`].
struct Library(NonNull<Interface>);

// SAFETY: constant data of a library that stays loaded.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Looks the library up once.
fn library() -> Option<NonNull<Interface>> {
    static FOUND: OnceLock<Option<Library>> = OnceLock::new();
    let look_up = || {
        // SAFETY: the name ends with a zero.
        let table = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"semcache_interface_1".as_ptr()) };
        NonNull::new(table.cast()).map(Library)
    };
    FOUND.get_or_init(look_up).as_ref().map(|found| found.0)
}

/// The field at an offset of the table, if there is a table and it is that long (`SEMCACHE_HAS`).
///
/// # Safety
/// [`Interface`] has a field of type `F` there.
unsafe fn entry<F: Copy>(offset: usize) -> Option<F> {
    let table = library()?.as_ptr();
    // SAFETY: every version of the table begins with its size. Fields are read by pointers, since a reference to the structure would
    // claim memory that an older table does not have.
    let size = unsafe { (&raw const (*table).size).read() };
    let has = offset + size_of::<F>() <= size;
    // SAFETY: the table has the field, since fields are only ever added at its end; its type is the caller's promise.
    has.then(|| unsafe { table.byte_add(offset).cast::<F>().read() })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// Offsets and sizes of structures, in the words of C and by Rust.
    macro_rules! layouts {
        ($($c:literal $rust:ident { $($field:ident),* })*) => {
            [$(
                (format!("sizeof({})", $c), size_of::<$rust>()),
                $((format!("offsetof({}, {})", $c, stringify!($field)), offset_of!($rust, $field)),)*
            )*]
        };
    }

    #[test]
    fn structures_are_those_of_the_header() {
        let all = layouts! {
            "semcache_matrix" Matrix { size, element, data, rows, cols, ld }
            "semcache_statistics" Statistics { size, offloaded, h2d, d2h, p2p, faults }
            "semcache_distribution" Distribution { size, kind, mb, nb, p, q, owner, user }
            "semcache_device_matrix" DeviceMatrix { size, device, address, ld, hold, context }
            "semcache_rates" Rates {
                size, h2d_bytes_per_s, d2h_bytes_per_s, p2p_bytes_per_s, latency_s, sgemm_flops, dgemm_flops,
                host_sgemm_flops, host_dgemm_flops, memory
            }
            "semcache_prediction" Prediction { size, devices, host_s, devices_s }
            "semcache_csr" Csr { size, index_bytes, base, rows, cols, row_offsets, columns, values }
            "semcache_interface" Interface {
                size, devices, prefetch, coherent, to_cpu, evict, residency, wait, statistics, section, distribute, pin, to_gpu,
                release, name, range, rates, predict, csr_multiply
            }
        };
        let checks: String = all
            .iter()
            .map(|(c, rust)| format!("_Static_assert({c} == {rust}, \"{c}\");\n"))
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("layout.c");
        fs::write(&source, format!("#include \"semcache.h\"\n{checks}")).unwrap();
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../include");
        let mut gcc = Command::new("gcc");
        let output = gcc
            .args(["-std=c11", "-fsyntax-only", include])
            .arg(source)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
