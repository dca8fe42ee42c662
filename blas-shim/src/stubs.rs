//! The exported BLAS symbols: one naked assembly stub for each.
//!
//! Control may leave the host BLAS by `longjmp` or an exception. So while the host BLAS runs, no stub has a frame on the stack, but for
//! a call that is timed, whose frame holds nothing that must be released. `r10` and `r11` are the registers that a call may destroy and
//! that carry no argument; all other registers arrive at the host BLAS's function with the caller's values, also `al` (the number of
//! vector registers of an unprototyped call).
//!
//! Every stub has unwind information, so that debuggers and unwinders find the caller from every instruction: the
//! stub's loads of sizes may fault, and a thread with asynchronous cancellation may be unwound from anywhere.

#![expect(
    unsafe_code,
    reason = "stubs must not touch argument registers, so they are assembly"
)]

use core::arch::naked_asm;

use core::mem::offset_of;

use semcache::base::counters::{PAGE, Page};
use semcache::base::{Routine, Solver};
use semcache::runtime::copies;

use crate::core as runtime;
use crate::decode::{FLOOR_1, FLOOR_2, FLOOR_3};
use crate::entry::{begins, ended, enter, resolve_jump};
use crate::frame;
use crate::mkl::multiply;
use crate::products::products;
use crate::sites::{Binding, SITES, Sizes};
use crate::symbols::Class;
use crate::thread::State;
use crate::work;

/// The stub of a routine that is not offloaded: jumps to the function that the call site is bound to.
macro_rules! jump {
    ($name:ident, $index:expr) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "lea r11, [rip + {sites} + {offset}]",
                "mov r10, [rsp]",
                "and r10d, 7",
                "mov r11, [r11 + 8*r10]",
                "test r11, r11",
                "jz 2f",
                "mov r10, [rsp]",
                "cmp r10, [r11]",
                "jne 2f",
                "jmp [r11 + 8]",
                "2:",
                "mov r11d, {index}",
                "jmp {slow}",
                ".cfi_endproc",
                sites = sym SITES,
                offset = const $index * 64,
                index = const $index,
                slow = sym jump_slow,
            )
        }
    };
}

/// The stub of a routine that may be offloaded. If the call site is in the first level of the table of sites, `$fast`
/// looks at the sizes; otherwise `$slow` calls [`enter`](crate::entry::enter).
macro_rules! ask {
    ($name:ident, $index:expr, [$($fast:tt)+], $slow:ident) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "lea r11, [rip + {sites} + {offset}]",
                "mov r10, [rsp]",
                "and r10d, 7",
                "mov r11, [r11 + 8*r10]",
                "test r11, r11",
                "jz 2f",
                "mov r10, [rsp]",
                "cmp r10, [r11]",
                "je {fast}",
                "2:",
                "mov r11d, {index}",
                "jmp {slow}",
                ".cfi_endproc",
                sites = sym SITES,
                offset = const $index * 64,
                index = const $index,
                fast = sym $($fast)+,
                slow = sym $slow,
            )
        }
    };
}

/// The stub of a routine whose record says at which positions its sizes are.
macro_rules! enter {
    ($name:ident, $index:expr, $cblas:literal, $class:expr) => {
        ask!(
            $name,
            $index,
            [<SizesAt<{ $cblas }, { work::before($class, $cblas) }, { work::of($class) }> as Judge>::judge],
            enter_common
        );
    };
}

/// The stub of a name that may also be that of a function of the program's, with any arguments.
macro_rules! enter_any {
    ($name:ident, $index:expr) => {
        ask!($name, $index, [ask_any], enter_common_any);
    };
}

/// Routines whose sizes follow `BEFORE` other arguments, in the C or the Fortran interface; `WORK` is a constant of
/// [`work`], which says what the sizes are.
struct SizesAt<const CBLAS: bool, const BEFORE: usize, const WORK: u8>;

/// The code to which the stubs of such routines jump once the call site's binding is found.
trait Judge {
    /// Jumps to the host BLAS's function or to [`enter_common`].
    extern "C" fn judge();
}

