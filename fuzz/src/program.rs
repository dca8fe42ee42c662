//! A random program: its operations, and its three sources: a seed, a text, bytes.

use std::fmt::Write as _;

use testkit::Rng;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A BLAS call of matrices.
    Level3,
    /// A BLAS call of a matrix and vectors.
    Level2,
    /// A BLAS call of vectors.
    Level1,
    /// A call whose output overlaps an input.
    Overlap,
    /// Compares some elements.
    Look,
    /// Compares a whole block, gaps included.
    LookAll,
    /// Writes some elements.
    Write,
    /// Writes a whole block.
    WriteAll,
    /// memcpy, memmove, memset, memcmp.
    Copy,
    /// Frees a block and allocates another.
    Renew,
    /// Grows or shrinks a block.
    Resize,
    /// The kernel reads a block.
    Out,
    /// The kernel writes a block.
    In,
    /// madvise, mremap, mprotect, munmap of a part.
    Map,
    /// A child that checks, writes and computes.
    Fork,
    /// A signal handler that reads a block, and a handler for the program's own faults.
    Signal,
    /// A coroutine, on whose stack another context computes with matrices.
    Context,
    /// A thread that is cancelled while it computes.
    Cancel,
    /// Paths beside a result, given to system calls.
    Names,
    /// Structures beside a result that the kernel fills.
    Structures,
    /// A child's status beside a result.
    Children,
    /// A thread that sleeps on words beside a result.
    Sleepers,
    /// Timers whose words lie beside a result.
    Timers,
    /// Pages of a result that the program itself protects.
    Barrier,
    /// Pages of a result that the program's own userfaultfd fills in.
    Missing,
    /// Pages of a result that are given back to the kernel.
    Discard,
    /// A hint of semcache.h.
    Hint,
    /// Products of a sparse matrix.
    Sparse,
    /// A factorization of LAPACK, and a solution by it.
    Solve,
}

/// Every kind with how often it is drawn.
const WEIGHTS: [(Kind, usize); 29] = [
    (Kind::Level3, 49),
    (Kind::Level2, 28),
    (Kind::Level1, 24),
    (Kind::Overlap, 2),
    (Kind::Look, 20),
    (Kind::LookAll, 6),
    (Kind::Write, 18),
    (Kind::WriteAll, 5),
    (Kind::Copy, 10),
    (Kind::Renew, 8),
    (Kind::Resize, 7),
    (Kind::Out, 8),
    (Kind::In, 8),
    (Kind::Map, 6),
    (Kind::Fork, 1),
    (Kind::Signal, 3),
    (Kind::Context, 2),
    (Kind::Cancel, 2),
    (Kind::Names, 4),
    (Kind::Structures, 4),
    (Kind::Children, 1),
    (Kind::Sleepers, 2),
    (Kind::Timers, 2),
    (Kind::Barrier, 4),
    (Kind::Missing, 2),
    (Kind::Discard, 2),
    (Kind::Hint, 16),
    (Kind::Sparse, 12),
    (Kind::Solve, 14),
];

/// One operation. Its operands follow from the seed and from the blocks that exist when it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// Which thread runs it, modulo the number of threads.
    pub thread: u8,
    /// What it does.
    pub kind: Kind,
    /// Whether it works on the blocks that threads share, under their lock.
    pub shared: bool,
    /// The seed of all other choices.
    pub seed: u64,
}

/// A program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The origin of the initial blocks.
    pub seed: u64,
    /// Number of threads: one to four.
    pub threads: usize,
    /// The operations; each thread runs its own in this order.
    pub ops: Vec<Op>,
}

impl Kind {
    /// The kind that a number stands for, in proportion to the weights.
    #[must_use]
    pub fn weighted(number: u64) -> Kind {
        let all: usize = WEIGHTS.iter().map(|w| w.1).sum();
        let mut left = usize::try_from(number % all as u64).unwrap();
        for (kind, weight) in WEIGHTS {
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        Kind::Look
    }

    fn parse(text: &str) -> Option<Kind> {
        WEIGHTS
            .iter()
            .map(|w| w.0)
            .find(|k| format!("{k:?}") == text)
    }
}

impl Program {
    /// The program that belongs to `seed`.
    #[must_use]
    pub fn of_seed(seed: u64, ops: usize) -> Program {
        let mut rng = Rng::new(seed);
        let threads = 1 + rng.below(4);
        let ops = (0..ops)
            .map(|_| Op {
                thread: u8::try_from(rng.below(threads)).unwrap(),
                kind: Kind::weighted(rng.draw()),
                shared: rng.one_in(6),
                seed: rng.draw(),
            })
            .collect();
        Program { seed, threads, ops }
    }

    /// The program that bytes stand for: a head of two, then six for each operation.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Program {
        let (head, rest) = bytes.split_at(bytes.len().min(2));
        let head = head.iter().fold(0, |n, &b| n << 8 | u64::from(b));
        let ops = rest
            .chunks_exact(6)
            .map(|c| Op {
                thread: c[0] & 3,
                shared: c[0] >> 2 & 7 == 0,
                kind: Kind::weighted(u64::from(c[1])),
                seed: c[2..].iter().fold(0, |n, &b| n << 8 | u64::from(b)),
            })
            .collect();
        Program {
            seed: head >> 2,
            threads: 1 + usize::try_from(head & 3).unwrap(),
            ops,
        }
    }

    /// The program as text: a line for the head and one for each operation.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("program {} {}\n", self.seed, self.threads);
        for op in &self.ops {
            let whose = if op.shared { "shared" } else { "own" };
            let _ = writeln!(text, "{} {:?} {whose} {}", op.thread, op.kind, op.seed);
        }
        text
    }

    /// Parses the output of [`text`](Self::text); empty lines and those that begin with `#` are left out.
    #[must_use]
    pub fn parse(text: &str) -> Option<Program> {
        let mut lines = text
            .lines()
            .filter(|l| !l.starts_with('#') && !l.trim().is_empty());
        let head: Vec<&str> = lines.next()?.split_whitespace().collect();
        let ["program", seed, threads] = head[..] else {
            return None;
        };
        let mut program = Program {
            seed: seed.parse().ok()?,
            threads: threads.parse().ok().filter(|t| (1..=4).contains(t))?,
            ops: Vec::new(),
        };
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [thread, kind, whose, seed] = words[..] else {
                return None;
            };
            program.ops.push(Op {
                thread: thread.parse().ok()?,
                kind: Kind::parse(kind)?,
                shared: whose == "shared",
                seed: seed.parse().ok()?,
            });
        }
        Some(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let program = Program::of_seed(7, 50);
        assert_eq!(Program::parse(&program.text()), Some(program.clone()));
        assert_eq!(program, Program::of_seed(7, 50));
        assert_ne!(program, Program::of_seed(8, 50));
        assert_eq!(Program::parse("program 1 5\n"), None);
        assert_eq!(Program::parse("program 1 1\n0 Nothing own 1\n"), None);
    }

    #[test]
    fn any_bytes_are_a_program() {
        for len in 0..40 {
            let bytes: Vec<u8> = (0..len).map(|i: u8| i.wrapping_mul(37)).collect();
            let program = Program::of_bytes(&bytes);
            assert_eq!(program.ops.len(), (bytes.len().max(2) - 2) / 6);
            assert!((1..=4).contains(&program.threads));
        }
    }
}
