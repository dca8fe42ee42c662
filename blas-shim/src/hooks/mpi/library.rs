//! The MPI library of the process: which ABI it has, and those of its functions that tell what arguments mean.

#![expect(unsafe_code, reason = "calls functions of MPI")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::RangeInclusive;
use std::sync::OnceLock;

use crate::resolve::objects::{self, Object};
use semcache::process::signals_blocked::SignalsBlocked;

/// What handles and constants are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Abi {
    /// Open MPI's: handles are addresses.
    OpenMpi,
    /// MPICH's, which Intel MPI, MVAPICH and Cray MPICH share: handles are of 32 bits.
    Mpich,
    /// The standard one of MPI 5: handles are addresses, or small numbers.
    Standard,
}

/// The constants of MPI that differ between ABIs.
#[derive(Debug)]
pub(super) struct Constants {
    pub(super) in_place: usize,
    pub(super) root: c_int,
    pub(super) graph: c_int,
    pub(super) cart: c_int,
    pub(super) dist_graph: c_int,
    /// `MPI_STATUS_IGNORE`.
    pub(super) no_status: usize,
    pub(super) combiners: Combiners,
    pub(super) order_c: c_int,
}

/// Constructors of datatypes.
#[derive(Debug)]
pub(super) struct Combiners {
    pub(super) named: c_int,
    pub(super) dup: c_int,
    pub(super) contiguous: c_int,
    pub(super) vector: c_int,
    pub(super) hvector: c_int,
    pub(super) indexed: c_int,
    pub(super) hindexed: c_int,
    pub(super) indexed_block: c_int,
    pub(super) hindexed_block: c_int,
    pub(super) structure: c_int,
    pub(super) subarray: c_int,
    pub(super) resized: c_int,
    /// Those of Fortran's parametrized types, which are predefined.
    pub(super) f90: RangeInclusive<c_int>,
}