/// The common case, which takes a few nanoseconds: a small call, no page protected in the process, the host BLAS's
/// function known. `r11` is the binding of the call site. The code counts the call, stores it as the thread's last
/// forwarded call, and jumps to the host BLAS; every other call goes to [`enter_common`], with the bit [`SMALL`](frame::SMALL) in the
/// symbol's number if its sizes have been found small. The code uses `r10`, `rax` and the red zone.
///
/// `$narrow` and `$wide` multiply the sizes, of 32 and 64 bits, into `r10`, and jump to `4f` on overflow or if an
/// argument cannot be an address.
macro_rules! small_or_enter {
    (($cblas:literal, $before:literal, $work:expr), $floor:expr, [$($narrow:expr),*], [$($wide:expr),*]) => {
        impl Judge for SizesAt<$cblas, $before, { $work }> {
            #[unsafe(naked)]
            extern "C" fn judge() {
                naked_asm!(
                    ".cfi_startproc",
                    "mov [rsp - 8], rax",
                    "cmp byte ptr [r11 + {sizes}], {wide}",
                    "je 2f",
                    "ja 4f",
                    $($narrow,)*
                    "3:",
                    "cmp r10, {floor}",
                    "jge 4f",
                    "cmp byte ptr [rip + {page} + {quick}], 1",
                    "jne 7f",
                    "cmp qword ptr [rip + {protected}], 0",
                    "jne 7f",
                    "mov r10, qword ptr [rip + semcache_blas_thread@GOTTPOFF]",
                    "mov rax, fs:[r10 + {slot}]",
                    "test rax, rax",
                    "jz 7f",
                    "mov [rsp - 16], rcx",
                    "mov ecx, [r11 + {counter}]",
                    "inc qword ptr [rax + rcx]",
                    "mov rcx, [rsp - 16]",
                    "mov fs:[r10 + {forwarded_sp}], rsp",
                    "mov rax, [rsp]",
                    "mov fs:[r10 + {forwarded_site}], rax",
                    "mov rax, [rsp - 8]",
                    "jmp [r11 + 8]",
                    "2:",
                    $($wide,)*
                    "jmp 3b",
                    "4:",
                    "mov rax, [rsp - 8]",
                    "mov r11d, [r11 + 16]",
                    "jmp {enter}",
                    "7:",
                    "mov rax, [rsp - 8]",
                    "mov r11d, [r11 + 16]",
                    "or r11d, {small}",
                    "jmp {enter}",
                    ".cfi_endproc",
                    small = const frame::SMALL,
                    sizes = const offset_of!(Binding, sizes),
                    wide = const Sizes::Wide as u8,
                    floor = const $floor,
                    page = sym PAGE,
                    quick = const offset_of!(Page, quick),
                    protected = sym runtime::PROTECTED,
                    slot = const offset_of!(State, slot),
                    counter = const offset_of!(Binding, counter_offset),
                    forwarded_sp = const offset_of!(State, forwarded_sp),
                    forwarded_site = const offset_of!(State, forwarded_site),
                    enter = sym enter_common,
                )
            }
        }
    };
}

/// The code for sizes that are passed by reference, in the registers named.
macro_rules! by_reference {
    ($routines:tt, $floor:expr, $first:literal $(, $more:literal)*) => {
        small_or_enter!($routines, $floor, [
            concat!("cmp ", $first, ", 4095"), "jbe 4f",
            concat!("movsxd r10, dword ptr [", $first, "]")
            $(, concat!("cmp ", $more, ", 4095"), "jbe 4f",
              concat!("movsxd rax, dword ptr [", $more, "]"), "imul r10, rax", "jo 4f")*
        ], [
            concat!("cmp ", $first, ", 4095"), "jbe 4f",
            concat!("mov r10, qword ptr [", $first, "]")
            $(, concat!("cmp ", $more, ", 4095"), "jbe 4f",
              concat!("mov rax, qword ptr [", $more, "]"), "imul r10, rax", "jo 4f")*
        ]);
    };
}

/// The code for sizes that are passed by value, in the registers named (for 32 and for 64 bits).
macro_rules! by_value {
    ($routines:tt, $floor:expr, $first:literal $first64:literal $(, $more:literal $more64:literal)*) => {
        small_or_enter!($routines, $floor, [
            concat!("movsxd r10, ", $first)
            $(, concat!("movsxd rax, ", $more), "imul r10, rax", "jo 4f")*
        ], [
            concat!("mov r10, ", $first64)
            $(, concat!("imul r10, ", $more64), "jo 4f")*
        ]);
    };
}

