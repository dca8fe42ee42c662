//! The exported functions of MKL's inspector-executor interface: products of a sparse matrix with a vector (`mv`) or several (`mm`).

use core::ffi::CStr;

use semcache::base::Dtype;

/// Calls a macro with the functions: number, name, the function of the same interface that says where a matrix lies, element type,
/// whether the vectors are several.
macro_rules! products {
    ($with:ident) => {
        $with! {
            0 mkl_sparse_s_mv mkl_sparse_s_export_csr S false,
            1 mkl_sparse_d_mv mkl_sparse_d_export_csr D false,
            2 mkl_sparse_c_mv mkl_sparse_c_export_csr C false,
            3 mkl_sparse_z_mv mkl_sparse_z_export_csr Z false,
            4 mkl_sparse_s_mm mkl_sparse_s_export_csr S true,
            5 mkl_sparse_d_mm mkl_sparse_d_export_csr D true,
            6 mkl_sparse_c_mm mkl_sparse_c_export_csr C true,
            7 mkl_sparse_z_mm mkl_sparse_z_export_csr Z true,
            8 mkl_sparse_s_mv_64 mkl_sparse_s_export_csr_64 S false,
            9 mkl_sparse_d_mv_64 mkl_sparse_d_export_csr_64 D false,
            10 mkl_sparse_c_mv_64 mkl_sparse_c_export_csr_64 C false,
            11 mkl_sparse_z_mv_64 mkl_sparse_z_export_csr_64 Z false,
            12 mkl_sparse_s_mm_64 mkl_sparse_s_export_csr_64 S true,
            13 mkl_sparse_d_mm_64 mkl_sparse_d_export_csr_64 D true,
            14 mkl_sparse_c_mm_64 mkl_sparse_c_export_csr_64 C true,
            15 mkl_sparse_z_mm_64 mkl_sparse_z_export_csr_64 Z true,
        }
    };
}
pub(crate) use products;

/// One of the functions.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static CStr,
    /// The function that says where the arrays of a matrix lie.
    pub(crate) export: &'static CStr,
    pub(crate) dtype: Dtype,
    /// Whether X and Y are matrices.
    pub(crate) many: bool,
}

/// Number of functions.
pub(crate) const COUNT: usize = 16;

const fn text(with_zero: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(with_zero.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a name has no zero byte"),
    }
}

macro_rules! table {
    ($($number:literal $name:ident $export:ident $dtype:ident $many:literal,)*) => {
        [$(Function {
            name: text(concat!(stringify!($name), "\0")),
            export: text(concat!(stringify!($export), "\0")),
            dtype: Dtype::$dtype,
            many: $many,
        }),*]
    };
}

/// All functions, by number.
pub(crate) static PRODUCTS: [Function; COUNT] = products!(table);
