//! Streamed write-back: which pieces of a call's outputs are final after which task, so that they are copied to the
//! host while the rest of the call computes.
//!
//! A part of an output is final once the last task that writes it is queued: a copy that is queued then runs after that
//! task and need not wait for later ones. Final parts of one column panel that lie next to each other are joined until
//! their runs are 32 KiB long.

use rustc_hash::FxHashMap;

use crate::base::{DeviceId, Rect};
use crate::cache::task::Use;
use crate::plan::{Access, Part, Plan, Problem, Task};

/// Runs of at least this many bytes leave at once: they are copied at 0.84 of the link's rate, of 44 KiB at 0.94 (an H100
/// beside products). Longer ones come at the price of waiting for a neighbour: the last column panel of a product of order
/// 16384 in tiles of 5504 left whole, 13 ms after the last of 148 ms of kernels, where the last tile takes 4.4 ms.
const LONG_RUN: usize = 32 << 10;

/// A part of an output by its place: operand, first row, first column, rows, columns.
type Key = (usize, usize, usize, usize, usize);

/// A column panel of one output: the parts on one device that have the same columns.
type PanelKey = (DeviceId, usize, usize, usize);

#[derive(Debug, Default)]
struct Panel {
    /// Parts that are not final yet.
    left: usize,
    /// First and past-the-last rows that are final and not yet queued for write-back, ascending; no two ranges touch.
    ready: Vec<(usize, usize)>,
}

/// The streamed write-back of one call's outputs.
#[derive(Debug, Default)]
pub struct StreamedWriteBack {
    /// For each part, the index of the last task that writes it.
    last: FxHashMap<Key, usize>,
    panels: FxHashMap<PanelKey, Panel>,
    /// Pieces whose write-back is queued: operand and bytes.
    sent: Vec<(usize, Rect)>,
    /// Whether each strip leaves alone, since others need its memory.
    each: bool,
}

fn key(p: &Part) -> Key {
    (p.operand, p.row, p.col, p.rows, p.cols)
}

fn panel_key(task: &Task, p: &Part) -> PanelKey {
    (task.device, p.operand, p.col, p.cols)
}

impl StreamedWriteBack {
    /// Prepares the streamed write-back of the operands of a plan that `wanted` names. `each`: a strip leaves as soon as it is
    /// final, and does not wait for adjacent ones.
    #[must_use]
    pub fn new(plan: &Plan, wanted: &[usize], each: bool) -> Self {
        let mut streamed = Self {
            each,
            ..Self::default()
        };
        if wanted.is_empty() {
            return streamed;
        }
        for (at, task) in plan.tasks.iter().enumerate() {
            for part in &task.parts {
                if part.access == Access::Read || !wanted.contains(&part.operand) {
                    continue;
                }
                if streamed.last.insert(key(part), at).is_none() {
                    streamed
                        .panels
                        .entry(panel_key(task, part))
                        .or_default()
                        .left += 1;
                }
            }
        }
        streamed
    }

    /// The pieces whose write-back can be queued now that task `at` is queued.
    pub(super) fn queued(
        &mut self,
        at: usize,
        problem: &Problem,
        plan: &Plan,
        operands: &[Use],
    ) -> Vec<(usize, Rect)> {
        let (mut go, task) = (Vec::new(), &plan.tasks[at]);
        for part in &task.parts {
            if self.last.get(&key(part)) != Some(&at) {
                continue;
            }
            let Some(panel) = self.panels.get_mut(&panel_key(task, part)) else {
                continue;
            };
            let o = &operands[part.operand];
            panel.left -= 1;
            panel.join(part.row, part.row + part.rows);
            let leaving = if panel.left == 0 {
                std::mem::take(&mut panel.ready)
            } else if self.each {
                let strip = plan.strips.around(task.device, part);
                panel.cut(strip.row, strip.row + strip.rows)
            } else {
                panel.longer_than(LONG_RUN / o.size)
            };
            go.extend(leaving.into_iter().map(|(first, end)| {
                let rows = Part {
                    row: first,
                    rows: end - first,
                    ..*part
                };
                (part.operand, problem.bytes(&rows, o.view.start))
            }));
        }
        go
    }

    /// After tasks that are not queued have gone to other devices. `queued` says which tasks are queued.
    pub(super) fn dealt(&mut self, plan: &Plan, queued: &dyn Fn(usize) -> bool) {
        for panel in self.panels.values_mut() {
            panel.left = 0;
        }
        for (&(operand, _, col, _, cols), &at) in &self.last {
            if !queued(at) {
                let panel = (plan.tasks[at].device, operand, col, cols);
                self.panels.entry(panel).or_default().left += 1;
            }
        }
    }