/// The rows and columns of a product with a square matrix, whose order is one of the two numbers. Here the larger
/// number counts as the order, so that the work is never underestimated; [`is_small`](crate::decode::is_small) reads
/// which one the order is. `$narrow` and `$wide` load the two numbers into `r10` and `rax`.
macro_rules! larger_squared {
    ($routines:tt, [$($narrow:expr),*], [$($wide:expr),*]) => {
        small_or_enter!($routines, FLOOR_3, [
            $($narrow,)*
            "cmp r10, rax", "jge 5f", "xchg r10, rax", "5:",
            "imul rax, r10", "jo 4f", "imul r10, rax", "jo 4f"
        ], [
            $($wide,)*
            "cmp r10, rax", "jge 6f", "xchg r10, rax", "6:",
            "imul rax, r10", "jo 4f", "imul r10, rax", "jo 4f"
        ]);
    };
}

/// The copy of a vector: `$narrow` and `$wide` load its length into `r10`, and `$steps` jump to `4f` if an increment is not 1. Their lower
/// halves say so in almost all cases; [`copy`](semcache::runtime::copies::copy) looks at all of them.
macro_rules! copy {
    ($cblas:literal, [$($narrow:expr),*], [$($wide:expr),*], [$($steps:expr),*]) => {
        small_or_enter!(($cblas, 0, work::COPY), FLOOR_1, [
            $($narrow,)*
            concat!("cmp r10, ", 4096), "jl 5f", $($steps,)* "5:"
        ], [
            $($wide,)*
            concat!("cmp r10, ", 4096), "jl 6f", $($steps,)* "6:"
        ]);
    };
}

const _: () = assert!(copies::LEAST == 4096, "the number in `copy`");

copy!(
    false,
    ["cmp rdi, 4095", "jbe 4f", "movsxd r10, dword ptr [rdi]"],
    ["cmp rdi, 4095", "jbe 4f", "mov r10, qword ptr [rdi]"],
    [
        "cmp rdx, 4095",
        "jbe 4f",
        "cmp r8, 4095",
        "jbe 4f",
        "cmp dword ptr [rdx], 1",
        "jne 4f",
        "cmp dword ptr [r8], 1",
        "jne 4f"
    ]
);
copy!(
    true,
    ["movsxd r10, edi"],
    ["mov r10, rdi"],
    ["cmp edx, 1", "jne 4f", "cmp r8d, 1", "jne 4f"]
);

/// Stubs of Fortran's routines: `$before` is the number of arguments before the sizes; the other parameters are the
/// registers that hold the addresses of the sizes. A routine with another number of arguments before its sizes does not
/// compile.
macro_rules! fortran {
    ($before:literal, $first:literal, $second:literal, $third:literal) => {
        by_reference!(
            (false, $before, work::MNK),
            FLOOR_3,
            $first,
            $second,
            $third
        );
        fortran!($before, $first, $second);
    };
    ($before:literal, $first:literal, $second:literal) => {
        by_reference!((false, $before, work::LENGTH), FLOOR_1, $first);
        by_reference!((false, $before, work::MN), FLOOR_2, $first, $second);
        by_reference!((false, $before, work::NN), FLOOR_2, $first, $first);
        by_reference!(
            (false, $before, work::NNK),
            FLOOR_3,
            $first,
            $first,
            $second
        );
        larger_squared!(
            (false, $before, work::SIDED),
            [
                concat!("cmp ", $first, ", 4095"),
                "jbe 4f",
                concat!("cmp ", $second, ", 4095"),
                "jbe 4f",
                concat!("movsxd r10, dword ptr [", $first, "]"),
                concat!("movsxd rax, dword ptr [", $second, "]")
            ],
            [
                concat!("cmp ", $first, ", 4095"),
                "jbe 4f",
                concat!("cmp ", $second, ", 4095"),
                "jbe 4f",
                concat!("mov r10, qword ptr [", $first, "]"),
                concat!("mov rax, qword ptr [", $second, "]")
            ]
        );
    };
}

fortran!(0, "rdi", "rsi", "rdx");
fortran!(1, "rsi", "rdx", "rcx");
fortran!(2, "rdx", "rcx", "r8");
fortran!(3, "rcx", "r8", "r9");
fortran!(4, "r8", "r9");

