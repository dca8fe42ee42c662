//! Tiles and blocks of level-3 routines.
//!
//! A block is a rectangle of tiles of the output. Its tiles stay in device memory while the tiles of the inputs pass
//! through, step by step of the inner dimension. If all operands fit into the memory, a block is small, so that kernels
//! start when few tiles have arrived and finished blocks are written back early. If they do not fit, blocks are as large
//! as the memory permits: of `m x k` elements of A each block of `s x s` needs `s x k`, so A is sent `n / s` times, and
//! B `m / s` times. If the memory also holds the tiles of one input for a whole line of blocks, that input is sent once.

use super::problem::Problem;
use super::resources::{MOST_TASKS, MOST_TASKS_AT_ALL, Resources};
use super::split;
use super::tiling::{Order, Tiling};
use crate::base::routine::Cut;
use crate::base::{Op, TileSize};
use smallvec::{SmallVec, smallvec};

/// Tiles per side of a block if the operands fit: then each arriving tile starts up to four kernels, and finished
/// blocks can be written back while others are computed.
const BLOCK: usize = 4;
/// Tiles are made smaller than this only if the memory does not hold enough tiles of this size.
const LEAST_TILE: usize = 256;
/// Tiles are never made smaller than this.
const LEAST_TILE_AT_ALL: usize = 16;
/// The most rows of tiles of a block out of core, and half of the most columns: more tiles are smaller ones, and kernels on
/// them slower.
const MOST_BLOCK: usize = 24;
/// One tile of the output and two of inputs. The two products of a rank-2k update are tasks of their own.
const LEAST_SLOTS: usize = 3;
/// The most tiles along the longest dimension that are considered, as long as tiles need not be smaller to fit.
const MOST_PIECES: usize = 96;
/// Bytes of a column that reach the full rate of the link (see [`crate::base::work::RunShares`]).
const LONG_COLUMN: usize = 64 << 10;
/// Bytes of the columns of strips that are tried out of core. Whole columns without gaps between them are the longest.
const STRIPS: [usize; 3] = [LONG_COLUMN / 2, LONG_COLUMN, usize::MAX];
/// How many tiles a strip has.
const PARTS: [usize; 4] = [2, 4, 8, 16];
/// The most tilings to choose from, and of one tile size.
const MOST_TILINGS: usize = 32;
const MOST_OF_A_SIZE: usize = 3;

/// The largest share of any device, in elements, for one tile size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Largest {
    /// Rows of the device's part of the output.
    pub(super) m: usize,
    /// Columns of the device's part of the output.
    pub(super) n: usize,
    /// Inner dimension.
    pub(super) k: usize,
    /// The longest piece of any device along each of these three dimensions.
    pub(super) longest: [usize; 3],
    /// Elements of all operands that the device uses.
    pub(super) elements: usize,
    /// Number of products of tiles for each tile of the output and each step of the inner dimension.
    pub(super) products: usize,
    /// Whether each line of tiles of the output depends on the lines before it, and on those only.
    pub(super) triangle: bool,
    /// The transpositions of the two inputs of a product, if the routine's tiles need not be square.
    pub(super) ops: Option<(Op, Op)>,
}

impl Largest {
    /// The longest piece of any device's part of a dimension.
    pub(super) fn longest_of(parts: impl Iterator<Item = usize>, tile: usize) -> usize {
        parts
            .map(|len| split::longest(len, tile))
            .max()
            .unwrap_or(0)
    }

