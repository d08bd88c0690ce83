//! Blocks of the lower half of a square matrix, each of which stays in memory while slices of factors pass: which
//! blocks there are decides how often rows of the factors are read.
//!
//! With q rows of tiles of a factor in memory, all q (q - 1) / 2 tiles of C that are made of two of them can be
//! computed. Where these rows stand side by side, that is a triangle on the diagonal. Others are had by rows that are
//! far apart: of q groups of c rows each, one row of each, c^2 times, so that any two rows of different groups
//! meet once (triangle blocks, Beaumont et al. 2022). Square blocks of as many tiles take sqrt(2) times as many rows.

use super::matrix::Tiles;
use outcrop_engine::program::Program;
use std::fmt::{self, Display};
use std::ops::Range;

/// Which tiles of rows and columns of a block are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All of them.
    Whole,
    /// On and below the diagonal.
    Lower,
    /// Below it, where rows of so many tiles each count as one.
    Below(u64),
}

/// A block of a matrix, by tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub rows: Vec<u64>,
    pub cols: Vec<u64>,
    part: Part,
}

impl Block {
    pub(super) fn whole(rows: Range<u64>, cols: Range<u64>) -> Block {
        Block { rows: rows.collect(), cols: cols.collect(), part: Part::Whole }
    }

    fn lower(rows: Range<u64>, cols: Range<u64>) -> Block {
        Block { rows: rows.collect(), cols: cols.collect(), part: Part::Lower }
    }

    /// The rows of its tiles in a column.
    pub(super) fn rows_of(&self, col: u64) -> impl Iterator<Item = u64> + '_ {
        self.rows.iter().copied().filter(move |&row| match self.part {
            Part::Whole => true,
            Part::Lower => row >= col,
            Part::Below(width) => row / width > col / width,
        })
    }

    /// Rows of factors that it takes.
    fn reads(&self) -> u64 {
        let (rows, cols) = (&self.rows, &self.cols);
        let shared = match self.part {
            Part::Whole => 0,
            Part::Below(_) => cols.len(),
            Part::Lower => cols.iter().filter(|col| rows.binary_search(col).is_ok()).count(),
        };
        (rows.len() + cols.len() - shared) as u64
    }
}

/// How a half is cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Triangles of so many rows on the diagonal, and below them blocks of so many rows and columns.
    Strips { side: u64, rows: u64, cols: u64 },
    /// Blocks of one of each of so many groups of rows, each of which is `width` tiles high; `order` of them are a
    /// group, of which the last may reach beyond the matrix. What is left is cut into strips.
    Triangles { groups: u64, order: u64, width: u64, rest: (u64, u64, u64) },
}

impl Shape {
    /// What takes the least memory.
    pub(super) const LEAST: Shape = Shape::Strips { side: 1, rows: 1, cols: 1 };

    /// The blocks of a matrix of so many rows of tiles.
    pub(super) fn blocks(self, n: u64) -> Vec<Block> {
        let mut found = Vec::new();
        match self {
            Shape::Strips { side, rows, cols } => strips(0..n, (side, rows, cols), &mut found),
            Shape::Triangles { groups, order, width, rest } => {
                for i in 0..order {
                    for j in 0..order {
                        let row = |group: u64| group * order + (i + group * j) % order;
                        // Of groups that reach further than there are rows, some are not there.
                        let rows = (0..groups).flat_map(|g| row(g) * width..(row(g) + 1) * width);
                        let rows: Vec<u64> = rows.filter(|&row| row < n).collect();
                        found.push(Block { cols: rows.clone(), rows, part: Part::Below(width) });
                    }
                }
                let high = order * width;
                for group in 0..groups {
                    strips(group * high..((group + 1) * high).min(n), rest, &mut found);
                }
                let end = (groups * high).min(n);
                below(end..n, 0..end, (rest.1, rest.2), &mut found);
                strips(end..n, rest, &mut found);
            }
        }
        found
    }

    /// Rows of factors that are read in all.
    fn reads(self, n: u64) -> u64 {
        self.blocks(n).iter().map(Block::reads).sum()
    }
}

impl Display for Shape {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Strips { side, rows, cols } => {
                write!(to, "triangles of {side} rows of tiles and {rows} x {cols} tiles")
            }
            Shape::Triangles { groups, width, .. } => {
                write!(to, "the tiles below the diagonal of {groups} times {width} rows of tiles")
            }
        }
    }
}

