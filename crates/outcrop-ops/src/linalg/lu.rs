//! The LU factorization with partial pivoting, and what is solved with it.
//!
//! A column of tiles is in memory as a whole when its pivots are looked for, and when its rows are exchanged. There are two
//! orders. *Left-looking*: a panel of such columns stays in memory, while the columns of the factor to its left stream
//! past it; L is read again for every panel, and nothing else is. *Recursive*: the left half of the columns is factored,
//! then the right half is updated by blocks, as products are, and factored; what is exchanged is written and read once
//! more for every halving. Which one moves less depends on how many columns memory holds.
//!
//! Left-looking, the rows of L stay in the order that they had when their column was factored: what comes later does to
//! other columns exchanges and updates by turns. They are brought to LAPACK's order at the end, if L is a result.

use super::matrix::{Axes, Columns, MatrixTile, Tiles};
use super::steps::{Builder, Extents, Kind};
use super::triangular::{self, Triangle, solve_steps};
use super::{Place, Way, tile_shape};
use crate::arrays::New;
use crate::kernels::{Diagonal, Half};
use outcrop_engine::Runtime;
use outcrop_engine::plan;
use outcrop_engine::plan::speeds::Speeds;
use outcrop_engine::program::{Program, Role};
use outcrop_store::{DType, Result};
use std::ops::Range;

/// The type of pivots: rows by their number from 0 on.
pub const PIVOT: DType = DType::I32;

const UNIT_LOWER: Triangle = Triangle { half: Half::Lower, diagonal: Diagonal::Unit, conj: false };
const UPPER: Triangle = Triangle { half: Half::Upper, diagonal: Diagonal::Stored, conj: false };
const SOLVE_UNIT: Kind =
    Kind::Solve { half: Half::Lower, diagonal: Diagonal::Unit, conj: false, right: false };

/// How a system is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transposition {
    /// As it is.
    #[default]
    None,
    /// With the matrix transposed.
    Transposed,
    /// Transposed and conjugated.
    Adjoint,
}

/// An order of steps, and how many columns of tiles are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Left(u64),
    Recursive(u64),
}

impl Order {
    fn remark(self, (m, n): (u64, u64)) -> String {
        let (columns, name) = match self {
            Order::Left(columns) => (columns, "left-looking"),
            Order::Recursive(columns) => (columns, "recursive"),
        };
        format!("{name}, {columns} columns of tiles of L U, each {m} x {n}, in memory")
    }
}

/// The arrays of a factorization.
#[derive(Clone, Copy)]
pub struct Factors {
    /// L below the diagonal, and U.
    pub lu: Tiles,
    /// Of each column, the row with which its own was exchanged.
    pub pivots: Option<Tiles>,
    /// Of each row of A, that of L U which it is.
    pub permutation: Option<Tiles>,
}

/// Adds L, U and pivots of `P A = L U`. A singular matrix is factored, too.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn lu(place: Place<'_>, factors: Factors, a: Tiles) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let l = factors.lu.beginning_as(program, a).in_blocks(program);
    let pivots = match factors.pivots {
        Some(pivots) => pivots,
        None => new_pivots(program, l)?,
    };
    let (rows, tile) = (l.shape(program).0, l.stored_tile(program));
    let turned = l.axes().is_transposed();
    let mut builder =
        Builder::on(program, makers, l.dtype(program), speeds, extents(tile, tile.1, rows, turned));
    let count = steps(builder.program, Columns::all(l));
    let capacity = capacity(runtime, builder.program, Columns::all(l), count, speeds)?;
    let ways = orders(builder.program, Columns::all(l), capacity);
    let order = super::chosen(&ways, way);
    let mut factoring = Factoring::of(&mut builder, Columns::all(l), in_a_row(pivots), false);
    match order {
        Order::Left(columns) => {
            factoring.left_looking(columns, &mut |_, _| {});
            factoring.in_final_order();
        }
        Order::Recursive(columns) => factoring.recursive(columns, capacity),
    }
    if let Some(permutation) = factors.permutation {
        builder.permutation(permutation, pivots);
    }
    Ok(Way {
        remark: order.remark(tile),
        count: ways.len(),
        frugal: order == Order::Left(1),
        lower_bound: lower_bound(runtime, builder.program, a),
    })
}