    /// Final pieces that have waited for adjacent ones, which went to another device.
    pub(super) fn left_over(&mut self, problem: &Problem, operands: &[Use]) -> Vec<(usize, Rect)> {
        let mut go = Vec::new();
        for (&(_, operand, col, cols), panel) in &mut self.panels {
            for (row, end) in panel.ready.drain(..) {
                let rows = Part {
                    operand,
                    row,
                    col,
                    rows: end - row,
                    cols,
                    access: Access::Read,
                };
                go.push((operand, problem.bytes(&rows, operands[operand].view.start)));
            }
        }
        go
    }

    /// Notes that the write-back of a piece is queued.
    pub(super) fn note(&mut self, operand: usize, rect: Rect) {
        self.sent.push((operand, rect));
    }

    /// The final pieces whose write-back is queued: operand and bytes.
    #[must_use]
    pub fn sent(&self) -> &[(usize, Rect)] {
        &self.sent
    }
}

impl Panel {
    /// Adds final rows, joined with adjacent ones.
    fn join(&mut self, first: usize, end: usize) {
        let (mut first, mut end) = (first, end);
        self.ready.retain(|&(f, e)| {
            let touches = e == first || f == end;
            if touches {
                first = first.min(f);
                end = end.max(e);
            }
            !touches
        });
        self.ready.push((first, end));
        self.ready.sort_unstable();
    }

    /// Takes these rows out if all of them are final.
    fn cut(&mut self, first: usize, end: usize) -> Vec<(usize, usize)> {
        let around = self.ready.iter().position(|&(f, e)| f <= first && end <= e);
        let Some(at) = around else { return Vec::new() };
        let (f, e) = self.ready[at];
        let rest = [(f, first), (end, e)].into_iter().filter(|(f, e)| f < e);
        self.ready.splice(at..=at, rest);
        vec![(first, end)]
    }