    /// Rows and columns of the largest strips of the operands, as stored: of the first input, the second input and the
    /// output of a product; of other routines, whose inputs are stored transposed or mirrored, of any operand.
    fn strips(&self, tile: &TileSize) -> SmallVec<[(usize, usize); 6]> {
        let [m, n, k] = self.longest;
        let tall = |longest: usize, all: usize, piece: usize| {
            if tile.strip > piece {
                tile.longest_strip().min(all)
            } else {
                longest
            }
        };
        let tall_m = tall(m, self.m, tile.m);
        let tall_n = tall(n, self.n, tile.n);
        let tall_k = tall(k, self.k, tile.k);
        if let Some((op_a, op_b)) = self.ops {
            let stored = |op, plain, turned| if op == Op::None { plain } else { turned };
            let a = stored(op_a, (tall_m, k), (tall_k, m));
            let b = stored(op_b, (tall_k, n), (tall_n, k));
            return smallvec![a, b, (tall_m, n)];
        }
        smallvec![
            (tall_m, k),
            (tall_k, m),
            (tall_k, n),
            (tall_n, k),
            (tall_m, n),
            (tall_n, m)
        ]
    }

    /// Bytes of device memory that a strip of any operand takes at most.
    fn slot(&self, p: &Problem, tile: &TileSize) -> usize {
        let size = p.dtype.size();
        // Columns of a strip in device memory start at multiples of 256 bytes.
        let area = |&(rows, cols): &(usize, usize)| {
            let column = rows.saturating_mul(size);
            let column = if column < 256 {
                column.next_multiple_of(16)
            } else {
                column.next_multiple_of(256)
            };
            column.saturating_mul(cols).next_multiple_of(256)
        };
        let strips = self.strips(tile);
        strips.iter().map(area).max().unwrap_or(0)
    }

    fn tasks(&self, tile: &TileSize) -> usize {
        split::pieces(self.m, tile.m)
            .saturating_mul(split::pieces(self.n, tile.n))
            .saturating_mul(split::pieces(self.k, tile.k))
            .saturating_mul(self.products)
    }
}

/// The tiling of a device's share: by the wanted tile if all operands fit, else the one that the resources name, or the
/// best one. `None` if the memory is too small.
pub(super) fn tiling(p: &Problem, machine: &Resources, shares: Shares) -> Option<Tiling> {
    in_core(p, machine, shares)
        .or(machine.tiling)
        .or_else(|| out_of_core(p, machine, shares).first().copied())
}

/// A routine's largest share on these resources, cut into these tiles.
pub(super) type Shares = fn(&Problem, &Resources, &TileSize) -> Option<Largest>;

/// The tilings to choose from, best first; one if all operands fit.
pub(super) fn tilings(p: &Problem, machine: &Resources, shares: Shares) -> Vec<Tiling> {
    match in_core(p, machine, shares) {
        Some(tiling) => vec![tiling],
        None => out_of_core(p, machine, shares),
    }
}

fn in_core(p: &Problem, machine: &Resources, shares: Shares) -> Option<Tiling> {
    let largest = &shares(p, machine, &machine.tile)?;
    let usable = machine.memory - machine.memory / 10;
    if largest.elements.saturating_mul(p.dtype.size()) > usable {
        return None;
    }
    let tile = wanted_tile(p, machine, largest);
    // With strips one column of tiles of the output is finished after the other.
    let block = if tile.in_strips() || machine.apart {
        1
    } else {
        BLOCK
    };
    Some(Tiling {
        tile,
        block_rows: block,
        block_cols: block,
        order: Order::ColumnsOfBlocks,
        in_core: true,
    })
}

/// The tile that was asked for, or square ones of a multiple by a power of two that does not make too many tasks. A fixed
/// tile does not depend on the devices' shares.
fn wanted_tile(p: &Problem, machine: &Resources, largest: &Largest) -> TileSize {
    let all = Largest {
        m: p.m,
        n: p.n,
        k: p.k,
        ..*largest
    };
    let tasks = |tile: &TileSize| match machine.fixed {
        true => all.tasks(tile),
        false => largest.tasks(tile).saturating_mul(machine.devices.len()),
    };
    let (mut tile, mut side) = (machine.tile, machine.tile.longest().max(1));
    while tasks(&tile) > MOST_TASKS {
        side *= 2;
        tile = TileSize::square(side);
    }
    tile
}