/// The arrays of some columns of a factorization, in the order in which left-looking leaves the rows of L.
#[derive(Clone, Copy)]
pub struct SomeColumns {
    /// L below the diagonal, and U.
    pub lu: Tiles,
    /// Their pivots.
    pub pivots: Tiles,
}

/// Adds the next columns of L and U of `P A = L U`, and their pivots; those before are `done`. `a` are these columns
/// alone.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn lu_columns(place: Place<'_>, next: SomeColumns, done: Option<SomeColumns>, a: Tiles) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let own = next.lu.beginning_as(program, a);
    // What is left may be narrower than what is done.
    let width = done.map(|done| done.lu.tile(program).1);
    let own = width.map_or_else(|| own.in_blocks(program), |width| own.in_blocks_of(program, width));
    let done =
        done.map(|done| SomeColumns { lu: done.lu.in_blocks_of(program, done.lu.tile(program).1), ..done });
    let (rows, tile) = (own.shape(program).0, own.stored_tile(program));
    let l = Columns::after_squares(done.map(|done| done.lu), own, program)?;
    let pivots = Columns::after(done.map(|done| done.pivots.transposed()), next.pivots.transposed(), program);
    let turned = own.axes().is_transposed();
    let mut builder =
        Builder::on(program, makers, own.dtype(program), speeds, extents(tile, tile.1, rows, turned));
    let count = steps(builder.program, l);
    let capacity = capacity(runtime, builder.program, l, count, speeds)?;
    let most = panel_columns(builder.program, l, capacity);
    let ways = if most > 1 { vec![most, 1] } else { vec![1] };
    let columns = super::chosen(&ways, way);
    Factoring::of(&mut builder, l, pivots, false).left_looking(columns, &mut |_, _| {});
    let done = l.first * own.tile(builder.program).0;
    let read = (a.shape(builder.program).0 * (done + a.shape(builder.program).1)) as usize;
    let bytes = (read * own.dtype(builder.program).size()) as f64;
    Ok(Way {
        remark: Order::Left(columns).remark(tile),
        count: ways.len(),
        frugal: columns == 1,
        lower_bound: (bytes, "what is done, and the columns, once"),
    })
}

/// Adds X, which is L and U with the rows of L in the order of all pivots, of factors as left-looking leaves them.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn lu_in_order(place: Place<'_>, (x, pivots, factors): (Tiles, Tiles, Tiles)) -> Result<Way> {
    let (program, side) = (&*place.program, pivots.tile(place.program).0);
    let x = if pivots.counts(program).0 > 1 { x.in_blocks_of(program, side) } else { x };
    exchanged(place, (x, pivots, factors), false, |column, count| column + 1..count)
}

/// Adds X of `A X = B`, and temporaries for the factors.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn solve_general(place: Place<'_>, (x, a, b): (Tiles, Tiles, Tiles)) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let x = x.beginning_as(program, b);
    let ((height, wide), (_, side), (n, _)) = (x.tile(program), a.tile(program), a.shape(program));
    let dtype = a.dtype(program);
    // As A lies, so that its tiles can become those of the factors; unless A is a part of something else.
    let plain = a.is_plain(program);
    let axes = if plain { a.axes() } else { Axes::MATRIX };
    let initial = (plain && a.role(program) == Role::Input).then(|| a.array());
    let (shape, tile) = ([n, n], tile_shape(2, axes, height, side));
    let new = New { name: "L U", dtype, shape: &shape, tile: &tile, initial };
    let l = Tiles::new(new.temporary(program)?, axes).beginning_as(program, a).in_blocks(program);
    let x = x.in_blocks_of(program, l.tile(program).0);
    let pivots = new_pivots(program, l)?;
    let turned = axes.is_transposed();
    let mut builder =
        Builder::on(program, makers, dtype, speeds, extents((height, side), wide.max(side), n, turned));
    let count = steps(builder.program, Columns::all(l));
    let capacity = capacity(runtime, builder.program, Columns::all(l), count, speeds)?;
    let orders = orders(builder.program, Columns::all(l), capacity);
    let rests = triangular::blocks(runtime, builder.program, l, x, speeds)?;
    let ways: Vec<(Order, bool)> = orders
        .into_iter()
        .flat_map(|order| match order {
            Order::Left(_) => vec![(order, true), (order, false)],
            Order::Recursive(_) => vec![(order, false)],
        })
        .collect();
    let (order, fused) = super::chosen(&ways, way);
    let rest = if order == Order::Left(1) { (1, 1) } else { rests[0] };
    let mut factoring = Factoring::of(&mut builder, Columns::all(l), in_a_row(pivots), true);
    match order {
        Order::Left(columns) if fused => factoring.with_right_hand_sides(columns, x),
        Order::Left(columns) => {
            factoring.left_looking(columns, &mut |_, _| {});
            factoring.forward(x, capacity);
        }
        Order::Recursive(columns) => {
            factoring.recursive(columns, capacity);
            let (rows, cols) = x.counts(builder.program);
            for s in 0..cols {
                begin_column(&mut builder, x, s);
                builder.exchange((x, s), (in_a_row(pivots), 0..rows), false);
            }
            solve_steps(&mut builder, l, UNIT_LOWER, (x, None), rest);
        }
    }
    solve_steps(&mut builder, l, UPPER, (x, None), rest);
    let when = if fused { "with" } else { "after" };
    Ok(Way {
        remark: format!("{}; L Y = P B {when} the factorization", order.remark((height, side))),
        count: ways.len(),
        frugal: order == Order::Left(1) && !fused,
        lower_bound: lower_bound(runtime, builder.program, a),
    })
}

