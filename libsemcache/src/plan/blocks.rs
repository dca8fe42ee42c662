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
/// The most tilings to choose from.
const MOST_TILINGS: usize = 4;

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
}

impl Largest {
    /// The longest piece of any device's part of a dimension.
    pub(super) fn longest_of(parts: impl Iterator<Item = usize>, tile: usize) -> usize {
        parts
            .map(|len| split::longest(len, tile))
            .max()
            .unwrap_or(0)
    }

    /// Bytes of device memory that a tile of any operand takes at most.
    fn slot(&self, size: usize) -> usize {
        let [m, n, k] = self.longest;
        // Columns of a tile in device memory start at multiples of 256 bytes.
        let area = |rows: usize, cols: usize| {
            let column = rows.saturating_mul(size);
            let column = if column < 256 {
                column.next_multiple_of(16)
            } else {
                column.next_multiple_of(256)
            };
            column.saturating_mul(cols).next_multiple_of(256)
        };
        // Inputs may be stored transposed.
        [(m, k), (k, m), (k, n), (n, k), (m, n), (n, m)]
            .iter()
            .map(|&(r, c)| area(r, c))
            .max()
            .unwrap_or(0)
    }

    fn tasks(&self, tile: usize) -> usize {
        let pieces = |len| split::pieces(len, tile);
        pieces(self.m)
            .saturating_mul(pieces(self.n))
            .saturating_mul(pieces(self.k))
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

/// A routine's largest share on these resources.
pub(super) type Shares = fn(&Problem, &Resources) -> Option<Largest>;

/// The tilings to choose from, best first; one if all operands fit.
pub(super) fn tilings(p: &Problem, machine: &Resources, shares: Shares) -> Vec<Tiling> {
    match in_core(p, machine, shares) {
        Some(tiling) => vec![tiling],
        None => out_of_core(p, machine, shares),
    }
}

fn in_core(p: &Problem, machine: &Resources, shares: Shares) -> Option<Tiling> {
    let largest = &shares(p, machine)?;
    let usable = machine.memory - machine.memory / 10;
    if largest.elements.saturating_mul(p.dtype.size()) > usable {
        return None;
    }
    Some(Tiling {
        tile: wanted_tile(p, machine, largest),
        block_rows: BLOCK,
        block_cols: BLOCK,
        order: Order::ColumnsOfBlocks,
        in_core: true,
    })
}

/// The tile that was asked for, or the smallest multiple by a power of two that does not make too many tasks. A fixed tile
/// does not depend on the devices' shares.
fn wanted_tile(p: &Problem, machine: &Resources, largest: &Largest) -> usize {
    let all = Largest {
        m: p.m,
        n: p.n,
        k: p.k,
        ..*largest
    };
    let tasks = |tile: usize| match machine.fixed {
        true => all.tasks(tile),
        false => largest.tasks(tile).saturating_mul(machine.devices),
    };
    let mut tile = machine.tile.max(1);
    while tasks(tile) > MOST_TASKS {
        tile *= 2;
    }
    tile
}

/// Tilings for operands that exceed the memory, best first. The estimate that ranks them counts what is sent, the
/// kernels, and how much of one hides the other; the timeline compares the first few exactly.
fn out_of_core(p: &Problem, machine: &Resources, shares: Shares) -> Vec<Tiling> {
    let mut found: Vec<(f64, Tiling)> = Vec::new();
    for (tile, largest) in sizes(p, machine, shares) {
        if largest.tasks(tile) > MOST_TASKS_AT_ALL {
            continue;
        }
        let slots = machine.memory / largest.slot(p.dtype.size()).max(1);
        let shape = Shape::new(p, machine, &largest, tile, slots);
        let best = shape.blocks().min_by(|x, y| x.0.total_cmp(&y.0));
        found.extend(best);
    }
    found.sort_by(|x, y| x.0.total_cmp(&y.0));
    found.truncate(MOST_TILINGS);
    found.into_iter().map(|(_, tiling)| tiling).collect()
}

/// The tile sizes to consider, largest first, each with the largest share. Memory holds at least three of these tiles.
fn sizes(p: &Problem, machine: &Resources, shares: Shares) -> Vec<(usize, Largest)> {
    let fits = |tile: usize| {
        let largest = shares(p, &machine.with_tile(tile))?;
        let slots = machine.memory / largest.slot(p.dtype.size()).max(1);
        (slots >= LEAST_SLOTS).then_some((tile, largest))
    };
    let Some(share) = shares(p, machine) else {
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
    let mut sizes: Vec<_> = tiles.into_iter().filter_map(fits).collect();
    let mut tile = LEAST_TILE.min(longest.next_multiple_of(LEAST_TILE_AT_ALL));
    while sizes.is_empty() && tile >= LEAST_TILE_AT_ALL {
        sizes.extend(fits(tile));
        tile -= LEAST_TILE_AT_ALL;
    }
    sizes
}

/// A device's share, cut into tiles of one size.
struct Shape<'a> {
    machine: &'a Resources,
    largest: &'a Largest,
    tile: usize,
    slots: usize,
    /// Rows, columns and depth in tiles.
    tiles: [usize; 3],
    /// Bytes of an element.
    size: usize,
    /// Whether the old output is sent.
    update: bool,
}

impl Shape<'_> {
    fn new<'a>(
        p: &Problem,
        machine: &'a Resources,
        largest: &'a Largest,
        tile: usize,
        slots: usize,
    ) -> Shape<'a> {
        let Largest { m, n, k, .. } = *largest;
        let output = p.operands.len() - 1;
        Shape {
            machine,
            largest,
            tile,
            slots,
            tiles: [m, n, k].map(|len| split::pieces(len, tile).max(1)),
            size: p.dtype.size(),
            update: p.fetches(output),
        }
    }

    /// The blocks that the slots hold, each with the estimated seconds of the call.
    fn blocks(&self) -> impl Iterator<Item = (f64, Tiling)> {
        let [rows, cols, _] = self.tiles;
        let mut found = Vec::new();
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
                    if self.largest.triangle && order == Order::RowsOfBlocks {
                        continue;
                    }
                    let tiling = Tiling {
                        tile: self.tile,
                        block_rows,
                        block_cols,
                        order,
                        in_core: false,
                    };
                    found.push((self.seconds(&tiling), tiling));
                }
            }
        }
        found.into_iter()
    }

    /// Slots for a block, for the input tiles that one step of it uses more than once, and for one more input tile.
    fn needed(&self, rows: usize, cols: usize) -> usize {
        let inputs = if rows * cols == 1 {
            1
        } else {
            self.largest.products
        };
        rows * cols + (rows.min(cols) + 1) * inputs
    }

    /// Estimated seconds of the call: block after block, each as long as its kernels or its uploads, whichever take
    /// longer.
    fn seconds(&self, tiling: &Tiling) -> f64 {
        let (pace, products) = (&self.machine.pace, self.largest.products);
        let [rows, cols, depth] = self.tiles;
        let (r, c) = (tiling.block_rows, tiling.block_cols);
        let triangle = self.largest.triangle;
        // Along the order of the blocks: how many of them are in a line, and the tiles of a step that stay for the next
        // block of the line, or change with it.
        let by_rows = tiling.order == Order::RowsOfBlocks;
        let (line, lines, stay, change) = if by_rows {
            (cols.div_ceil(c), rows.div_ceil(r), r, c)
        } else {
            (rows.div_ceil(r), cols.div_ceil(c), c, r)
        };
        let strip = if triangle { rows } else { depth * products };
        let kept = line == 1 || strip * stay + r * c + (change + 1) * products <= self.slots;
        let d = self.tile as f64;
        let kernel_s =
            d.powi(3) / (pace.products_per_s * (d / (d + pace.half_size)).powi(3)) + pace.launch_s;
        let rate = pace.bytes_per_s * pace.runs.of(self.tile * self.size);
        let tile_s = d * d * self.size as f64 / rate;
        let steps = (depth * products) as f64 * if triangle { 0.5 } else { 1.0 };
        let own_s = (r * c) as f64 * d * pace.row_s;
        let kernels = steps * (r * c) as f64 * kernel_s.max(pace.issue_s) + own_s;
        let uploads = |tiles: usize| steps * tiles as f64 * tile_s;
        // Slots beyond the least let uploads run ahead of kernels.
        let ahead = (self.slots - self.needed(r, c)) as f64 / (r + c) as f64;
        let hidden = 0.5 + 0.5 * (2.0 * ahead).min(1.0);
        let both = |uploads: f64| kernels.max(uploads) + (1.0 - hidden) * kernels.min(uploads);
        let first = both(uploads(stay + change));
        let later = both(uploads(if kept { change } else { stay + change }));
        let blocks = lines as f64 * (first + (line - 1) as f64 * later);
        // At the end of a block its tiles leave, the last of them after the last kernel; the next block's need their slots.
        let block_s = (r * c) as f64 * tile_s;
        let leave = block_s * (0.5 + 0.15 * (line * lines) as f64);
        let updated = if self.update && !triangle {
            (rows * cols) as f64 * tile_s * 0.5
        } else {
            0.0
        };
        blocks + leave + updated + (r + c) as f64 * tile_s
    }
}
