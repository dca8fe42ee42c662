//! The BLAS, as a Fortran program calls it: everything by address, characters without their lengths.

#![expect(unsafe_code, reason = "declares and calls C functions")]

use std::ffi::{CStr, c_void};

/// Any address.
pub(crate) type P = *const c_void;

macro_rules! routines {
    ($($table:ident $kind:ident: $($name:ident)*;)*) => {
        #[link(name = "blas")]
        unsafe extern "C" { $($(fn $name();)*)* }
        $(
            /// By element type.
            pub(crate) static $table: [$kind; routines!(@count $($name)*)] = [$(
                // SAFETY: the routine's own signature; all its arguments are addresses.
                unsafe { std::mem::transmute::<unsafe extern "C" fn(), $kind>($name) }
            ),*];
        )*
    };
    (@count $a:ident) => { 1 };
    (@count $a:ident $b:ident) => { 2 };
    (@count $a:ident $b:ident $c:ident $d:ident) => { 4 };
}

type F4 = unsafe extern "C" fn(P, P, P, P);
type F5 = unsafe extern "C" fn(P, P, P, P, P);
type F6 = unsafe extern "C" fn(P, P, P, P, P, P);
type F7 = unsafe extern "C" fn(P, P, P, P, P, P, P);
type F8 = unsafe extern "C" fn(P, P, P, P, P, P, P, P);
type F9 = unsafe extern "C" fn(P, P, P, P, P, P, P, P, P);
type F10 = unsafe extern "C" fn(P, P, P, P, P, P, P, P, P, P);
type F11 = unsafe extern "C" fn(P, P, P, P, P, P, P, P, P, P, P);
type F12 = unsafe extern "C" fn(P, P, P, P, P, P, P, P, P, P, P, P);
type F13 = unsafe extern "C" fn(P, P, P, P, P, P, P, P, P, P, P, P, P);
type Index = unsafe extern "C" fn(P, P, P) -> i32;
type SumS = unsafe extern "C" fn(P, P, P) -> f32;
type SumD = unsafe extern "C" fn(P, P, P) -> f64;
type DotS = unsafe extern "C" fn(P, P, P, P, P) -> f32;
type DotD = unsafe extern "C" fn(P, P, P, P, P) -> f64;
type DotC = unsafe extern "C" fn(P, P, P, P, P) -> PairS;
type DotZ = unsafe extern "C" fn(P, P, P, P, P) -> PairD;

/// A complex float by value.
#[repr(C)]
pub(crate) struct PairS(pub(crate) f32, pub(crate) f32);

/// A complex double by value.
#[repr(C)]
pub(crate) struct PairD(pub(crate) f64, pub(crate) f64);

routines! {
    GEMM F13: sgemm_ dgemm_ cgemm_ zgemm_;
    SYMM F12: ssymm_ dsymm_ csymm_ zsymm_;
    HEMM F12: chemm_ zhemm_;
    SYRK F10: ssyrk_ dsyrk_ csyrk_ zsyrk_;
    HERK F10: cherk_ zherk_;
    SYR2K F12: ssyr2k_ dsyr2k_ csyr2k_ zsyr2k_;
    HER2K F12: cher2k_ zher2k_;
    TRMM F11: strmm_ dtrmm_ ctrmm_ ztrmm_;
    TRSM F11: strsm_ dtrsm_ ctrsm_ ztrsm_;
    GEMV F11: sgemv_ dgemv_ cgemv_ zgemv_;
    GER F9: sger_ dger_ cgeru_ zgeru_;
    GERC F9: cgerc_ zgerc_;
    MV F10: ssymv_ dsymv_ chemv_ zhemv_;
    R F7: ssyr_ dsyr_ cher_ zher_;
    R2 F9: ssyr2_ dsyr2_ cher2_ zher2_;
    TRMV F8: strmv_ dtrmv_ ctrmv_ ztrmv_;
    TRSV F8: strsv_ dtrsv_ ctrsv_ ztrsv_;
    AXPY F6: saxpy_ daxpy_ caxpy_ zaxpy_;
    COPY F5: scopy_ dcopy_ ccopy_ zcopy_;
    SWAP F5: sswap_ dswap_ cswap_ zswap_;
    SCAL F4: sscal_ dscal_ cscal_ zscal_;
    REALSCAL F4: csscal_ zdscal_;
    ROT F7: srot_ drot_ csrot_ zdrot_;
    IAMAX Index: isamax_ idamax_ icamax_ izamax_;
    ASUM_S SumS: sasum_ scasum_;
    ASUM_D SumD: dasum_ dzasum_;
    NRM2_S SumS: snrm2_ scnrm2_;
    NRM2_D SumD: dnrm2_ dznrm2_;
    DOT_S DotS: sdot_;
    DOT_D DotD: ddot_;
    DOT_C DotC: cdotu_ cdotc_;
    DOT_Z DotZ: zdotu_ zdotc_;
}

/// Loads LAPACK, as for a program that is linked with it.
pub(crate) fn load_lapack() {
    // SAFETY: a C string; the library is never unloaded.
    unsafe {
        libc::dlopen(
            c"liblapack.so.3".as_ptr(),
            libc::RTLD_NOW | libc::RTLD_GLOBAL,
        )
    };
}

/// An extension of the BLAS, or a driver of LAPACK, if the process has it: with semcache preloaded it has.
fn extension(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

macro_rules! extensions {
    ($($function:ident $kind:ident: $($name:literal)*;)*) => {$(
        /// By element type.
        pub(crate) fn $function(ty: usize) -> Option<$kind> {
            let address = extension([$($name),*][ty])?;
            // SAFETY: the routine's own signature; all its arguments are addresses.
            Some(unsafe { std::mem::transmute::<*mut c_void, $kind>(address) })
        }
    )*};
}

extensions! {
    axpby F7: c"saxpby_" c"daxpby_" c"caxpby_" c"zaxpby_";
    geadd F8: c"sgeadd_" c"dgeadd_" c"cgeadd_" c"zgeadd_";
    omatcopy F9: c"somatcopy_" c"domatcopy_" c"comatcopy_" c"zomatcopy_";
    imatcopy F8: c"simatcopy_" c"dimatcopy_" c"cimatcopy_" c"zimatcopy_";
    getrf F6: c"sgetrf_" c"dgetrf_" c"cgetrf_" c"zgetrf_";
    getrs F9: c"sgetrs_" c"dgetrs_" c"cgetrs_" c"zgetrs_";
    gesv F8: c"sgesv_" c"dgesv_" c"cgesv_" c"zgesv_";
    potrf F5: c"spotrf_" c"dpotrf_" c"cpotrf_" c"zpotrf_";
    potrs F8: c"spotrs_" c"dpotrs_" c"cpotrs_" c"zpotrs_";
    posv F8: c"sposv_" c"dposv_" c"cposv_" c"zposv_";
    geqrf F8: c"sgeqrf_" c"dgeqrf_" c"cgeqrf_" c"zgeqrf_";
    geqp3 F10: c"sgeqp3_" c"dgeqp3_" c"cgeqp3_" c"zgeqp3_";
}