impl Abi {
    const fn constants(self) -> &'static Constants {
        match self {
            Abi::OpenMpi => &Constants {
                in_place: 1,
                root: -4,
                graph: 2,
                cart: 1,
                dist_graph: 3,
                no_status: 0,
                combiners: Combiners {
                    named: 0,
                    dup: 1,
                    contiguous: 2,
                    vector: 3,
                    hvector: 5,
                    indexed: 6,
                    hindexed: 8,
                    indexed_block: 9,
                    hindexed_block: 18,
                    structure: 11,
                    subarray: 12,
                    resized: 17,
                    f90: 14..=16,
                },
                order_c: 0,
            },
            Abi::Mpich => &Constants {
                in_place: usize::MAX,
                root: -3,
                graph: 1,
                cart: 2,
                dist_graph: 3,
                no_status: 1,
                combiners: Combiners {
                    named: 1,
                    dup: 2,
                    contiguous: 3,
                    vector: 4,
                    hvector: 6,
                    indexed: 7,
                    hindexed: 9,
                    indexed_block: 10,
                    hindexed_block: 19,
                    structure: 12,
                    subarray: 13,
                    resized: 18,
                    f90: 15..=17,
                },
                order_c: 56,
            },
            Abi::Standard => &Constants {
                in_place: 1,
                root: -4,
                graph: 212,
                cart: 211,
                dist_graph: 213,
                no_status: 0,
                combiners: Combiners {
                    named: 101,
                    dup: 102,
                    contiguous: 103,
                    vector: 104,
                    hvector: 105,
                    indexed: 106,
                    hindexed: 107,
                    indexed_block: 108,
                    hindexed_block: 109,
                    structure: 110,
                    subarray: 111,
                    resized: 116,
                    f90: 113..=115,
                },
                order_c: 12,
            },
        }
    }

    /// Bytes of a handle, but of a file's, which is an address everywhere.
    pub(super) const fn handle_bytes(self) -> usize {
        match self {
            Abi::Mpich => 4,
            Abi::OpenMpi | Abi::Standard => 8,
        }
    }

    /// The ABI of the library that calls itself so, if it is known.
    fn of(version: &[u8], file: &[u8]) -> Option<Abi> {
        let says = |name: &str| {
            version
                .windows(name.len())
                .any(|part| part == name.as_bytes())
        };
        let is = |name: &str| file.windows(name.len()).any(|part| part == name.as_bytes());
        // These stand before another library, whose text they give, and have handles of their own.
        if ["trampoline", "wrapper", "wi4mpi"]
            .iter()
            .any(|name| is(name))
        {
            return None;
        }
        if is("libmpi_abi.so") {
            return Some(Abi::Standard);
        }
        if says("Open MPI") {
            return Some(Abi::OpenMpi);
        }
        let kin = ["MPICH", "MVAPICH", "Intel(R) MPI", "ParaStation MPI"];
        kin.iter().any(|name| says(name)).then_some(Abi::Mpich)
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $name:literal ($($type:ty),*);)*) => {
        /// Functions of the library.
        #[derive(Debug)]
        pub(super) struct Functions {
            $($(#[$doc])* pub(super) $field: unsafe extern "C-unwind" fn($($type),*) -> c_int,)*
        }

        impl Functions {
            fn of(library: &Object) -> Option<Functions> {
                Some(Functions {
                    $($field: {
                        let name = CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()).ok()?;
                        let address = library.definition(name)?;
                        // SAFETY: MPI's function of this name has this type: handles of 32 bits are passed as the low half of a word.
                        unsafe { core::mem::transmute::<usize, unsafe extern "C-unwind" fn($($type),*) -> c_int>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    version = "PMPI_Get_library_version" (*mut c_char, *mut c_int);
    extent = "PMPI_Type_get_extent" (usize, *mut isize, *mut isize);
    true_extent = "PMPI_Type_get_true_extent" (usize, *mut isize, *mut isize);
    type_size = "PMPI_Type_size_x" (usize, *mut i64);
    envelope = "PMPI_Type_get_envelope" (usize, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    contents = "PMPI_Type_get_contents" (usize, c_int, c_int, c_int, *mut c_int, *mut isize, *mut c_void);
    type_free = "PMPI_Type_free" (*mut usize);
    comm_size = "PMPI_Comm_size" (usize, *mut c_int);
    comm_rank = "PMPI_Comm_rank" (usize, *mut c_int);
    remote_size = "PMPI_Comm_remote_size" (usize, *mut c_int);
    is_inter = "PMPI_Comm_test_inter" (usize, *mut c_int);
    topology = "PMPI_Topo_test" (usize, *mut c_int);
    dimensions = "PMPI_Cartdim_get" (usize, *mut c_int);
    neighbors = "PMPI_Graph_neighbors_count" (usize, c_int, *mut c_int);
    neighbors_of_each_kind = "PMPI_Dist_graph_neighbors_count" (usize, *mut c_int, *mut c_int, *mut c_int);
    test = "PMPI_Test" (*mut usize, *mut c_int, usize);
    free_request = "PMPI_Request_free" (*mut usize);
}

/// Libraries that use network adapters, by parts of their names: verbs, UCX, libfabric, and what of Omni-Path, Slingshot and others.
const ADAPTERS: [&str; 7] = [
    "libibverbs",
    "libuct_ib",
    "libfabric",
    "libpsm",
    "libcxi",
    "libefa",
    "libportals",
];

type LargeEnvelope =
    unsafe extern "C-unwind" fn(usize, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int) -> c_int;

/// The MPI library of the process.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) abi: Abi,
    pub(super) functions: Functions,
    /// `MPI_Type_get_envelope_c`, which a library of MPI 4 has. It also takes datatypes that were made with large counts.
    pub(super) large_envelope: Option<LargeEnvelope>,
    /// `MPI_DATATYPE_NULL`, `MPI_COMM_NULL`, `MPI_REQUEST_NULL`.
    nulls: [usize; 3],
    /// Whether network adapters may read and write memory of this process.
    pub(super) has_adapters: bool,
}

static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();

/// The library, once MPI is initialised; none if its ABI is not known.
pub(super) fn known() -> Option<&'static Library> {
    LIBRARY.get()?.as_ref()
}

/// Finds the library when MPI is initialised. Whether its ABI is known.
pub(super) fn find() -> bool {
    LIBRARY.get_or_init(of_process).is_some()
}

fn of_process() -> Option<Library> {
    // The look-ups take the loader's lock, so signals are blocked, as in `Real::ask`.
    let _blocked = SignalsBlocked::new();
    let here = find as *const () as usize;
    let loaded = objects::loaded();
    let others = loaded.iter().filter(|object| !object.contains(here));
    // A tool that wraps functions of MPI defines none of these names.
    let (object, functions) = others
        .filter_map(|object| Some((object, Functions::of(object)?)))
        .next()?;
    let mut version = vec![0_u8; 8192];
    let mut length = 0;
    // SAFETY: no library has a longer text (`MPI_MAX_LIBRARY_VERSION_STRING`).
    let status = unsafe { (functions.version)(version.as_mut_ptr().cast(), &raw mut length) };
    let version = version.get(..usize::try_from(length).ok()?)?;
    let abi = Abi::of(version, object.path.to_bytes()).filter(|_| status == 0)?;
    let nulls = match abi {
        Abi::Mpich => [0x0c00_0000, 0x0400_0000, 0x2c00_0000],
        Abi::Standard => [0x200, 0x100, 0x180],
        // The variables themselves may be copies in the program, so functions are asked by Fortran's handles.
        Abi::OpenMpi => [
            handle(object, c"PMPI_Type_f2c", 0)?,
            handle(object, c"PMPI_Comm_f2c", 2)?,
            // Not an address before MPI is initialised: by sessions alone it never is.
            handle(object, c"PMPI_Request_f2c", 0)
                .filter(|null| *null != 0 && *null != usize::MAX)?,
        ],
    };
    let large_envelope = object
        .definition(c"PMPI_Type_get_envelope_c")
        .map(|address| {
            // SAFETY: MPI's function of this name has this type.
            unsafe { core::mem::transmute::<usize, LargeEnvelope>(address) }
        });
    let is_of_adapters = |object: &Object| {
        let path = object.path.to_bytes();
        let is = |name: &&str| path.windows(name.len()).any(|part| part == name.as_bytes());
        ADAPTERS.iter().any(is)
    };
    Some(Library {
        abi,
        functions,
        large_envelope,
        nulls,
        has_adapters: loaded.iter().any(is_of_adapters),
    })
}

/// A handle of Open MPI, from Fortran's.
fn handle(library: &Object, name: &CStr, fortran: c_int) -> Option<usize> {
    let address = library.definition(name)?;
    // SAFETY: Open MPI's function of this name.
    let of =
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(c_int) -> usize>(address) };
    // SAFETY: it takes any number, and knows these.
    Some(unsafe { of(fortran) })
}

impl Library {
    pub(super) const fn constants(&self) -> &'static Constants {
        self.abi.constants()
    }

    /// A handle among the arguments of a function.
    pub(super) const fn of_word(&self, word: usize) -> usize {
        match self.abi {
            Abi::Mpich => word & 0xffff_ffff,
            Abi::OpenMpi | Abi::Standard => word,
        }
    }

    /// The handle that a function has stored, or that is the n-th one of an array.
    pub(super) fn stored(&self, at: usize, n: usize) -> usize {
        let at = at.wrapping_add(n * self.abi.handle_bytes());
        // SAFETY: the program's argument, an array that has such an element.
        unsafe {
            match self.abi {
                Abi::Mpich => (at as *const u32).read_unaligned() as usize,
                Abi::OpenMpi | Abi::Standard => (at as *const usize).read_unaligned(),
            }
        }
    }

    /// Stores `MPI_REQUEST_NULL` where the program's request is.
    pub(super) fn store_no_request(&self, at: usize) {
        let [_, _, null] = self.nulls;
        // SAFETY: the program's argument.
        unsafe {
            match self.abi {
                Abi::Mpich => (at as *mut u32).write_unaligned(null as u32),
                Abi::OpenMpi | Abi::Standard => (at as *mut usize).write_unaligned(null),
            }
        }
    }

    /// Whether a request is `MPI_REQUEST_NULL`.
    pub(super) const fn is_no_request(&self, request: usize) -> bool {
        let [_, _, null] = self.nulls;
        self.of_word(request) == null
    }

    /// Whether functions of MPI take this datatype without an error, which would call an error handler.
    pub(super) fn is_datatype(&self, handle: usize) -> bool {
        let [null, ..] = self.nulls;
        handle != null && self.is_of(handle, 3)
    }

    /// The same of a communicator.
    pub(super) fn is_comm(&self, handle: usize) -> bool {
        let [_, null, _] = self.nulls;
        handle != null && self.is_of(handle, 1)
    }

    /// Whether a handle is one at all: of MPICH, one of this kind of object.
    fn is_of(&self, handle: usize, object: usize) -> bool {
        match self.abi {
            Abi::Mpich => handle >> 30 != 0 && handle >> 26 & 15 == object,
            Abi::OpenMpi | Abi::Standard => handle != 0,
        }
    }

    /// What a function says of a communicator.
    pub(super) fn number(
        &self,
        function: unsafe extern "C-unwind" fn(usize, *mut c_int) -> c_int,
        comm: usize,
    ) -> Option<usize> {
        let mut number = 0;
        // SAFETY: a communicator, and where to store the number.
        let status = unsafe { function(comm, &raw mut number) };
        (status == 0)
            .then_some(usize::try_from(number).ok())
            .flatten()
    }
}