/// Tilings for operands that exceed the memory, best first. The estimate that ranks them counts what is sent, the
/// kernels, and how much of one hides the other; the timeline compares the first exactly.
fn out_of_core(p: &Problem, machine: &Resources, shares: Shares) -> Vec<Tiling> {
    let mut found: Vec<(f64, Tiling)> = Vec::new();
    for (tile, largest) in sizes(p, machine, shares) {
        if largest.tasks(&tile) > MOST_TASKS_AT_ALL {
            continue;
        }
        let shape = Shape::new(p, machine, &largest, &tile);
        let mut blocks = shape.blocks();
        blocks.sort_by(|x, y| x.0.total_cmp(&y.0));
        found.extend(blocks.into_iter().take(MOST_OF_A_SIZE));
    }
    found.sort_by(|x, y| x.0.total_cmp(&y.0));
    found.truncate(MOST_TILINGS);
    found.into_iter().map(|(_, tiling)| tiling).collect()
}

/// The tile sizes to consider, largest first, each with the largest share. Memory holds at least three strips of them.
fn sizes(p: &Problem, machine: &Resources, shares: Shares) -> Vec<(TileSize, Largest)> {
    let fits = |tile: TileSize| {
        let largest = shares(p, machine, &tile)?;
        let slots = machine.memory / largest.slot(p, &tile).max(1);
        (slots >= LEAST_SLOTS).then_some((tile, largest))
    };
    let Some(share) = shares(p, machine, &machine.tile) else {
        return Vec::new();
    };
    if machine.fixed
        && let Some(wanted) = fits(wanted_tile(p, machine, &share))
    {
        return vec![wanted];
    }
    let longest = share.m.max(share.n).max(share.k).max(1);
    let mut tiles: Vec<usize> = (1..=MOST_PIECES)
        .map(|pieces| longest.div_ceil(pieces).next_multiple_of(64))
        .take_while(|&tile| tile >= LEAST_TILE)
        .collect();
    tiles.dedup();
    let squares = tiles.into_iter().map(TileSize::square);
    let mut strips: Vec<TileSize> = Vec::new();
    for column in STRIPS.iter().filter(|_| share.ops.is_some()) {
        for tile in in_strips(p, *column, share.ops) {
            // Columns of a short matrix are whole at every length.
            if !strips.contains(&tile) {
                strips.push(tile);
            }
        }
    }
    let mut sizes: Vec<_> = squares.chain(strips).filter_map(fits).collect();
    let mut tile = LEAST_TILE.min(longest.next_multiple_of(LEAST_TILE_AT_ALL));
    while sizes.is_empty() && tile >= LEAST_TILE_AT_ALL {
        sizes.extend(fits(TileSize::square(tile)));
        // Strips of the same area.
        let long = share.ops.map(|ops| TileSize::long(tile / 2, 4, ops));
        sizes.extend(long.and_then(fits));
        tile -= LEAST_TILE_AT_ALL;
    }
    sizes
}

/// Tile sizes whose strips have columns of about this number of bytes, or of the longest dimension if that is shorter.
fn in_strips(p: &Problem, column: usize, ops: Option<(Op, Op)>) -> impl Iterator<Item = TileSize> {
    let rows = (column / p.dtype.size()).min(p.m.max(p.n).max(p.k));
    let sides = PARTS.map(|parts| (parts, rows.div_ceil(parts).next_multiple_of(64)));
    let sides = sides.into_iter().filter(|&(_, side)| side >= LEAST_TILE);
    sides.map(move |(parts, side)| match ops {
        Some(ops) => TileSize::long(side, parts, ops),
        None => TileSize {
            strip: side * parts,
            ..TileSize::square(side)
        },
    })
}

/// The tile sizes in strips that are worth a look if all operands fit.
pub(super) fn strips_in_core(p: &Problem) -> Vec<TileSize> {
    let ops = match p.routine.record().signature.cut {
        Cut::Product => Some((p.op_a, p.op_b)),
        // The first column of tiles needs all of the input, so little of the work would overlap with its upload.
        Cut::RankK => return Vec::new(),
        _ => None,
    };
    in_strips(p, LONG_COLUMN, ops).collect()
}

