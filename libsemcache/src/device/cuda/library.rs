//! Loading of the driver (libcuda) and of cuBLAS, with a check that every function that semcache calls exists: the
//! bindings would panic on a missing library or symbol, and end the program.
#![expect(
    unsafe_code,
    reason = "loads shared libraries and looks symbols up in them"
)]

use core::ffi::{CStr, c_int, c_void};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::{cublas, cusolver, cusparse, driver};

use super::{CudaError, blas, dense, sparse};

/// Whether libraries are there that only some programs need; those that were looked for.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    pub(super) cusparse: OnceLock<bool>,
    pub(super) cusolver: OnceLock<bool>,
}

/// The functions that the driver must export.
const DRIVER: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDeviceGetAttribute",
    "cuDeviceCanAccessPeer",
    "cuDeviceGetP2PAttribute",
    "cuCtxCreate_v2",
    "cuCtxDestroy_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxEnablePeerAccess",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuStreamCreate",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemcpy2DAsync_v2",
    "cuMemcpy3DPeerAsync",
    "cuMemsetD8Async",
];

/// Major versions of cuBLAS with the interface that semcache calls.
const CUBLAS_MAJORS: [u32; 2] = [13, 12];

/// Loads the driver; afterwards its functions may be called.
///
/// # Errors
/// There is no driver (a machine without NVIDIA GPUs), or it lacks a function.
pub(super) fn driver() -> Result<(), CudaError> {
    if !open(c"libcuda.so.1") {
        return Err(CudaError::NoDriver);
    }
    // SAFETY: only loads libraries.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    // SAFETY: present, so this does not panic.
    let lib = unsafe { driver::sys::culib() };
    for &name in DRIVER {
        // SAFETY: the address is not used.
        if unsafe { lib.get::<*const c_void>(name.as_bytes()) }.is_err() {
            return Err(CudaError::Missing(format!("the CUDA driver has no {name}")));
        }
    }
    Ok(())
}

/// The major version of cuSPARSE in CUDA 12 and 13.
const CUSPARSE_MAJORS: [u32; 1] = [12];

/// Loads a library in one of these versions, from the loader's path or where installers put it. It is loaded by its path first: the
/// bindings then find it by its name.
fn load(
    name: &str,
    majors: &[u32],
    environment: &dyn Fn(&str) -> Option<String>,
    secure: bool,
) -> bool {
    let files = || majors.iter().map(|v| format!("{name}.so.{v}"));
    files().any(|file| open_named(&file))
        || folders(environment, secure).into_iter().any(|dir| {
            let mut paths = files().map(|file| dir.join(file));
            paths.any(|path| path.exists() && open_path(&path))
        })
}

/// Loads cuSPARSE; whether its functions may be called. `environment` looks up variables.
pub(super) fn cusparse(environment: &dyn Fn(&str) -> Option<String>, secure: bool) -> bool {
    // SAFETY: only loads libraries.
    let present = || unsafe { cusparse::sys::is_culib_present() };
    if !load("libcusparse", &CUSPARSE_MAJORS, environment, secure) || !present() {
        return false;
    }
    // SAFETY: present, so this does not panic.
    let lib = unsafe { cusparse::sys::culib() };
    // SAFETY: the address is not used.
    let has = |name: &&str| unsafe { lib.get::<*const c_void>(name.as_bytes()) }.is_ok();
    sparse::FUNCTIONS.iter().all(has)
}

/// Major versions of cuSOLVER in CUDA 13 and 12.
const CUSOLVER_MAJORS: [u32; 2] = [12, 11];

/// Loads cuSOLVER; whether its functions may be called. `environment` looks up variables.
pub(super) fn cusolver(environment: &dyn Fn(&str) -> Option<String>, secure: bool) -> bool {
    // SAFETY: only loads libraries.
    let present = || unsafe { cusolver::sys::is_culib_present() };
    if !load("libcusolver", &CUSOLVER_MAJORS, environment, secure) || !present() {
        return false;
    }
    // SAFETY: present, so this does not panic.
    let lib = unsafe { cusolver::sys::culib() };
    // SAFETY: the address is not used.
    let has = |name: &&str| unsafe { lib.get::<*const c_void>(name.as_bytes()) }.is_ok();
    dense::FUNCTIONS.iter().all(has)
}