/// Stubs of the C interface's routines, with the same parameters as `fortran!`; the registers hold the sizes.
macro_rules! cblas {
    ($before:literal, $first:literal $first64:literal, $second:literal $second64:literal, $third:literal $third64:literal) => {
        by_value!((true, $before, work::MNK), FLOOR_3,
            $first $first64, $second $second64, $third $third64);
        cblas!($before, $first $first64, $second $second64);
    };
    ($before:literal, $first:literal $first64:literal, $second:literal $second64:literal) => {
        by_value!((true, $before, work::LENGTH), FLOOR_1, $first $first64);
        by_value!((true, $before, work::MN), FLOOR_2, $first $first64, $second $second64);
        by_value!((true, $before, work::NN), FLOOR_2, $first $first64, $first $first64);
        by_value!((true, $before, work::NNK), FLOOR_3,
            $first $first64, $first $first64, $second $second64);
        larger_squared!((true, $before, work::SIDED), [
            concat!("movsxd r10, ", $first), concat!("movsxd rax, ", $second)
        ], [
            concat!("mov r10, ", $first64), concat!("mov rax, ", $second64)
        ]);
    };
}

cblas!(0, "edi" "rdi", "esi" "rsi", "edx" "rdx");
cblas!(1, "esi" "rsi", "edx" "rdx", "ecx" "rcx");
cblas!(2, "edx" "rdx", "ecx" "rcx", "r8d" "r8");
cblas!(3, "ecx" "rcx", "r8d" "r8", "r9d" "r9");
// The seventh argument is the first argument on the stack, above the return address.
cblas!(4, "r8d" "r8", "r9d" "r9", "dword ptr [rsp + 8]" "qword ptr [rsp + 8]");
cblas!(5, "r9d" "r9", "dword ptr [rsp + 8]" "qword ptr [rsp + 8]");

/// Calls whose sizes [`enter`](crate::entry::enter) reads, because only what the arguments point to says how much work
/// there is.
impl<const CBLAS: bool, const BEFORE: usize> Judge for SizesAt<CBLAS, BEFORE, { work::UNKNOWN }> {
    #[unsafe(naked)]
    extern "C" fn judge() {
        naked_asm!(".cfi_startproc", "mov r11d, [r11 + 16]", "jmp {enter}", ".cfi_endproc", enter = sym enter_common)
    }
}

/// A name that may also be that of a function of the program's: [`enter`](crate::entry::enter) decides what to do with
/// the call.
#[unsafe(naked)]
extern "C" fn ask_any() {
    naked_asm!(".cfi_startproc", "mov r11d, [r11 + 16]", "jmp {enter}", ".cfi_endproc", enter = sym enter_common_any)
}

/// Saves the argument registers in a [`frame::Frame`] and passes its address, and the symbol from `r11d`, to `$callee`;
/// then restores the registers, with the function to jump to in `r11`.
///
/// `$asks` are the instructions that decide, and `$more` those behind the rest, with their operands; none in most stubs.
macro_rules! save_call_restore {
    ([$($save:literal),*] [$($restore:literal),*] $callee:ident) => {
        save_call_restore!([$($save),*] [$($restore),*] $callee, [], [],)
    };
    ([$($save:literal),*] [$($restore:literal),*] $callee:ident, [$($asks:literal),*], [$($more:literal),*], $($operands:tt)*) => {
        naked_asm!(
            ".cfi_startproc",
            "sub rsp, {size}",
            ".cfi_adjust_cfa_offset {size}",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "mov [rsp + 48], rax",
            "movaps [rsp + 64], xmm0",
            "movaps [rsp + 80], xmm1",
            $($save,)*
            "mov rdi, rsp",
            "mov esi, r11d",
            "call {callee}",
            "mov r11, rax",
            "test rax, rax",
            "jz 3f",
            $($asks,)*
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]",
            "mov r9, [rsp + 40]",
            "mov rax, [rsp + 48]",
            "movaps xmm0, [rsp + 64]",
            "movaps xmm1, [rsp + 80]",
            $($restore,)*
            "add rsp, {size}",
            ".cfi_adjust_cfa_offset -{size}",
            "jmp r11",
            // The call is done: the result registers are loaded from the frame.
            "3:",
            ".cfi_adjust_cfa_offset {size}",
            "mov rax, [rsp + 56]",
            "movq xmm0, qword ptr [rsp + 192]",
            "movq xmm1, qword ptr [rsp + 200]",
            "add rsp, {size}",
            ".cfi_adjust_cfa_offset -{size}",
            "ret",
            $($more,)*
            ".cfi_endproc",
            size = const frame::SIZE,
            callee = sym $callee,
            $($operands)*
        )
    };
}

