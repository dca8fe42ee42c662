//! Plans of updates of one triangle of C on several devices: rank-k and rank-2k updates, and products of which one
//! triangle is wanted (gemmt).
//!
//! Only tiles that hold elements of the stored triangle are computed. Square tiles on the diagonal go to the routine's
//! own kernel, which leaves their opposite triangle as it is (so some of the old tile is needed even with a zero beta,
//! see `touched`). The other tiles are computed by products, two for rank-2k updates and one otherwise (BLASX, section
//! III-B). If the routine's own kernel takes triangles up to some order only, larger tiles on the diagonal are cut into
//! squares of that order and products. A device owns contiguous columns of C, as many as make its share of the triangle
//! as large as every other device's.

use super::blocks::Largest;
use super::problem::{Access, Part, Problem, Task};
use super::split::{self, Span};
use super::tiles::{self, part, stored};
use super::tiling::Tiling;
use super::{Resources, Value};
use crate::base::kernel::Kernel;
use crate::base::{DeviceId, DeviceSet, Op, Routine, TileSize, Uplo};

/// A tile that holds elements of the stored triangle, at one step of the inner dimension.
#[derive(Clone, Copy)]
struct Cell {
    device: DeviceId,
    row: Span,
    col: Span,
    depth: Span,
    /// Whether this is the first step for the tile.
    first: bool,
}

/// A product that is added to C: `alpha op(X) op(Y)`, where X and Y are inputs.
struct Term {
    x: usize,
    y: usize,
    ops: (Op, Op),
    alpha: Value,
}

impl Term {
    /// The parts of both inputs that a tile needs.
    fn parts(&self, cell: Cell) -> [Part; 2] {
        [
            stored(self.x, self.ops.0, cell.row, cell.depth),
            stored(self.y, self.ops.1, cell.depth, cell.col),
        ]
    }
}

/// The products that are added: `alpha op(A) op(B)` if B has a transposition of its own; else `alpha op(A) op(A)^T`, or
/// `alpha op(A) op(B)^T` and `alpha op(B) op(A)^T`. Hermitian routines have `^H` in place of `^T`, and `conj(alpha)` in
/// the last product.
fn terms(p: &Problem) -> Vec<Term> {
    let term = |(x, y, alpha), ops| Term { x, y, ops, alpha };
    if p.routine.has_op_b() {
        return vec![term((0, 1, p.alpha), (p.op_a, p.op_b))];
    }
    let hermitian = p.routine.hermitian();
    let ops = match p.op_a {
        Op::None if hermitian => (Op::None, Op::ConjTrans),
        Op::None => (Op::None, Op::Trans),
        // Here op(X) is the transpose of the stored X, so its transpose is the stored X.
        op => (op, Op::None),
    };
    let turned = if hermitian {
        Value {
            im: -p.alpha.im,
            ..p.alpha
        }
    } else {
        p.alpha
    };
    let inputs = p.operands.len() - 1;
    let all = [(0, inputs - 1, p.alpha), (inputs - 1, 0, turned)];
    let all = all.into_iter().take(inputs);
    all.map(|of| term(of, ops)).collect()
}

pub(super) fn lower(
    p: &Problem,
    machine: &Resources,
    tiling: Option<Tiling>,
) -> Option<Vec<Vec<Task>>> {
    if p.n == 0 {
        return Some(Vec::new());
    }
    if p.k == 0 {
        return None;
    }
    let terms = terms(p);
    let tiling = tiling?;
    let panels = panels(p, machine, tiling.tile.n);
    let used = panels.len();
    let depth = split::grid(p.k, tiling.tile.k);
    let lists = (0..used).map(|i| {
        panel(
            p,
            &terms,
            machine.device(i, used),
            (&panels, i),
            &depth,
            &tiling,
        )
    });
    Some(lists.collect())
}