/// A device's share, cut into tiles of one size.
struct Shape<'a> {
    machine: &'a Resources,
    largest: &'a Largest,
    tile: TileSize,
    slots: usize,
    /// Rows, columns and depth in tiles.
    tiles: [usize; 3],
    /// Tiles along the inner dimension that are one strip of the first input, and of the second.
    deep: [usize; 2],
    /// Seconds to copy a tile of the first input, the second input and the output.
    copy_s: [f64; 3],
    /// Seconds of a kernel.
    kernel_s: f64,
    /// Whether the old output is sent.
    update: bool,
}

impl Shape<'_> {
    fn new<'a>(
        p: &Problem,
        machine: &'a Resources,
        largest: &'a Largest,
        tile: &TileSize,
    ) -> Shape<'a> {
        let Largest { m, n, k, .. } = *largest;
        let (output, size) = (p.operands.len() - 1, p.dtype.size());
        let pace = &machine.pace;
        let strips = largest.strips(tile);
        let copy_s = |operand: usize, elements: usize| {
            // Both inputs of a rank-k update are one.
            let stored = &p.operands[[0, output - 1, output][operand]];
            let run = match largest.ops {
                // Whole columns without gaps between them are one run.
                Some(_) if strips[operand].0 == stored.ld => strips[operand].0 * strips[operand].1,
                Some(_) => strips[operand].0,
                None => tile.strip,
            };
            let rate = pace.bytes_per_s * pace.runs.of(run * size);
            elements as f64 * size as f64 / rate
        };
        let (tm, tn, tk) = (tile.m.min(m), tile.n.min(n), tile.k.min(k));
        let efficiency: f64 = [tm, tn, tk]
            .iter()
            .map(|&d| d as f64 / (d as f64 + pace.half_size))
            .product();
        let pairs = tm as f64 * tn as f64 * tk as f64;
        let deep = |inner: bool| {
            if inner {
                (tile.strip / tile.k.max(1)).max(1)
            } else {
                1
            }
        };
        Shape {
            machine,
            largest,
            tile: *tile,
            slots: machine.memory / largest.slot(p, tile).max(1),
            tiles: [(m, tile.m), (n, tile.n), (k, tile.k)]
                .map(|(len, tile)| split::pieces(len, tile).max(1)),
            deep: largest.ops.map_or([1, 1], |(op_a, op_b)| {
                [deep(op_a != Op::None), deep(op_b == Op::None)]
            }),
            copy_s: [copy_s(0, tm * tk), copy_s(1, tk * tn), copy_s(2, tm * tn)],
            kernel_s: pairs / (pace.products_per_s * efficiency) + pace.launch_s,
            update: p.fetches(output),
        }
    }

    /// The blocks that the slots hold, each with the estimated seconds of the call.
    fn blocks(&self) -> Vec<(f64, Tiling)> {
        let [rows, cols, _] = self.tiles;
        let mut found: Vec<(f64, Tiling)> = Vec::new();
        let even = |len: usize, most: usize| len.div_ceil(len.div_ceil(most.max(1)));
        for wanted in 1..=rows.min(MOST_BLOCK) {
            let block_rows = even(rows, wanted);
            // The largest number of columns for which the block and the tiles of one step fit.
            let mut most = cols.min(MOST_BLOCK * 2);
            while most > 1 && self.needed(block_rows, most) > self.slots {
                most -= 1;
            }
            for most in [most, most.saturating_sub(1), most / 2, 1] {
                if most == 0 || self.needed(block_rows, most) > self.slots {
                    continue;
                }
                let block_cols = even(cols, most);
                for order in [Order::ColumnsOfBlocks, Order::RowsOfBlocks] {
                    // A single line of blocks has one order.
                    let by_rows = order == Order::RowsOfBlocks;
                    let other = if by_rows {
                        self.largest.triangle || block_cols == cols
                    } else {
                        !self.largest.triangle && block_rows == rows && block_cols < cols
                    };
                    if other {
                        continue;
                    }
                    let tiling = Tiling {
                        tile: self.tile,
                        block_rows,
                        block_cols,
                        order,
                        in_core: false,
                    };
                    if found.iter().all(|(_, known)| *known != tiling) {
                        found.push((self.seconds(&tiling), tiling));
                    }
                }
            }
        }
        found
    }

    /// Strips of a part of the output, from its rows and columns of tiles.
    fn output(&self, rows: usize, cols: usize) -> usize {
        rows.div_ceil((self.tile.strip / self.tile.m).max(1)) * cols
    }

    /// Slots for a block, for the input tiles that one step of it uses more than once, and for one more input tile.
    fn needed(&self, rows: usize, cols: usize) -> usize {
        let inputs = if rows * cols == 1 {
            1
        } else {
            self.largest.products
        };
        // A strip along the inner dimension stays for as many steps as it has tiles.
        let again = match self.deep {
            [1, 1] => rows.min(cols),
            [1, _] => cols,
            [_, 1] => rows,
            _ => rows + cols,
        };
        self.output(rows, cols) + (again + 1) * inputs
    }

    /// Estimated seconds of the call: block after block, each as long as its kernels or its uploads, whichever take
    /// longer.
    fn seconds(&self, tiling: &Tiling) -> f64 {
        let (pace, products) = (&self.machine.pace, self.largest.products);
        let [rows, cols, depth] = self.tiles;
        let (r, c) = (tiling.block_rows, tiling.block_cols);
        let triangle = self.largest.triangle;
        let [a_s, b_s, c_s] = self.copy_s;
        // Along the order of the blocks: how many of them are in a line, and the tiles of a step that stay for the next
        // block of the line, or change with it.
        let by_rows = tiling.order == Order::RowsOfBlocks;
        let (line, lines, stay, change) = if by_rows {
            (cols.div_ceil(c), rows.div_ceil(r), (r, a_s), (c, b_s))
        } else {
            (rows.div_ceil(r), cols.div_ceil(c), (c, b_s), (r, a_s))
        };
        let strip = if triangle { rows } else { depth * products };
        let deep = self.deep[usize::from(!by_rows)];
        let held = strip.div_ceil(deep) * stay.0 + self.output(r, c) + (change.0 + 1) * products;
        let kept = line == 1 || held <= self.slots;
        let steps = (depth * products) as f64 * if triangle { 0.5 } else { 1.0 };
        let own_s = r as f64 * c as f64 * self.tile.k as f64 * pace.row_s;
        // One thread queues a task of every device, one after the other, while each runs a kernel.
        let queueing_s = pace.issue_s * self.machine.devices.len() as f64;
        let kernels = steps * (r * c) as f64 * self.kernel_s.max(queueing_s) + own_s;
        let uploads = |(tiles, tile_s): (usize, f64)| steps * tiles as f64 * tile_s;
        // Slots beyond the least let uploads run ahead of kernels.
        let ahead = (self.slots - self.needed(r, c)) as f64 / (r + c) as f64;
        let hidden = 0.5 + 0.5 * (2.0 * ahead).min(1.0);
        let both = |uploads: f64| kernels.max(uploads) + (1.0 - hidden) * kernels.min(uploads);
        let first = both(uploads(stay) + uploads(change));
        let later = both(uploads(change) + if kept { 0.0 } else { uploads(stay) });
        let blocks = lines as f64 * (first + (line - 1) as f64 * later);
        // All of the output leaves behind the kernels of its block; at the end of a block its tiles leave, the last of them
        // after the last kernel; the next block's need their slots.
        let blocks = blocks.max((rows * cols) as f64 * c_s);
        let block_s = (r * c) as f64 * c_s;
        let leave = block_s * (0.5 + 0.15 * (line * lines) as f64);
        let updated = if self.update && !triangle {
            (rows * cols) as f64 * c_s * 0.5
        } else {
            0.0
        };
        blocks + leave + updated + r as f64 * a_s + c as f64 * b_s
    }
}