/// Loads cuBLAS; afterwards its functions may be called. `environment` looks up variables.
///
/// # Errors
/// cuBLAS is not found, or lacks a function.
pub(super) fn cublas(
    environment: &dyn Fn(&str) -> Option<String>,
    secure: bool,
) -> Result<(), CudaError> {
    if !load("libcublas", &CUBLAS_MAJORS, environment, secure) {
        return Err(CudaError::Missing(
            "no libcublas.so.13 or .12 was found (tried the loader's path, CUDA_HOME, /usr/local/cuda and Python packages)".into(),
        ));
    }
    // SAFETY: only loads libraries.
    if !unsafe { cublas::sys::is_culib_present() } {
        return Err(CudaError::Missing("libcublas cannot be loaded".into()));
    }
    // SAFETY: present, so this does not panic.
    let lib = unsafe { cublas::sys::culib() };
    for name in blas::functions() {
        // SAFETY: the address is not used.
        if unsafe { lib.get::<*const c_void>(name.as_bytes()) }.is_err() {
            return Err(CudaError::Missing(format!("cuBLAS has no {name}")));
        }
    }
    Ok(())
}

/// The folders in which a system's administrator installs cuBLAS.
const SYSTEM: [&str; 2] = ["/usr/local/cuda/lib64", "/opt/cuda/lib64"];

/// The folders in which CUDA's installers and pip put cuBLAS, cuSOLVER and cuSPARSE. Relative paths in variables are ignored, so that nothing
/// is loaded from the current folder.
fn folders(environment: &dyn Fn(&str) -> Option<String>, secure: bool) -> Vec<PathBuf> {
    if secure {
        return SYSTEM.map(PathBuf::from).to_vec();
    }
    let environment =
        |name: &str| environment(name).filter(|v| name == "PATH" || v.starts_with('/'));
    let mut dirs = Vec::new();
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(home) = environment(name) {
            dirs.push(Path::new(&home).join("lib64"));
            dirs.push(Path::new(&home).join("targets/x86_64-linux/lib"));
        }
    }
    dirs.extend(SYSTEM.map(PathBuf::from));
    // Python installations: the running interpreter, the active environment, and the first python3 on the path.
    let mut prefixes: Vec<PathBuf> = Vec::new();
    prefixes.extend(environment("VIRTUAL_ENV").map(PathBuf::from));
    prefixes.extend(environment("CONDA_PREFIX").map(PathBuf::from));
    let mut programs: Vec<PathBuf> = Vec::new();
    programs.extend(std::fs::read_link("/proc/self/exe").ok());
    if let Some(path) = environment("PATH") {
        let absolute = path.split(':').filter(|d| d.starts_with('/'));
        let python = absolute.map(|d| Path::new(d).join("python3"));
        programs.extend(python.into_iter().find(|p| p.exists()));
    }
    for p in programs {
        prefixes.extend(p.parent().and_then(Path::parent).map(Path::to_owned));
        let real = std::fs::canonicalize(&p).ok();
        prefixes.extend(real.and_then(|r| Some(r.parent()?.parent()?.to_owned())));
    }
    for prefix in prefixes {
        dirs.push(prefix.join("lib"));
        let Ok(versions) = std::fs::read_dir(prefix.join("lib")) else {
            continue;
        };
        for v in versions.flatten() {
            if !v.file_name().to_string_lossy().starts_with("python3") {
                continue;
            }
            for packages in ["site-packages", "dist-packages"] {
                let nvidia = v.path().join(packages).join("nvidia");
                dirs.push(nvidia.join("cu13/lib"));
                dirs.push(nvidia.join("cublas/lib"));
                dirs.push(nvidia.join("cusolver/lib"));
                dirs.push(nvidia.join("cusparse/lib"));
            }
        }
    }
    dirs
}

fn open_named(name: &str) -> bool {
    CString::new(name).is_ok_and(|n| open(&n))
}

fn open_path(path: &Path) -> bool {
    path.to_str().is_some_and(open_named)
}

/// Loads a library and never unloads it: loading a large library again would be slow, and unloading one is never safe.
fn open(name: &CStr) -> bool {
    const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: the name is a C string; the initialisers of the vendor's library are meant to run.
    !unsafe { libc::dlopen(name.as_ptr(), FLAGS) }.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_current_folder_and_with_more_rights_nothing_of_the_users() {
        let evil = |name: &str| {
            Some(match name {
                "PATH" => ":.:here:/usr/bin".to_owned(),
                "CUDA_HOME" => "/home/user/cuda".to_owned(),
                _ => "relative".to_owned(),
            })
        };
        let dirs = folders(&evil, false);
        assert!(dirs.contains(&"/home/user/cuda/lib64".into()));
        assert!(dirs.iter().all(|d| d.is_absolute()), "{dirs:?}");
        assert_eq!(folders(&evil, true), SYSTEM.map(PathBuf::from));
    }
}
