//! The argument registers of a BLAS call, as the stubs save them on the stack (System V AMD64).

#![expect(
    unsafe_code,
    reason = "arguments beyond the sixth lie on the caller's stack"
)]

use core::mem::offset_of;

use semcache::base::counters::Matrix;
use semcache::runtime::timed::HostCall;

/// The saved argument registers of a call, and the values of its result registers. The stub makes a frame below the
/// return address.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Frame {
    /// rdi, rsi, rdx, rcx, r8, r9
    gpr: [u64; 6],
    rax: u64,
    /// The value of rax when the stub returns to the program.
    pub(crate) result: u64,
    xmm: [[u64; 2]; 8],
    /// The values of the low halves of xmm0 and xmm1 when the stub returns to the program.
    pub(crate) result_xmm: [u64; 2],
    /// Not zero: the stub calls the host BLAS's function instead of jumping to it, with one less than this number of words of the
    /// program's arguments from the stack, between
    /// [`begins`](crate::entry::begins) and [`ended`](crate::entry::ended).
    timed: u32,
    /// The index of the routine in the tables of counters.
    index: u16,
    /// The number of the call site there, plus 1; 0: it has none.
    site: u16,
    call: HostCall,
    /// What the host's LAPACK computes on, in a call that is timed.
    matrix: Option<&'static Matrix>,
}

/// In the number of a symbol that [`enter`](crate::entry::enter) is called with: the stub has found the sizes of this call small.
pub(crate) const SMALL: u32 = 1 << 31;

/// The most words of arguments on the stack with which a stub calls a function.
pub(crate) const MOST_WORDS: usize = 22;
// The stack stays aligned below the words.
const _: () = assert!(MOST_WORDS.is_multiple_of(2));
/// Where the stub finds that number.
pub(crate) const TIMED: usize = offset_of!(Frame, timed);

/// The bytes that the stub takes from the stack; with the return address, a multiple of 16.
pub(crate) const SIZE: usize = size_of::<Frame>();
const _: () = assert!(SIZE == 248 && SIZE % 16 == 8);
// The stub's assembly contains these numbers.
const _: () = assert!(
    offset_of!(Frame, rax) == 48
        && offset_of!(Frame, result) == 56
        && offset_of!(Frame, xmm) == 64
        && offset_of!(Frame, result_xmm) == 192
);

impl Frame {
    /// The stub jumps to the host BLAS's function, unless [`Frame::time`] follows.
    #[inline]
    pub(crate) fn jump(&mut self) {
        self.timed = 0;
    }

    /// The stub calls the function, with this number of words of arguments from the stack, and the call is timed.
    #[inline]
    pub(crate) fn time(&mut self, words: usize, index: usize, site: Option<usize>, call: HostCall) {
        if words <= MOST_WORDS {
            (self.timed, self.index) = (1 + words as u32, index as u16);
            self.site = site.map_or(0, |number| number as u16 + 1);
            self.call = call;
            self.matrix = None;
        }
    }

    /// Whether [`Frame::time`] has said so of this call.
    pub(crate) fn is_timed(&self) -> bool {
        self.timed != 0
    }

    /// The call, which is timed, is of a solver that computes on this matrix.
    pub(crate) fn computes_on(&mut self, matrix: Option<&'static Matrix>) {
        self.matrix = matrix;
    }

    /// The call begins.
    #[inline]
    pub(crate) fn begins(&mut self) {
        self.call.begins();
    }

    /// The call has ended.
    #[inline]
    pub(crate) fn ended(&self) {
        let site = self.site.checked_sub(1).map(usize::from);
        self.call.end(usize::from(self.index), site, self.matrix);
    }

    /// The value of the stack pointer at the entry of the stub: the address of the return address.
    #[inline]
    pub(crate) fn entry_sp(&self) -> usize {
        core::ptr::from_ref(self) as usize + SIZE
    }

    /// The return address.
    #[inline]
    pub(crate) fn site(&self) -> usize {
        // SAFETY: the stub placed this frame directly below the return address.
        unsafe { *(self.entry_sp() as *const usize) }
    }

    /// The `position`th argument of class INTEGER (integers and pointers). No BLAS routine has more than eight
    /// floating-point arguments, which all go into registers, so only arguments of class INTEGER lie on the stack, in
    /// order.
    #[inline]
    pub(crate) fn word(&self, position: usize) -> u64 {
        match self.gpr.get(position) {
            Some(word) => *word,
            None => {
                let address = self.entry_sp() + 8 * (1 + position - self.gpr.len());
                // SAFETY: the caller placed the routine's arguments there. A `position` beyond the last argument reads
                // a word of the frames of its callers, which can be read as well.
                unsafe { *(address as *const u64) }
            }
        }
    }

    /// The host's function gets the second argument as the first one, too.
    pub(crate) fn repeat_second(&mut self) {
        self.gpr[0] = self.gpr[1];
    }

    /// The `position`th floating point argument, as a double.
    pub(crate) fn double(&self, position: usize) -> f64 {
        f64::from_bits(self.xmm[position & 7][0])
    }

    /// The `position`th floating point argument, as a float.
    pub(crate) fn float(&self, position: usize) -> f32 {
        f32::from_bits((self.xmm[position & 7][0] & 0xffff_ffff) as u32)
    }
}
