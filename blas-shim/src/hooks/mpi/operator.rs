//! Operators of the program (`MPI_Op_create`). MPI may call one with memory of its own, which it then sends to other processes: so calls
//! of the BLAS in an operator run on the host, where they protect no page. MPI is given a function that says so and calls the
//! program's.

#![expect(unsafe_code, reason = "exports functions of MPI")]

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::super::bypass::theirs;
use super::{OTHER, library};
use crate::core::{Degraded, go_write_through};
use crate::thread;

/// An operator of the program, of C or of Fortran. Those of `MPIX_Op_create_x` have five arguments, the others four: what is passed on as
/// the fifth one has no meaning then.
type Operator = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize);

macro_rules! stubs {
    ($($number:literal)*) => {
        /// The functions that MPI is given, and the operators that they call; 0: none yet.
        static STUBS: &[Operator] = &[$(called::<$number>),*];
        static OPERATORS: [AtomicUsize; [$($number),*].len()] = [const { AtomicUsize::new(0) }; [$($number),*].len()];
    };
}

stubs! {
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
}

unsafe extern "C-unwind" fn called<const N: usize>(
    from: usize,
    to: usize,
    count: usize,
    datatype: usize,
    state: usize,
) {
    // SAFETY: it was stored before MPI was given this function.
    let operator =
        unsafe { core::mem::transmute::<usize, Operator>(OPERATORS[N].load(Ordering::Acquire)) };
    let running = &thread::state().operators;
    running.set(running.get() + 1);
    // SAFETY: MPI's arguments, passed on.
    unsafe { operator(from, to, count, datatype, state) };
    running.set(running.get() - 1);
}

/// The function for an operator; none if the program has too many. One that the program frees keeps its function.
fn stub(operator: usize) -> Option<usize> {
    OPERATORS.iter().zip(STUBS).find_map(|(place, stub)| {
        let taken = place.compare_exchange(0, operator, Ordering::AcqRel, Ordering::Acquire);
        (taken.is_ok() || taken == Err(operator)).then_some(*stub as usize)
    })
}

macro_rules! create {
    ($($name:ident($($word:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(operator: usize, $($word: usize),*) -> c_int {
            let Some(function) = theirs!($name(operator, $($word),*)) else {
                return OTHER;
            };
            let given = match library::known() {
                Some(_) => stub(operator).unwrap_or_else(|| {
                    go_write_through(Degraded::Mpi);
                    operator
                }),
                None => operator,
            };
            // SAFETY: the program's arguments, passed on.
            unsafe { function(given, $($word),*) }
        }
    )*};
}

create! {
    MPI_Op_create(commutes, made);
    PMPI_Op_create(commutes, made);
    MPI_Op_create_c(commutes, made);
    PMPI_Op_create_c(commutes, made);
    // By which MPICH's bindings of other languages make operators, from 4.3 on.
    MPIX_Op_create_x(destroys, commutes, state, made);
    PMPIX_Op_create_x(destroys, commutes, state, made);
}