/// The tasks that compute these columns of the stored triangle: a square on the diagonal and what lies beside it, whole.
pub(super) fn columns(p: &Problem, cols: Span) -> Vec<Task> {
    let cell = Cell {
        device: DeviceId(0),
        row: rows_of(cols, p.n, p.form.uplo),
        col: cols,
        depth: Span::all(p.k),
        first: true,
    };
    let mut tasks = Vec::new();
    update(p, &terms(p), cell, &mut tasks);
    tasks
}

/// The largest share of any device.
pub(super) fn largest(p: &Problem, machine: &Resources, tile: &TileSize) -> Option<Largest> {
    let uplo = p.form.uplo;
    let panels = panels(p, machine, tile.n);
    let (m, n) = panels.iter().fold((0, 0), |(m, n), cols| {
        (m.max(rows_of(*cols, p.n, uplo).len), n.max(cols.len))
    });
    // Rows are cut like the columns of all devices.
    let rows = Largest::longest_of(panels.iter().map(|cols| cols.len), tile.n);
    let inputs = p.operands.len() - 1;
    let elements = |cols: &Span| {
        let rows = rows_of(*cols, p.n, uplo).len;
        let read = rows.saturating_mul(p.k).saturating_mul(inputs);
        read.saturating_add(rows.saturating_mul(cols.len))
    };
    Some(Largest {
        m,
        n,
        k: p.k,
        longest: [
            if tile.m > tile.n {
                tile.longest_strip().min(m)
            } else {
                rows
            },
            Largest::longest_of(panels.iter().map(|cols| cols.len), tile.n),
            split::longest(p.k, tile.k),
        ],
        elements: panels.iter().map(elements).max()?,
        products: terms(p).len(),
        triangle: false,
        ops: terms(p).first().map(|term| term.ops),
    })
}

/// The columns of C for each device.
fn panels(p: &Problem, machine: &Resources, tile: usize) -> Vec<Span> {
    let sharers = tiles::sharers(p.n, machine, tile);
    let devices = machine.devices.first(sharers);
    shares(p.n, &devices, tile, p.form.uplo, machine.fixed)
}

/// The rows of C that hold elements of the stored triangle in these columns.
fn rows_of(cols: Span, n: usize, uplo: Uplo) -> Span {
    match uplo {
        Uplo::Lower => Span {
            start: cols.start,
            len: n - cols.start,
        },
        Uplo::Upper => Span::all(cols.end()),
    }
}

/// For each device, or for fewer, a contiguous range of columns that holds its share of the triangle; none is empty. The cuts
/// lie at multiples of `tile`, or of a half, quarter and so on of `tile`: the coarsest for which no share is more than a
/// tenth too large.
/// With `whole_tiles`, the cuts lie where a grid of `tile` has them.
fn shares(n: usize, devices: &DeviceSet, tile: usize, uplo: Uplo, whole_tiles: bool) -> Vec<Span> {
    let (order, parts) = (n as f64, devices.len());
    let area = |s: &Span| {
        let middle = s.start as f64 + s.len as f64 / 2.0;
        let height = match uplo {
            Uplo::Lower => order - middle,
            Uplo::Upper => middle,
        };
        s.len as f64 * height
    };
    let most = |i: usize| order * order / 2.0 * devices.share(i) * 1.1;
    // The first i columns of a lower triangle hold the share 1 - (1 - i / n)^2 of its elements, those of an upper one
    // (i / n)^2.
    let ideal = |i: usize| {
        let share = devices.share_before(i);
        order
            * match uplo {
                Uplo::Lower => 1.0 - (1.0 - share).sqrt(),
                Uplo::Upper => share.sqrt(),
            }
    };
    let mut step = tile.clamp(1, n);
    let last_tile = split::grid(n, tile).last().map_or(0, |s| s.start);
    loop {
        let at = |i: usize| match i {
            0 => 0,
            _ if i == parts => n,
            _ => match ((ideal(i) / step as f64).round() as usize).saturating_mul(step) {
                at if whole_tiles && at > last_tile => n,
                at => at.min(n),
            },
        };
        let spans: Vec<Span> = (0..parts)
            .map(|i| Span {
                start: at(i),
                len: at(i + 1) - at(i),
            })
            .filter(|s| s.len > 0)
            .collect();
        let mut all = spans.iter().enumerate();
        let fair = spans.len() == parts && all.all(|(i, s)| area(s) <= most(i));
        if fair || step == 1 || whole_tiles {
            return spans;
        }
        step /= 2;
    }
}