fn strips(range: Range<u64>, (side, rows, cols): (u64, u64, u64), found: &mut Vec<Block>) {
    if range.is_empty() {
        return;
    }
    for start in range.clone().step_by(side as usize) {
        let end = (start + side).min(range.end);
        found.push(Block::lower(start..end, start..end));
        below(end..range.end, start..end, (rows, cols), found);
    }
}

/// A rectangle in blocks; as even as so many can be.
fn below(rows: Range<u64>, cols: Range<u64>, (most, wide): (u64, u64), found: &mut Vec<Block>) {
    let even = |length: u64, most: u64| length.div_ceil(length.div_ceil(most).max(1)).max(1);
    if rows.is_empty() || cols.is_empty() {
        return;
    }
    let (length, width) = (rows.end - rows.start, cols.end - cols.start);
    for i in rows.clone().step_by(even(length, most) as usize) {
        for j in cols.clone().step_by(even(width, wide) as usize) {
            let end = (i + even(length, most)).min(rows.end);
            found.push(Block::whole(i..end, j..(j + even(width, wide)).min(cols.end)));
        }
    }
}

/// Ways to compute half of a square matrix of n x n tiles, each of which sums so many products.
///
/// `one`: whether both factors are one array. There are bytes of a tile of each of the three, of which `terms` products
/// are added.
pub(super) struct HalfOf {
    pub n: u64,
    pub depth: u64,
    pub terms: u64,
    pub frames: (usize, usize, usize),
    pub one: bool,
}

impl HalfOf {
    /// Half of `C`, to which products of A and B are added.
    pub(super) fn factors(program: &Program, (c, a, b): (Tiles, Tiles, Tiles), terms: u64) -> HalfOf {
        let (n, depth) = a.counts(program);
        let frames = (a.frame(program), b.frame(program), c.frame(program));
        HalfOf { n, depth, terms, frames, one: a.is_of_the_array_of(b) }
    }

    /// Steps in all.
    pub(super) fn count(&self) -> u64 {
        self.n * (self.n + 1) / 2 * self.depth * self.terms
    }

    /// Bytes of the tiles of one step.
    pub(super) fn least(&self) -> usize {
        let (fa, fb, fc) = self.frames;
        if self.one { fc + 2 * fa } else { fc + fa + fb }
    }

    /// How it may be cut where tiles have so many bytes of the limit, those first that promise the least reading.
    pub(super) fn ways(&self, capacity: usize, limit: usize) -> Vec<Shape> {
        let ((fa, fb, fc), terms, count) = (self.frames, self.terms as usize, self.count());
        // Of a row of tiles, a tile of each factor there is.
        let slice = if self.one { fa } else { (fa + fb) / 2 * terms };
        let sizes = (capacity, fc, slice, fa + fb);
        let mut ways = half_ways(self.n, sizes, super::candidates(count));
        let tight = capacity < 4 * self.least() || capacity < limit / 2 || count < 50_000;
        if (tight || ways.is_empty()) && !ways.contains(&Shape::LEAST) {
            ways.push(Shape::LEAST);
        }
        ways
    }

    /// Bytes that any schedule reads of factors with the rows and columns of `a`.
    pub(super) fn lower_bound(&self, limit: usize, program: &Program, a: Tiles) -> (f64, &'static str) {
        let (n, k) = a.shape(program);
        let size = super::read_size(program, a.dtype(program), n * k * if self.one { 1 } else { 2 });
        let memory = (limit as f64 / size).max(1.0);
        let (n, k) = (n as f64, k as f64);
        let moved = self.terms as f64 * n * n * k / (2.0 * memory).sqrt();
        let once = n * k * if self.one { 1.0 } else { 2.0 };
        match (moved > once, self.one) {
            (true, _) => (moved * size, "n^2 k/sqrt(2M) elements for each product, Beaumont et al. 2022"),
            (false, true) => (once * size, "the factor once"),
            (false, false) => (once * size, "each factor once"),
        }
    }
}

/// Groups of rows that are tried.
const MOST_GROUPS: u64 = 12;