/// Adds X of `A X = B` with the factors of A.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn lu_solve(
    place: Place<'_>,
    (x, l, pivots, b): (Tiles, Tiles, Tiles, Tiles),
    what: Transposition,
) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let x = x.beginning_as(program, b);
    let ((side, wide), (rows, cols)) = (x.tile(program), x.counts(program));
    let transposed = (l.axes().is_transposed(), false);
    let extents = Extents { rows: side, cols: wide, depth: side, solves: true, pivoted: 0, transposed };
    let mut builder = Builder::on(program, makers, x.dtype(program), speeds, extents);
    let count = rows * (rows + 1) * cols;
    plan::capacity(runtime, builder.program, count, speeds, rows as usize * x.frame(builder.program))?;
    let ways = triangular::blocks(runtime, builder.program, l, x, speeds)?;
    let (p, w) = super::chosen(&ways, way);
    let is_transposed = what != Transposition::None;
    for s in 0..cols {
        begin_column(&mut builder, x, s);
        if !is_transposed {
            builder.exchange((x, s), (in_a_row(pivots), 0..rows), false);
        }
    }
    if is_transposed {
        let conj = what == Transposition::Adjoint;
        let first = Triangle { half: Half::Lower, diagonal: Diagonal::Stored, conj };
        let second = Triangle { half: Half::Upper, diagonal: Diagonal::Unit, conj };
        solve_steps(&mut builder, l.transposed(), first, (x, None), (p, w));
        solve_steps(&mut builder, l.transposed(), second, (x, None), (p, w));
        for s in 0..cols {
            builder.exchange((x, s), (in_a_row(pivots), 0..rows), true);
        }
    } else {
        solve_steps(&mut builder, l, UNIT_LOWER, (x, None), (p, w));
        solve_steps(&mut builder, l, UPPER, (x, None), (p, w));
    }
    let ((n, _), (_, columns)) = (l.shape(builder.program), b.shape(builder.program));
    let bytes = (n * n + n * columns) * x.dtype(builder.program).size() as u64;
    Ok(Way {
        remark: format!("{p} x {w} tiles of X, each {side} x {wide}, in memory"),
        count: ways.len(),
        frugal: (p, w) == (1, 1),
        lower_bound: (bytes as f64, "the factors and the right-hand sides once"),
    })
}

/// Adds X, which is B with rows exchanged as pivots say, or taken back.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn exchange_rows(
    place: Place<'_>,
    (x, pivots, b): (Tiles, Tiles, Tiles),
    backwards: bool,
) -> Result<Way> {
    exchanged(place, (x, pivots, b), backwards, |_, count| 0..count)
}

