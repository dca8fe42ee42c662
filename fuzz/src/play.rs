//! Executes a program in this process.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;

use testkit::Rng;

use crate::beside::{Beside, ROOM};
use crate::block::{Area, Block};
use crate::element::Type;
use crate::ops;
use crate::program::{Op, Program};
use crate::world::{ALL, ANY, BESIDE, FIRST, World};

/// Rows of each thread in the matrix that lies between them, and its columns.
const ROWS: usize = 40;
const COLUMNS: usize = 60;
/// Bytes of the blocks that come from no allocator.
const STATIC: usize = 640 << 10;
const STACK: usize = 4096;

/// Static memory of the program, as Fortran's COMMON, and behind it a structure for each thread.
#[repr(align(64))]
struct Common(
    #[expect(dead_code, reason = "used by address")] [u8; STATIC],
    #[expect(dead_code, reason = "used by address")] [[u8; ROOM]; 4],
);
static COMMON: Mutex<Common> = Mutex::new(Common([0; STATIC], [[0; ROOM]; 4]));

pub use crate::beside::met;
pub use crate::ops::may_answer_faults;

/// Executes a program, and compares everything.
///
/// # Panics
/// With the operation and the element, if an element has a wrong value.
pub fn play(program: &Program) {
    let verbose = std::env::var_os("FUZZ_VERBOSE").is_some();
    ops::prepare();
    let scratch = ops::Scratch::new();
    let ticking = program.seed.is_multiple_of(3).then(ops::Ticking::start);
    let mut rng = Rng::new(program.seed.wrapping_mul(3) ^ 0xB10C);
    let first = rng.of(&Type::ALL);
    let between = ROWS * program.threads;
    // Private memory, so that the parent does not see a child's writes to the matrix between threads.
    let mut rows = loop {
        let rows = Block::new("rows".into(), first, between * COLUMNS, &mut rng);
        if !rows.shared() {
            break rows;
        }
        rows.end();
    };
    rows.bound = 3.0;
    let shared: Vec<Block> = (0..2)
        .map(|i| Block::new(format!("shared{i}"), first, 4000, &mut rng))
        .collect();
    let shared = Mutex::new(shared);
    let mut common = COMMON.lock().unwrap_or_else(|e| e.into_inner());
    let common = std::ptr::from_mut(&mut *common).cast::<u8>();
    let structures = common.wrapping_add(STATIC).expose_provenance();
    let elements = STATIC / first.size();
    let shadow = Block::shadow_of(STATIC);
    let mut common = Block::over("common".into(), first, elements, common, shadow);
    common.fill(0, elements, &mut rng);
    let mut common = Some(common);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..program.threads)
            .map(|t| {
                let area = Area {
                    off: t * ROWS,
                    rows: ROWS,
                    cols: COLUMNS,
                    ld: between,
                };
                let part = rows.part(format!("rows of thread {t}"), area);
                let seed = rng.draw();
                let (shared, common) = (&shared, common.take());
                scope.spawn(move || {
                    let fixed = structures + t * ROOM;
                    thread(
                        program,
                        t,
                        seed,
                        (part, common, fixed),
                        shared,
                        first,
                        verbose,
                    )
                })
            })
            .collect();
        let ends: Vec<_> = handles.into_iter().map(|h| h.join()).collect();
        for end in ends {
            if let Err(panic) = end {
                resume_unwind(panic);
            }
        }
    });
    rows.check_all("at the end");
    rows.end();
    for block in shared.into_inner().unwrap_or_else(|e| e.into_inner()) {
        block.check_all("at the end");
        block.end();
    }
    drop(ticking);
    drop(scratch);
    // Lent memory stays until the process ends; the next program uses it again.
}

fn thread(
    program: &Program,
    t: usize,
    seed: u64,
    (part, common, fixed): (Block, Option<Block>, usize),
    shared: &Mutex<Vec<Block>>,
    first: Type,
    verbose: bool,
) {
    let mut rng = Rng::new(seed);
    let second = rng.of(&Type::ALL);
    let (mut stack, mut offsets) = ([0u64; STACK], [0u64; STACK]);
    let mut slots = Vec::new();
    for slot in 0..ALL {
        let ty = if slot < FIRST { first } else { second };
        let len = crate::ops::length(&mut rng);
        slots.push(Block::new(format!("{t}.{slot}"), ty, len, &mut rng));
    }
    std::mem::replace(&mut slots[FIRST - 1], part).end();
    if let Some(common) = common {
        std::mem::replace(&mut slots[FIRST - 2], common).end();
    }
    let fixed = std::ptr::with_exposed_provenance_mut(fixed);
    let (beside, block) = Beside::new(t, first, fixed, &mut rng);
    std::mem::replace(&mut slots[BESIDE], block).end();
    if rng.one_in(3) {
        let len = STACK * 8 / second.size();
        let at = stack.as_mut_ptr().cast();
        let mut block = Block::over(
            format!("stack of {t}"),
            second,
            len,
            at,
            Block::shadow_of(STACK * 8),
        );
        block.fill(0, len, &mut rng);
        std::mem::replace(&mut slots[ALL - 1], block).end();
    }
    let whole = rng.of(&[Type::I, Type::I, Type::L]);
    for slot in ALL..ANY {
        let len = crate::ops::length(&mut rng);
        slots.push(Block::new(format!("{t}.{slot}"), whole, len, &mut rng));
    }
    if rng.one_in(5) {
        let (bytes, at) = (STACK * 8, offsets.as_mut_ptr().cast());
        let shadow = Block::shadow_of(bytes);
        let name = format!("offsets on the stack of {t}");
        let mut block = Block::over(name, whole, bytes / whole.size(), at, shadow);
        block.fill(0, block.len, &mut rng);
        std::mem::replace(&mut slots[ALL], block).end();
    }
    let mut w = World {
        slots,
        beside,
        sparse: Vec::new(),
        rng,
        thread: t,
        step: 0,
        note: String::new(),
    };
    for (step, &op) in program.ops.iter().enumerate() {
        if usize::from(op.thread) % program.threads == t {
            guarded(program, &mut w, step, op, shared);
            if verbose {
                eprintln!(
                    "fuzz: {step} thread {t}{}: {}",
                    if op.shared { " shared" } else { "" },
                    w.note
                );
            }
        }
    }
    w.note = "at the end".into();
    for block in &w.slots {
        block.check_all("at the end");
    }
    for block in w.slots {
        block.end();
    }
    w.beside.end();
}

/// Executes one operation; a message about a difference names it.
fn guarded(program: &Program, w: &mut World, step: usize, op: Op, shared: &Mutex<Vec<Block>>) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        if !op.shared {
            return ops::run(w, step, op);
        }
        let mut blocks = shared.lock().unwrap_or_else(|e| e.into_inner());
        for (i, block) in blocks.iter_mut().enumerate() {
            std::mem::swap(block, &mut w.slots[i]);
        }
        let result = catch_unwind(AssertUnwindSafe(|| ops::run(w, step, op)));
        for (i, block) in blocks.iter_mut().enumerate() {
            std::mem::swap(block, &mut w.slots[i]);
        }
        if let Err(panic) = result {
            resume_unwind(panic);
        }
    }));
    if let Err(panic) = result {
        let what = match panic.downcast_ref::<String>() {
            Some(text) => text,
            None => panic.downcast_ref::<&str>().copied().unwrap_or("?"),
        };
        eprintln!(
            "fuzz: DIFFERENCE: program {}, operation {step} ({op:?}) of thread {}: {}: {what}",
            program.seed, w.thread, w.note
        );
        resume_unwind(panic);
    }
}