/// Saves all registers that may hold arguments of any function, not only of a BLAS routine.
macro_rules! save_all_call_restore {
    ($callee:ident) => {
        save_call_restore!(
            [
                "movaps [rsp + 96], xmm2",
                "movaps [rsp + 112], xmm3",
                "movaps [rsp + 128], xmm4",
                "movaps [rsp + 144], xmm5",
                "movaps [rsp + 160], xmm6",
                "movaps [rsp + 176], xmm7"
            ]
            [
                "movaps xmm2, [rsp + 96]",
                "movaps xmm3, [rsp + 112]",
                "movaps xmm4, [rsp + 128]",
                "movaps xmm5, [rsp + 144]",
                "movaps xmm6, [rsp + 160]",
                "movaps xmm7, [rsp + 176]"
            ]
            $callee
        )
    };
}

/// No routine that may be offloaded has more than two floating-point arguments (`alpha` and `beta`, or `c` and `s`), so
/// `xmm0` and `xmm1` suffice.
///
/// If the call is timed, the host BLAS's function is called, below a copy of the arguments on the stack. As long as it runs, the frame
/// stays; control may leave it by a jump or an exception all the same, since the frame holds nothing that must be released.
#[unsafe(naked)]
extern "C" fn enter_common() {
    save_call_restore!(
        [] [] enter,
        ["cmp dword ptr [rsp + {timed}], 0", "jne 5f"],
        [
            "5:",
            ".cfi_adjust_cfa_offset {size}",
            // The place of the result keeps the function's address.
            "mov [rsp + 56], r11",
            "mov rdi, rsp",
            "call {begins}",
            "mov r11, [rsp + 56]",
            "mov ecx, dword ptr [rsp + {timed}]",
            "sub rsp, {below}",
            ".cfi_adjust_cfa_offset {below}",
            // The return address is before the first word.
            "6:",
            "dec rcx",
            "jz 7f",
            "mov rax, [rsp + {below} + {size} + 8*rcx]",
            "mov [rsp + 8*rcx - 8], rax",
            "jmp 6b",
            "7:",
            "mov rdi, [rsp + {below}]",
            "mov rsi, [rsp + {below} + 8]",
            "mov rdx, [rsp + {below} + 16]",
            "mov rcx, [rsp + {below} + 24]",
            "mov r8, [rsp + {below} + 32]",
            "mov r9, [rsp + {below} + 40]",
            "mov rax, [rsp + {below} + 48]",
            "movaps xmm0, [rsp + {below} + 64]",
            "movaps xmm1, [rsp + {below} + 80]",
            "call r11",
            "mov [rsp + {below} + 56], rax",
            "movq qword ptr [rsp + {below} + 192], xmm0",
            "movq qword ptr [rsp + {below} + 200], xmm1",
            "lea rdi, [rsp + {below}]",
            "call {ended}",
            "add rsp, {below}",
            ".cfi_adjust_cfa_offset -{below}",
            "jmp 3b"
        ],
        timed = const frame::TIMED,
        below = const 8 * frame::MOST_WORDS,
        begins = sym begins,
        ended = sym ended,
    )
}

#[unsafe(naked)]
extern "C" fn enter_common_any() {
    save_all_call_restore!(enter)
}

#[unsafe(naked)]
extern "C" fn jump_slow() {
    save_all_call_restore!(resolve_jump)
}

#[unsafe(naked)]
extern "C" fn multiply_slow() {
    save_all_call_restore!(multiply)
}

/// The stubs of products of sparse matrices: [`multiply`] looks at each call.
macro_rules! product_stubs {
    ($($number:literal $name:ident $export:ident $dtype:ident $many:literal,)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                naked_asm!(
                    ".cfi_startproc",
                    "mov r11d, {number}",
                    "jmp {multiply}",
                    ".cfi_endproc",
                    number = const $number,
                    multiply = sym multiply_slow,
                )
            }
        )*
    };
}

products!(product_stubs);

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