/// The tasks of one device, which owns these columns of C.
fn panel(
    p: &Problem,
    terms: &[Term],
    device: DeviceId,
    (panels, at): (&[Span], usize),
    depth: &[Span],
    tiling: &Tiling,
) -> Vec<Task> {
    let uplo = p.form.uplo;
    let tile = &tiling.tile;
    let own = panels[at].grid(tile.n);
    // The rows are cut like the columns of the devices that own them, so that devices share the tiles of the inputs.
    let owners = match uplo {
        Uplo::Lower => &panels[at..],
        Uplo::Upper => &panels[..=at],
    };
    let rows: Vec<Span> = owners.iter().flat_map(|cols| cols.grid(tile.n)).collect();
    let rows = match tile.m > tile.n {
        true => split::joined(&rows, tile.m, tile.longest_strip()),
        false => rows,
    };
    let mut tasks = Vec::new();
    tiles::visit(&rows, &own, depth.len(), tiling, |row, col, step| {
        let is_stored = match uplo {
            Uplo::Lower => row.end() > col.start,
            Uplo::Upper => row.start <= col.start,
        };
        if is_stored {
            let cell = Cell {
                device,
                row,
                col,
                depth: depth[step],
                first: step == 0,
            };
            update(p, terms, cell, &mut tasks);
        }
    });
    tasks
}

/// The tasks that update the stored elements of one tile of C, which may have more rows than columns.
fn update(p: &Problem, terms: &[Term], cell: Cell, tasks: &mut Vec<Task>) {
    let (row, col) = (cell.row, cell.col);
    if row.start >= col.end() || row.end() <= col.start {
        products(p, terms, cell, tasks);
        return;
    }
    let beside = match p.form.uplo {
        Uplo::Lower => Span {
            start: col.end(),
            len: row.end() - col.end(),
        },
        Uplo::Upper => Span {
            start: row.start,
            len: col.start - row.start,
        },
    };
    square(p, terms, Cell { row: col, ..cell }, tasks);
    if beside.len > 0 {
        products(
            p,
            terms,
            Cell {
                row: beside,
                ..cell
            },
            tasks,
        );
    }
}

/// The tasks that update a tile on the diagonal of C.
fn square(p: &Problem, terms: &[Term], cell: Cell, tasks: &mut Vec<Task>) {
    let most = p.routine.record().signature.most_order;
    for block in blocks(cell.row, most) {
        let square = Cell {
            row: block,
            col: block,
            ..cell
        };
        tasks.push(diagonal(p, terms, square));
        let beside = match p.form.uplo {
            Uplo::Lower => Span {
                start: block.end(),
                len: cell.row.end() - block.end(),
            },
            Uplo::Upper => Span {
                start: cell.row.start,
                len: block.start - cell.row.start,
            },
        };
        if beside.len > 0 {
            let rest = Cell {
                row: beside,
                ..square
            };
            products(p, terms, rest, tasks);
        }
    }
}

/// A span in pieces of nearly equal length, none longer than `most`.
fn blocks(span: Span, most: usize) -> impl Iterator<Item = Span> {
    let count = span.len.div_ceil(most).max(1);
    let at = move |i: usize| span.start + span.len * i / count;
    (0..count).map(move |i| Span {
        start: at(i),
        len: at(i + 1) - at(i),
    })
}