/// Adds X, which is B with the rows of each column exchanged as some of the pivots say.
fn exchanged(
    place: Place<'_>,
    (x, pivots, b): (Tiles, Tiles, Tiles),
    backwards: bool,
    taken: impl Fn(u64, u64) -> Range<u64>,
) -> Result<Way> {
    let Place { runtime, program, speeds, makers, .. } = place;
    let x = x.beginning_as(program, b);
    let ((side, wide), (rows, cols)) = (x.tile(program), x.counts(program));
    let extents =
        Extents { rows: 1, cols: 1, depth: 1, solves: false, pivoted: 0, transposed: (false, false) };
    let mut builder = Builder::on(program, makers, x.dtype(program), speeds, extents);
    plan::capacity(runtime, builder.program, cols, speeds, rows as usize * x.frame(builder.program))?;
    let count = pivots.counts(builder.program).0;
    for s in 0..cols {
        begin_column(&mut builder, x, s);
        builder.exchange((x, s), (in_a_row(pivots), taken(s.min(count), count)), backwards);
    }
    let (n, columns) = b.shape(builder.program);
    let bytes = n * columns * x.dtype(builder.program).size() as u64;
    Ok(Way {
        remark: format!("a column of tiles, each {side} x {wide}, in memory"),
        count: 1,
        frugal: true,
        lower_bound: (bytes as f64, "the matrix once"),
    })
}

fn extents(side: (u64, u64), cols: u64, rows: u64, turned: bool) -> Extents {
    let (depth, pivoted) = (side.1.min(side.0), rows);
    Extents { rows: side.0, cols, depth, solves: true, pivoted, transposed: (turned, turned) }
}

/// A temporary for the pivots of a matrix.
fn new_pivots(program: &mut Program, l: Tiles) -> Result<Tiles> {
    let ((m, n), (rows, cols)) = (l.shape(program), l.tile(program));
    let shape = [m.min(n)];
    let new = New { name: "pivots", dtype: PIVOT, shape: &shape, tile: &[rows.min(cols)], initial: None };
    Ok(Tiles::new(new.temporary(program)?, Axes::COLUMN))
}

/// Pivots as columns of a matrix have them.
fn in_a_row(pivots: Tiles) -> Columns {
    Columns::all(pivots.transposed())
}

/// How many steps there are, roughly.
fn steps(program: &Program, l: Columns) -> u64 {
    let ((m, n), high) = (l.counts(program), l.heights(program));
    (0..m.min(n)).map(|k| ((m - k - 1).div_ceil(high) + 2) * (n - k.max(l.first) + 1)).sum()
}

/// Bytes for tiles, of which a column has to fit in.
fn capacity(runtime: &Runtime, program: &Program, l: Columns, count: u64, speeds: Speeds) -> Result<usize> {
    let least = (l.counts(program).0 as usize + 1) * l.frame(program);
    plan::capacity(runtime, program, count, speeds, least)
}

/// The orders that are tried, that which promises the least reading first, and last that which takes the least memory.
fn orders(program: &Program, l: Columns, capacity: usize) -> Vec<Order> {
    let (rows, cols) = l.counts(program);
    let tiles = (capacity / l.frame(program)) as u64;
    let columns = panel_columns(program, l, capacity);
    let mut found = vec![Order::Left(columns)];
    if cols.div_ceil(columns) > 2 {
        let (left, recursive) =
            (left_reads((rows, cols), columns), recursive_reads((rows, cols), columns, tiles));
        // Blocks of tiles that are higher than wide are no squares: they move more than that.
        let is_high = l.strips(program, 0..rows).len() as u64 != rows;
        found.insert(usize::from(left < recursive || is_high), Order::Recursive(columns));
    }
    // What runs ahead takes room, too: a panel that just fits may leave memory in part, and come back.
    if 2 < columns && columns < cols {
        found.insert(1, Order::Left(columns - 1));
    }
    if columns > 1 {
        found.push(Order::Left(1));
    }
    found
}

/// The columns of panels that memory holds, which are as wide as each other.
fn panel_columns(program: &Program, l: Columns, capacity: usize) -> u64 {
    let (rows, end) = l.counts(program);
    let cols = end - l.first;
    let tiles = (capacity / l.frame(program)) as u64;
    // Beside the panel, a tile in use and one on its way.
    let most = (tiles.saturating_sub(2) / rows.max(1)).clamp(1, cols.max(1));
    cols.div_ceil(cols.div_ceil(most).max(1)).max(1)
}

/// Tiles that are read beside the matrix itself.
fn left_reads((rows, cols): (u64, u64), columns: u64) -> u64 {
    let panels = (0..cols).step_by(columns as usize);
    panels.map(|j| trapezoid(rows, 0..j.min(rows))).sum()
}