/// Ways to cut a half of n x n tiles, those first that promise the least reading. There are bytes of memory, of a tile
/// of C, of the tiles of the factors that stand in one row and one slice, and of tiles on their way.
fn half_ways(
    n: u64,
    (capacity, fc, slice, passing): (usize, usize, usize, usize),
    most: usize,
) -> Vec<Shape> {
    let room =
        |rows: u64, tiles: u64, more: usize| tiles as usize * fc + rows as usize * slice + more <= capacity;
    // The largest triangle on the diagonal, and blocks beside it.
    let side = (1..=n).take_while(|&d| room(d, d * (d + 1) / 2, passing)).last().unwrap_or(1);
    let mut found: Vec<(u64, Shape)> = Vec::new();
    let mut rests = Vec::new();
    for cols in 1..=side {
        // Of the columns of a block, a tile in use and one on its way.
        let Some(left) = capacity.checked_sub(passing + slice) else { break };
        // With one column only, what stands in a row passes as well.
        let row = if cols == 1 { fc } else { cols as usize * fc + slice };
        let rows = (left / row) as u64;
        if rows == 0 && cols > 1 {
            break;
        }
        rests.push((rows.clamp(1, n), cols));
    }
    // Narrower strips leave blocks that are nearer to squares.
    for strip in (1..=side).rev().take(64) {
        for &(rows, cols) in rests.iter().filter(|rest| rest.1 <= strip) {
            if rests.len() > 16 && cols * 2 < strip.min(rests.len() as u64 / 2) {
                continue;
            }
            let shape = Shape::Strips { side: strip, rows, cols };
            found.push((strip_reads(n, shape), shape));
        }
    }
    found.sort_by_key(|f| f.0);
    found.dedup_by_key(|f| f.0);
    found.truncate(most);
    if let Some(&(least, Shape::Strips { side, rows, cols })) = found.first()
        && least > n
    {
        for groups in 3..=MOST_GROUPS {
            for width in (1..=n / groups).rev() {
                let tiles = groups * (groups - 1) / 2 * width * width;
                if !room(groups * width, tiles, passing) {
                    continue;
                }
                let most = n / (groups * width);
                let below = (groups..=most).rev().find(|&c| meets_once(c, groups));
                let above = (most.max(groups - 1) + 1..=2 * most + 1).find(|&c| meets_once(c, groups));
                for order in below.into_iter().chain(above) {
                    let shape = Shape::Triangles { groups, order, width, rest: (side, rows, cols) };
                    found.push((shape.reads(n), shape));
                }
                // Smaller ones take more reading.
                if tiles * 2 < ((capacity / fc) as u64) {
                    break;
                }
            }
        }
        found.sort_by_key(|f| f.0);
        found.truncate(most);
    }
    found.into_iter().map(|f| f.1).collect()
}

/// Whether rows of groups of so many meet once: no difference of two groups has a factor in common with it.
fn meets_once(order: u64, groups: u64) -> bool {
    (2..groups).all(|d| !order.is_multiple_of(d))
}

fn strip_reads(n: u64, shape: Shape) -> u64 {
    let Shape::Strips { side, rows, cols } = shape else { return shape.reads(n) };
    let even = |length: u64, most: u64| length.div_ceil(most);
    let mut reads = 0;
    for start in (0..n).step_by(side as usize) {
        let width = side.min(n - start);
        let length = n - start - width;
        reads += width;
        if length > 0 {
            reads += length * even(width, cols) + width * even(length, rows);
        }
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_tile_of_the_half_is_in_one_block() {
        for n in [1, 2, 5, 16, 37, 60] {
            for room in [3, 8, 20, 60] {
                let ways = half_ways(n, (room * 100, 100, 10, 20), 8);
                assert!(!ways.is_empty());
                for shape in ways.into_iter().chain([Shape::LEAST]) {
                    let mut seen = HashSet::new();
                    for block in shape.blocks(n) {
                        for &col in &block.cols {
                            assert!(block.rows_of(col).all(|row| row >= col && seen.insert((row, col))));
                        }
                    }
                    assert_eq!(seen.len() as u64, n * (n + 1) / 2, "{shape:?}");
                }
            }
        }
    }

    #[test]
    fn triangles_read_less_than_squares() {
        let ways = half_ways(120, (60 * 100, 100, 1, 2), 8);
        let [first, ..] = ways[..] else { panic!() };
        assert!(matches!(first, Shape::Triangles { .. }), "{first:?}");
        // With s tiles in memory, n^2/sqrt(2 s) rows are the least.
        let bound = 120.0 * 120.0 / (2.0f64 * 60.0).sqrt();
        assert!((first.reads(120) as f64) < 1.25 * bound, "{} of {bound}", first.reads(120));
    }
}