    /// Takes the ranges of at least this number of rows out.
    fn longer_than(&mut self, rows: usize) -> Vec<(usize, usize)> {
        let long = |&(first, end): &(usize, usize)| end - first >= rows;
        let (long, short) = self.ready.iter().partition(|range| long(range));
        self.ready = short;
        long
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rect::RectSet;
    use crate::base::{AllocId, Dtype, Form, Op, Routine, Side, TileSize, Uplo, Value};
    use crate::plan::tiling::Order;
    use crate::plan::{Operand, Resources, Tiling, lower};

    fn gemm(m: usize, n: usize, k: usize) -> Problem {
        Problem {
            routine: Routine::Gemm,
            dtype: Dtype::D,
            form: Form::default(),
            op_a: Op::None,
            op_b: Op::None,
            m,
            n,
            k,
            alpha: Value::ONE,
            beta: Value::ONE,
            operands: vec![
                Operand::matrix(m, k, m),
                Operand::matrix(k, n, k),
                Operand::matrix(m, n, m),
            ],
        }
    }

    fn placed(p: &Problem) -> Vec<Use> {
        let operand = |i| crate::sched::operand(p, i, AllocId(1), 0, 0);
        (0..p.operands.len()).map(operand).collect()
    }

    /// A routine with one matrix of which one triangle is used; all matrices are of order `n`.
    fn triangle(routine: Routine, side: Side, uplo: Uplo, op: Op, n: usize) -> Problem {
        let mut p = gemm(n, n, n);
        (p.routine, p.op_a) = (routine, op);
        (p.form.side, p.form.uplo) = (side, uplo);
        if matches!(routine, Routine::Syrk | Routine::Trmm | Routine::Trsm) {
            p.operands.pop();
        }
        p
    }

    /// Checks that every piece leaves once, after its last writer, and that all pieces together are the bytes written.
    /// Returns after which share of the tasks the first piece left, and all pieces.
    fn play(p: &Problem, plan: &Plan, operands: &[Use]) -> (f64, Vec<Rect>) {
        let output = p.operands.len() - 1;
        let mut streamed = StreamedWriteBack::new(plan, &[output], false);
        let (mut seen, mut first, mut pieces) = (RectSet::new(), None, Vec::new());
        let mut all = RectSet::new();
        for (at, task) in plan.tasks.iter().enumerate() {
            let part = task.parts.last().expect("an output");
            assert_eq!(part.operand, output);
            let written = p.bytes(part, operands[output].view.start);
            all.insert(&written);
            assert!(!seen.overlaps(&written), "task {at} writes what has left");
            for (operand, rect) in streamed.queued(at, p, plan, operands) {
                assert_eq!(operand, output);
                assert!(!seen.overlaps(&rect));
                seen.insert(&rect);
                pieces.push(rect);
                first.get_or_insert(at);
            }
        }
        assert_eq!(seen.bytes(), all.bytes());
        if !matches!(p.routine, Routine::Syrk | Routine::Syr2k) {
            assert_eq!(seen.bytes(), p.m * p.n * 8);
        }
        let first = first.unwrap() as f64 / plan.tasks.len() as f64;
        (first, pieces)
    }

    #[test]
    fn pieces_leave_behind_their_last_writer() {
        for (m, n, k) in [(1, 1, 1), (64, 64, 64), (130, 70, 90), (33, 200, 17)] {
            for devices in 1..=3 {
                for tile in [7, 16, 64] {
                    for memory in [1 << 30, 60_000] {
                        let p = gemm(m, n, k);
                        let mut shape = Resources::new(devices, tile, memory);
                        shape.grain = 1;
                        let plan = lower(&p, &shape);
                        if plan.fits {
                            play(&p, &plan, &placed(&p));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_of_triangles_leave_behind_their_last_writer() {
        use Routine::{Symm, Syr2k, Syrk, Trmm, Trsm};
        for routine in [Symm, Syrk, Syr2k, Trmm, Trsm] {
            for side in [Side::Left, Side::Right] {
                for uplo in [Uplo::Lower, Uplo::Upper] {
                    for op in [Op::None, Op::Trans] {
                        let p = triangle(routine, side, uplo, op, 90);
                        for devices in 1..=3 {
                            for memory in [1 << 30, 60_000] {
                                let plan = lower(&p, &Resources::new(devices, 16, memory));
                                assert!(plan.fits);
                                play(&p, &plan, &placed(&p));
                            }
                        }
                    }
                    let p = triangle(routine, side, uplo, Op::None, 16384);
                    let plan = lower(&p, &Resources::new(1, 2048, 140 << 30));
                    let (first, pieces) = play(&p, &plan, &placed(&p));
                    // A product in place computes last the parts with the most terms.
                    assert!(first < 0.4, "{routine:?}: the first piece left at {first}");
                    assert!(pieces.iter().all(|r| r.count == 1 || r.width >= 2048 * 8));
                }
            }
        }
    }

    #[test]
    fn a_large_product_leaves_early_and_in_long_runs() {
        let p = gemm(16384, 16384, 16384);
        let plan = lower(&p, &Resources::new(1, 2048, 140 << 30));
        let (first, pieces) = play(&p, &plan, &placed(&p));
        assert!(first < 0.25, "the first piece left at {first}");
        // What is left between two pieces may be shorter.
        let short = pieces.iter().filter(|r| r.width < LONG_RUN);
        let short: usize = short.map(Rect::bytes).sum();
        assert!(short <= 16384 * 16384 * 8 / 16, "{pieces:?}");
        assert!(pieces.len() <= 32);
        // A complete column panel is contiguous.
        let p = gemm(4096, 4096, 4096);
        let plan = lower(&p, &Resources::new(1, 1024, 140 << 30));
        let (_, pieces) = play(&p, &plan, &placed(&p));
        assert!(pieces.iter().all(|r| r.count == 1), "{pieces:?}");
        assert_eq!(pieces.len(), 4);
    }

    #[test]
    fn nothing_is_looked_at_if_nothing_is_wanted() {
        let p = gemm(100, 100, 100);
        let plan = lower(&p, &Resources::new(1, 16, 1 << 30));
        let mut streamed = StreamedWriteBack::new(&plan, &[], false);
        for at in 0..plan.tasks.len() {
            assert!(streamed.queued(at, &p, &plan, &placed(&p)).is_empty());
        }
    }

    /// Each strip leaves alone, with the last of its tiles, where a strip is in several blocks, too.
    #[test]
    fn strips_leave_when_they_are_final() {
        let ops = (Op::Trans, Op::Trans);
        let mut p = gemm(469, 469, 160);
        (p.op_a, p.op_b) = ops;
        p.operands[0] = Operand::matrix(160, 469, 160);
        p.operands[1] = Operand::matrix(469, 160, 469);
        let operands = placed(&p);
        for (block_rows, order) in [
            (3, Order::RowsOfBlocks),
            (3, Order::ColumnsOfBlocks),
            (8, Order::RowsOfBlocks),
            (8, Order::ColumnsOfBlocks),
        ] {
            let tiling = Tiling {
                tile: TileSize::long(16, 4, ops),
                block_rows,
                block_cols: 2,
                order,
                in_core: false,
            };
            let mut resources = Resources::new(1, 64, 1 << 20);
            resources.tiling = Some(tiling);
            let plan = lower(&p, &resources);
            let strip = |at: usize| plan.strips.around(DeviceId(0), &plan.tasks[at].parts[2]);
            let mut last = FxHashMap::default();
            (0..plan.tasks.len()).for_each(|at| _ = last.insert(key(&strip(at)), at));
            let mut streamed = StreamedWriteBack::new(&plan, &[2], true);
            for at in 0..plan.tasks.len() {
                let gone = streamed.queued(at, &p, &plan, &operands);
                let now = strip(at);
                let expected = (last[&key(&now)] == at).then(|| p.bytes(&now, 0));
                let gone: Vec<Rect> = gone.into_iter().map(|(_, rect)| rect).collect();
                assert_eq!(gone, Vec::from_iter(expected), "{tiling:?}, task {at}");
            }
            assert!(last.len() > 20 && plan.tasks.len() > 2 * last.len());
        }
    }
}
