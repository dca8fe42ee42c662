//! Touched bytes: the part of its operands that a kernel reads or writes, where that is not all of them. Of a square
//! tile on the diagonal, of which one triangle is used, these are the column panels of that triangle. Bytes that a
//! kernel does not touch are not moved.

use super::problem::{Access, Part, Problem};
use super::split::{Span, grid};
use crate::base::Uplo;
use crate::base::kernel::Kernel;
use crate::base::routine::Usage;

/// Bytes that a link moves while a copy of a panel is queued: 20 us at 50 GB/s.
const QUEUEING: usize = 1 << 20;
/// The most panels of a triangle, as more save little: with sixteen, 17 of 32 parts of the square are moved.
const MOST_PANELS: usize = 16;

/// The number of column panels in which a triangle is moved that takes `bytes` as a square. Of `p` panels `(p + 1) / (2 p)` of the
/// square are moved in `p` copies: the time is least where `bytes / (2 p)` and `p * QUEUEING` are equal.
fn panels(bytes: usize) -> usize {
    (bytes / (2 * QUEUEING)).isqrt().clamp(1, MOST_PANELS)
}

/// How the kernel of a task uses one of its parts, as rectangles with an access each.
///
/// Of a triangle that is written without being read, only the squares on the diagonal are needed on the device before:
/// they also hold elements of the opposite triangle, which are written back together with the result.
#[must_use]
pub fn touched(p: &Problem, kernel: &Kernel, part: &Part) -> Vec<Part> {
    let square = (part.row, part.rows) == (part.col, part.cols);
    let half = kernel.routine == p.routine && p.routine.triangle() == Some(part.operand) && square;
    let bytes = part
        .rows
        .saturating_mul(part.cols)
        .saturating_mul(p.dtype.size());
    let panels = panels(bytes);
    if !half || panels == 1 {
        return vec![*part];
    }
    let usage = p.routine.operands()[part.operand].usage;
    let fresh = usage == Usage::Accumulate && kernel.beta.is_zero();
    let width = part.cols.div_ceil(panels);
    let mut found = Vec::with_capacity(2 * panels);
    for columns in grid(part.cols, width) {
        let beside = match p.form.uplo {
            Uplo::Lower => Span {
                start: columns.end(),
                len: part.rows - columns.end(),
            },
            Uplo::Upper => Span {
                start: 0,
                len: columns.start,
            },
        };
        let piece = |rows: Span, access| Part {
            row: part.row + rows.start,
            col: part.col + columns.start,
            rows: rows.len,
            cols: columns.len,
            access,
            ..*part
        };
        if fresh {
            found.push(piece(columns, part.access));
            if beside.len > 0 {
                found.push(piece(beside, Access::Overwrite));
            }
        } else {
            let start = columns.start.min(beside.start);
            let len = columns.len + beside.len;
            found.push(piece(Span { start, len }, part.access));
        }
    }
    found
}