/// Tiles on and below the diagonal, of some columns.
fn trapezoid(rows: u64, columns: Range<u64>) -> u64 {
    columns.map(|k| rows - k.min(rows)).sum()
}

fn recursive_reads((rows, cols): (u64, u64), columns: u64, tiles: u64) -> u64 {
    fn halves(rows: u64, cols: Range<u64>, columns: u64, tiles: u64) -> u64 {
        let count = cols.end - cols.start;
        if count <= columns {
            return count * (rows - cols.start.min(rows));
        }
        let middle = middle(&cols, columns);
        let update = Update::best(rows, cols.start..middle, cols.end - middle, columns, tiles);
        update.reads
            + halves(rows, cols.start..middle, columns, tiles)
            + halves(rows, middle..cols.end, columns, tiles)
            + (middle - cols.start) * (rows - middle.min(rows))
    }
    halves(rows, 0..cols.min(rows), columns, tiles)
}

/// Where columns are halved, into whole panels.
fn middle(cols: &Range<u64>, columns: u64) -> u64 {
    let panels = (cols.end - cols.start).div_ceil(columns);
    cols.start + panels.div_ceil(2) * columns
}

/// How columns on the right are updated.
#[derive(Clone, Copy)]
struct Update {
    /// The columns of a block of them, which is in memory as a whole while it is exchanged and solved.
    columns: u64,
    /// Rows and columns of blocks that are updated after that; none if with it.
    blocks: Option<(u64, u64)>,
    /// Tiles that are read.
    reads: u64,
}

impl Update {
    /// The one that reads the least, of `count` columns by those on the `left`.
    fn best(rows: u64, left: Range<u64>, count: u64, columns: u64, tiles: u64) -> Update {
        let (all, own) = (rows - left.start, left.end - left.start);
        let below = rows - left.end.min(rows);
        let groups = count.div_ceil(columns);
        let triangle = own * (own + 1) / 2;
        let together =
            Update { columns, blocks: None, reads: count * all + groups * (triangle + own * below) };
        // The best blocks are square, with a column of one factor and a tile of the other.
        let side = ((tiles as f64 + 1.0).sqrt() - 1.0).max(1.0) as u64;
        let q = side.clamp(1, count);
        let p = (tiles.saturating_sub(q + 1) / q).clamp(1, below.max(1));
        let (high, wide) = (below.div_ceil(p), count.div_ceil(q));
        let moved = below * count + below * own * wide + own * count * high;
        let reads = count * all + groups * triangle + moved;
        let apart = Update { columns, blocks: Some((p, q)), reads };
        if apart.reads < together.reads { apart } else { together }
    }
}

/// Adds what the tiles of a column start with.
fn begin_column(builder: &mut Builder<'_>, x: Tiles, column: u64) {
    let x = x.whole();
    let rows = x.counts(builder.program).0;
    (0..rows).for_each(|i| builder.begin(x, i, column));
}

/// A factorization being added.
struct Factoring<'a, 'b> {
    builder: &'a mut Builder<'b>,
    l: Columns,
    /// In a row.
    pivots: Columns,
    has_to_be_regular: bool,
    /// Rows and columns of tiles, and how many of them are factored.
    counts: (u64, u64, u64),
    /// Columns whose tiles hold what they start with.
    begun: Vec<bool>,
}

impl<'a, 'b> Factoring<'a, 'b> {
    fn of(
        builder: &'a mut Builder<'b>,
        l: Columns,
        pivots: Columns,
        has_to_be_regular: bool,
    ) -> Factoring<'a, 'b> {
        let (rows, cols) = l.counts(builder.program);
        let factored = pivots.counts(builder.program).1;
        let begun = vec![false; cols as usize];
        Factoring { builder, l, pivots, has_to_be_regular, counts: (rows, cols, factored), begun }
    }

    /// Begins what columns of a panel start with, row by row: their tiles may be parts of one stored tile.
    fn begin(&mut self, columns: Range<u64>) {
        let new: Vec<u64> =
            columns.filter(|&j| !std::mem::replace(&mut self.begun[j as usize], true)).collect();
        let rows = self.l.own(self.l.first).0.whole().counts(self.builder.program).0;
        for i in 0..rows {
            for &j in &new {
                let (own, j) = self.l.own(j);
                self.builder.begin(own.whole(), i, j);
            }
        }
    }

