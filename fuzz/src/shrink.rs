//! Makes a program that fails shorter: operations are left out as long as what is left fails.

use crate::program::Program;

/// The shortest program that was found within `tries` runs. `fails` plays one, several times if it must.
pub fn shrink(program: &Program, tries: usize, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    let mut left = tries;
    let mut try_one = |candidate: &Program| {
        if left == 0 {
            return false;
        }
        left -= 1;
        fails(candidate)
    };
    // Operations after the failing one are removed first: halves from the end.
    let mut chunk = best.ops.len().div_ceil(2);
    while chunk >= 1 {
        let mut end = best.ops.len();
        while end > 0 {
            let from = end.saturating_sub(chunk);
            let mut candidate = best.clone();
            candidate.ops.drain(from..end);
            if try_one(&candidate) {
                best = candidate;
            }
            end = from;
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    for threads in 1..best.threads {
        let candidate = Program {
            threads,
            ..best.clone()
        };
        if try_one(&candidate) {
            return candidate;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_left() {
        let program = Program::of_seed(3, 200);
        let (a, b) = (program.ops[31], program.ops[160]);
        let least = shrink(&program, 2000, |p| p.ops.contains(&a) && p.ops.contains(&b));
        assert_eq!(least.ops, [a, b]);
        assert_eq!(least.threads, 1);
        assert_eq!(shrink(&program, 2000, |_| false), program);
    }
}
