//! The CUDA statuses (error codes) that the stand-in returns.

/// What a call returns: nothing, or a status of the CUDA driver.
pub(crate) type Outcome<T = ()> = Result<T, Status>;

macro_rules! statuses {
    ($($name:ident = $code:literal, $spelled:literal, $text:literal;)+) => {
        /// A status of the CUDA driver.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(i32)]
        pub(crate) enum Status { $($name = $code,)+ }

        /// The name and the description of a status.
        pub(crate) fn describe(code: i32) -> Option<(&'static core::ffi::CStr, &'static core::ffi::CStr)> {
            match code {
                0 => Some((c"CUDA_SUCCESS", c"no error")),
                $($code => Some(($spelled, $text)),)+
                _ => None,
            }
        }
    };
}

statuses! {
    InvalidValue = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OutOfMemory = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NotInitialized = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NoDevice = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    InvalidDevice = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    InvalidContext = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    InvalidHandle = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    NotFound = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NotReady = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    IllegalAddress = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    PeerAlreadyEnabled = 704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled";
    ContextDestroyed = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed";
    AlreadyRegistered = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"part or all of the requested memory range is already mapped";
    NotRegistered = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"pointer does not correspond to a registered memory region";
    LaunchFailed = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    NotSupported = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    Unknown = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

impl Status {
    /// The status of cuBLAS for the same error.
    pub(crate) fn blas(self) -> i32 {
        match self {
            Status::NotInitialized | Status::InvalidContext | Status::InvalidHandle => 1,
            Status::OutOfMemory => 3,
            Status::InvalidValue => 7,
            Status::NotSupported => 15,
            _ => BLAS_FAILED,
        }
    }

    /// The status of cuSPARSE for the same error.
    pub(crate) fn sparse(self) -> i32 {
        match self {
            Status::NotInitialized | Status::InvalidContext | Status::InvalidHandle => 1,
            Status::OutOfMemory => 2,
            Status::InvalidValue => 3,
            Status::NotSupported => 10,
            _ => SPARSE_FAILED,
        }
    }

    /// The status of cuSOLVER for the same error.
    pub(crate) fn solver(self) -> i32 {
        match self {
            Status::NotInitialized | Status::InvalidContext | Status::InvalidHandle => 1,
            Status::OutOfMemory => 2,
            Status::InvalidValue => 3,
            Status::NotSupported => 9,
            _ => SOLVER_FAILED,
        }
    }
}

/// `CUBLAS_STATUS_EXECUTION_FAILED`
pub(crate) const BLAS_FAILED: i32 = 13;

/// `CUBLAS_STATUS_INTERNAL_ERROR`
pub(crate) const BLAS_ERROR: i32 = 14;

/// `CUSPARSE_STATUS_EXECUTION_FAILED`
pub(crate) const SPARSE_FAILED: i32 = 6;

/// `CUSPARSE_STATUS_INTERNAL_ERROR`
pub(crate) const SPARSE_ERROR: i32 = 7;

/// `CUSOLVER_STATUS_EXECUTION_FAILED`
pub(crate) const SOLVER_FAILED: i32 = 6;

/// `CUSOLVER_STATUS_INTERNAL_ERROR`
pub(crate) const SOLVER_ERROR: i32 = 7;