    fn exchange(&mut self, column: u64, pivots: Range<u64>) {
        self.builder.exchange(self.l.own(column), (self.pivots, pivots), false);
    }

    /// Panels of columns, one after the other; `finished` hears of each column when it has been factored.
    fn left_looking(&mut self, columns: u64, finished: &mut dyn FnMut(&mut Builder<'_>, u64)) {
        let (_, cols, factored) = self.counts;
        for first in (self.l.first..cols).step_by(columns as usize) {
            let panel = first..(first + columns).min(cols);
            self.begin(panel.clone());
            for k in 0..first.min(factored) {
                panel.clone().for_each(|j| self.exchange(j, k..k + 1));
                self.update_by(k, panel.clone(), k + 1..self.counts.0);
            }
            self.panel(panel, finished);
        }
    }

    /// Factors columns that are in memory. The next column comes first of those that are updated: while one thread looks
    /// for its pivots, there is work for the others.
    fn panel(&mut self, panel: Range<u64>, finished: &mut dyn FnMut(&mut Builder<'_>, u64)) {
        let (rows, _, factored) = self.counts;
        let own = panel.start..panel.end.min(factored);
        if !own.is_empty() {
            self.builder.pivot(self.l, self.pivots, own.start, self.has_to_be_regular);
        }
        for k in own.clone() {
            for j in k + 1..panel.end {
                self.exchange(j, k..k + 1);
                self.update_by(k, j..j + 1, k + 1..rows);
                if j == k + 1 && own.contains(&j) {
                    self.builder.pivot(self.l, self.pivots, j, self.has_to_be_regular);
                }
            }
            finished(self.builder, k);
        }
    }

    /// What a column of L does to columns whose rows have been exchanged, as far down as `rows` go.
    fn update_by(&mut self, k: u64, cols: Range<u64>, rows: Range<u64>) {
        let l = self.l;
        for j in cols.clone() {
            let program = &*self.builder.program;
            let (tile, extents) = (l.at(program, k, j), (l.rows_of(program, k), l.cols_of(program, j)));
            solve_row(self.builder, l, k, tile, extents);
        }
        for strip in l.strips(self.builder.program, rows) {
            for j in cols.clone() {
                self.subtract(strip.clone(), (k, j));
            }
        }
    }

    /// What rows of L, which lie in one tile of the array, take from those of a column.
    fn subtract(&mut self, strip: Range<u64>, (k, j): (u64, u64)) {
        let (l, program) = (self.l, &*self.builder.program);
        let ((c, count), (a, _)) = (l.high(program, strip.clone(), j), l.high(program, strip, k));
        let extents = (count, l.cols_of(program, j), l.rows_of(program, k));
        self.builder.product((c, a, l.at(program, k, j)), (true, -1.0), (false, false), extents);
    }

    /// Brings the rows of L to the order of all pivots.
    fn in_final_order(&mut self) {
        let factored = self.counts.2;
        (0..factored).for_each(|j| self.exchange(j, j + 1..factored));
    }

    /// By halves, down to panels of so many columns.
    fn recursive(&mut self, columns: u64, capacity: usize) {
        let tiles = (capacity / self.l.frame(self.builder.program)) as u64;
        let (_, cols, factored) = self.counts;
        self.halves(0..factored, columns, tiles);
        if cols > factored {
            self.right(0..factored, factored..cols, columns, tiles);
        }
    }

    fn halves(&mut self, cols: Range<u64>, columns: u64, tiles: u64) {
        if cols.end - cols.start <= columns {
            self.begin(cols.clone());
            self.panel(cols.clone(), &mut |_, _| {});
            (cols.start..cols.end).for_each(|j| self.exchange(j, j + 1..cols.end));
            return;
        }
        let middle = middle(&cols, columns);
        self.halves(cols.start..middle, columns, tiles);
        self.right(cols.start..middle, middle..cols.end, columns, tiles);
        self.halves(middle..cols.end, columns, tiles);
        (cols.start..middle).for_each(|j| self.exchange(j, middle..cols.end));
    }

    /// Updates columns by those to their left, which have been factored.
    fn right(&mut self, left: Range<u64>, cols: Range<u64>, columns: u64, tiles: u64) {
        let rows = self.counts.0;
        let update = Update::best(rows, left.clone(), cols.end - cols.start, columns, tiles);
        for first in cols.clone().step_by(update.columns as usize) {
            let some = first..(first + update.columns).min(cols.end);
            self.begin(some.clone());
            some.clone().for_each(|j| self.exchange(j, left.clone()));
            let down = if update.blocks.is_some() { left.end } else { rows };
            for k in left.clone() {
                self.update_by(k, some.clone(), k + 1..down);
            }
        }
        let Some((p, q)) = update.blocks else { return };
        for (block, i) in (left.end..rows).step_by(p as usize).enumerate() {
            let some = i..(i + p).min(rows);
            let mut starts: Vec<u64> = cols.clone().step_by(q as usize).collect();
            if block % 2 == 1 {
                starts.reverse();
            }
            for j in starts {
                let beside = j..(j + q).min(cols.end);
                for k in left.clone() {
                    for j in beside.clone() {
                        for strip in self.l.strips(self.builder.program, some.clone()) {
                            self.subtract(strip, (k, j));
                        }
                    }
                }
            }
        }
    }

    /// Left-looking, with every column of L used for `L Y = P B` while it is in memory.
    fn with_right_hand_sides(&mut self, columns: u64, x: Tiles) {
        let (rows, cols) = x.counts(self.builder.program);
        (0..cols).for_each(|s| begin_column(self.builder, x, s));
        let (l, pivots) = (self.l, self.pivots);
        self.left_looking(columns, &mut |builder, k| {
            forward_by(builder, (l, pivots), x, k, 0..cols, rows);
        });
    }

    /// Solves `L Y = P B` with L as left-looking leaves it, for as many columns at a time as memory holds.
    fn forward(&mut self, x: Tiles, capacity: usize) {
        let (rows, cols) = x.counts(self.builder.program);
        let tiles = capacity.saturating_sub(2 * self.l.frame(self.builder.program));
        let wide = (tiles / x.frame(self.builder.program) / (rows as usize).max(1)).max(1);
        for first in (0..cols).step_by(wide) {
            let some = first..(first + wide as u64).min(cols);
            some.clone().for_each(|s| begin_column(self.builder, x, s));
            for k in 0..rows {
                forward_by(self.builder, (self.l, self.pivots), x, k, some.clone(), rows);
            }
        }
    }
}

/// What a column of L does to right-hand sides.
fn forward_by(
    builder: &mut Builder<'_>,
    (l, pivots): (Columns, Columns),
    x: Tiles,
    k: u64,
    cols: Range<u64>,
    rows: u64,
) {
    for s in cols.clone() {
        builder.exchange((x, s), (pivots, k..k + 1), false);
        let program = &*builder.program;
        let (tile, extents) = (x.at(program, k, s), (x.rows_of(program, k), x.cols_of(program, s)));
        solve_row(builder, l, k, tile, extents);
    }
    for strip in l.strips(builder.program, k + 1..rows) {
        for s in cols.clone() {
            let program = &*builder.program;
            let ((c, count), (a, _)) = (x.high(program, strip.clone(), s), l.high(program, strip.clone(), k));
            let extents = (count, x.cols_of(program, s), x.rows_of(program, k));
            builder.product((c, a, x.at(program, k, s)), (true, -1.0), (false, false), extents);
        }
    }
}

/// Multiplies a tile of row `k` by the inverse of the unit lower triangle on the diagonal.
fn solve_row(builder: &mut Builder<'_>, l: Columns, k: u64, tile: MatrixTile, extents: (f64, f64)) {
    let diagonal = l.at(builder.program, k, k);
    builder.solve(SOLVE_UNIT, tile, diagonal, extents.0, extents.1);
}

/// Bytes that any schedule reads: what a factorization without pivoting needs with so much memory, and at least the
/// matrix once.
fn lower_bound(runtime: &Runtime, program: &Program, a: Tiles) -> (f64, &'static str) {
    let (m, n) = a.shape(program);
    let size = super::read_size(program, a.dtype(program), m * n);
    let memory = (runtime.limit() as f64 / size).max(1.0);
    let (least, most) = (m.min(n) as f64, m.max(n) as f64);
    let (moved, once) = (least * least * (most - least / 3.0) / memory.sqrt(), least * most);
    if moved > once {
        (moved * size, "2n^3/(3 sqrt(M)) elements, Kwasniewski et al. 2021")
    } else {
        (once * size, "the matrix once")
    }
}