/// The update of a square on the diagonal by the routine's own kernel.
fn diagonal(p: &Problem, terms: &[Term], cell: Cell) -> Task {
    let output = p.operands.len() - 1;
    // The first product uses every input of the routine.
    let mut parts = terms[0].parts(cell)[..output].to_vec();
    // The kernel does not write one half of the square, so the old bytes are needed even with a zero beta.
    parts.push(part(output, cell.row, cell.col, Access::Update));
    Task {
        device: cell.device,
        kernel: Kernel {
            m: cell.row.len,
            n: cell.col.len,
            k: cell.depth.len,
            beta: if cell.first { p.beta } else { Value::ONE },
            ..p.kernel()
        },
        parts,
    }
}

/// The products that update a tile that is not on the diagonal.
fn products(p: &Problem, terms: &[Term], cell: Cell, tasks: &mut Vec<Task>) {
    let output = p.operands.len() - 1;
    for (i, term) in terms.iter().enumerate() {
        let first = cell.first && i == 0;
        let beta = if first { p.beta } else { Value::ONE };
        let [x, y] = term.parts(cell);
        let (op_a, op_b) = term.ops;
        tasks.push(Task {
            device: cell.device,
            kernel: Kernel {
                routine: Routine::Gemm,
                op_a,
                op_b,
                m: cell.row.len,
                n: cell.col.len,
                k: cell.depth.len,
                alpha: term.alpha,
                beta,
                ..p.kernel()
            },
            parts: vec![x, y, part(output, cell.row, cell.col, tiles::written(beta))],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_hold_equal_parts_of_the_triangle() {
        for uplo in [Uplo::Lower, Uplo::Upper] {
            for n in [1, 2, 3, 7, 64, 300, 16384] {
                for parts in 1..=n.min(8) {
                    for tile in [1, 16, 2048] {
                        let found = shares(n, &DeviceSet::equal(parts), tile, uplo, false);
                        let mut next = 0;
                        for s in &found {
                            assert_eq!(s.start, next);
                            assert!(s.len > 0);
                            next = s.end();
                        }
                        assert_eq!(next, n);
                        if n < 300 {
                            continue;
                        }
                        assert_eq!(found.len(), parts);
                        let area = |s: &Span| -> usize {
                            let height = |c| if uplo == Uplo::Lower { n - c } else { c + 1 };
                            (s.start..s.end()).map(height).sum()
                        };
                        let largest = found.iter().map(area).max().expect("some");
                        let even = n * (n + 1) / 2 / parts;
                        assert!(largest <= even + even / 7, "{n} {parts} {tile}: {found:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn faster_devices_get_more_of_the_triangle() {
        let all = [(DeviceId(0), 1.0), (DeviceId(1), 6.0), (DeviceId(2), 3.0)];
        let devices = DeviceSet::of(all);
        for uplo in [Uplo::Lower, Uplo::Upper] {
            for (n, tile) in [(300, 16), (16384, 2048), (16384, 1)] {
                let found = shares(n, &devices, tile, uplo, false);
                assert_eq!(found.len(), 3);
                for (s, share) in found.iter().zip([0.6, 0.3, 0.1]) {
                    let height = |c| if uplo == Uplo::Lower { n - c } else { c + 1 };
                    let area: usize = (s.start..s.end()).map(height).sum();
                    let all = (n * (n + 1) / 2) as f64;
                    let part = area as f64 / all / share;
                    assert!((0.7..1.15).contains(&part), "{n} {tile} {uplo:?}: {part}");
                }
            }
        }
    }

    #[test]
    fn no_block_exceeds_the_kernel() {
        for len in [1, 2, 1023, 1024, 1025, 1279, 2048, 2049, 5000] {
            let span = Span { start: 7, len };
            let mut next = 7;
            for block in blocks(span, 1024) {
                assert_eq!(block.start, next);
                assert!(block.len > 0 && block.len <= 1024);
                next = block.end();
            }
            assert_eq!(next, span.end());
        }
    }
}
