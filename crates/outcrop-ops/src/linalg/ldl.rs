//! The factorization of a symmetric matrix that is not definite, or of a Hermitian one, and solving with it.
//!
//! Pivots are looked for within tiles on the diagonal, so that what is loaded is known beforehand. So that they are there,
//! each row is first rotated with three others, and so is each column, of tiles that are far apart: G^T A G, with G of fixed
//! angles. What is factored then is left-looking, as Cholesky's factor is, in half of the work of LU.

use super::cholesky::{blocks, extents, lower_bound};
use super::ldl_steps::{FactorTiles, Partners, Steps, columns_workspace, workspace};
use super::matrix::{Axes, Columns, Tiles};
use super::steps::{Builder, Extents};
use super::triangular::{self, Triangle, solve_steps};
use super::{Place, Way};
use crate::arrays::New;
use crate::kernels::ldl::Around;
use crate::kernels::{Diagonal, Half};
use outcrop_engine::plan;
use outcrop_engine::program::Program;
use outcrop_store::{DType, Error, Result};

/// The arrays of a factorization.
#[derive(Clone, Copy)]
pub struct LDL {
    /// L, or U where it is that of the transposed matrix.
    pub l: Tiles,
    /// The diagonal of D, and what is below it.
    pub d: Option<Tiles>,
    /// Of each row of L that of the rotated matrix which it is; of each row of the matrix, its partners; and what tells
    /// whether L and D are those with these rows.
    pub rows: Option<Tiles>,
}

/// Whether a matrix is symmetric, or Hermitian, and which half of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indefinite {
    /// The half that is read, and stored of the factor.
    pub half: Half,
    /// Whether it is Hermitian.
    pub hermitian: bool,
}

/// Adds L, D and rows of `P^T G^T A G P = L D L^H`. The other half of A is not read. That of the result is zero: its tiles are
/// written if it is used as a `whole`.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn ldl(place: Place<'_>, factors: LDL, a: Tiles, what: Indefinite, whole: bool) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let l = factors.l.beginning_as(program, a);
    let l = if what.half == Half::Upper { l.transposed() } else { l };
    let ((side, _), (n, _)) = (l.tile(program), l.shape(program));
    let dtype = l.dtype(program);
    let d = factors.d.map_or_else(|| beside(program, "D", dtype, (n, 2), side), Ok)?;
    let rows = factors.rows.map_or_else(|| beside(program, "rows", DType::I32, (n, 4), side), Ok)?;
    for narrow in [d, rows] {
        check_narrow(program, narrow)?;
    }
    let turned = l.axes().is_transposed();
    program.workspace = program.workspace.max(workspace(dtype, side));
    let mut builder = Builder::on(program, makers, dtype, speeds, extents(side, side, turned));
    let ways = blocks(runtime, builder.program, Columns::all(l), speeds)?;
    let (p, q) = super::chosen(&ways, way);
    let mut steps = Steps::new(what.hermitian);
    rotated(&mut builder, &mut steps, l);
    let begins = groups(builder.program, l).is_empty();
    let (columns, d) = (Columns::all(l), in_a_row(None, d, builder.program));
    Factoring { builder: &mut builder, steps: &mut steps, l: columns, d, rows, begins }.factored((p, q));
    in_order(&mut builder, &mut steps, l, rows);
    if whole {
        let n = l.counts(builder.program).0;
        for (i, j) in (0..n).flat_map(|j| (0..j).map(move |i| (i, j))) {
            let above = l.at(builder.program, i, j);
            builder.zero(above);
        }
    }
    Ok(Way {
        remark: format!("{p} x {q} tiles of L, each {side} x {side}, in memory"),
        count: ways.len(),
        frugal: (p, q) == (1, 1),
        lower_bound: lower_bound(runtime, builder.program, a),
    })
}

/// Adds `X = G^T A G`, of which [`ldl_columns`] makes columns of the factor. One half of A is read, and of X written.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn ldl_rotated(place: Place<'_>, (x, a): (Tiles, Tiles), what: Indefinite) -> Result<Way> {
    let Place { runtime, program, speeds, makers, .. } = place;
    let x = x.beginning_as(program, a);
    let x = if what.half == Half::Upper { x.transposed() } else { x };
    let ((side, _), (count, _)) = (x.tile(program), x.counts(program));
    let dtype = x.dtype(program);
    let extents =
        Extents { rows: 1, cols: 1, depth: 1, solves: false, pivoted: 0, transposed: (false, false) };
    let mut builder = Builder::on(program, makers, dtype, speeds, extents);
    let is_one = groups(builder.program, x).is_empty();
    let least = if is_one { 2 } else { 4 } * x.frame(builder.program);
    plan::capacity(runtime, builder.program, count * (count + 1), speeds, least)?;
    if is_one {
        (0..count).for_each(|i| builder.begin(x, i, i));
    }
    rotated(&mut builder, &mut Steps::new(what.hermitian), x);
    let bytes = x.shape(builder.program).0.pow(2) * dtype.size() as u64 / 2;
    Ok(Way {
        remark: format!("16 tiles, each {side} x {side}, in turn"),
        count: 1,
        frugal: true,
        lower_bound: (bytes as f64, "half of the matrix once"),
    })
}

/// Columns of a factorization of which those before are done: as [`LDL`] has them, but that the rows of L have the order
/// that they have while it is computed.
#[derive(Clone, Copy)]
pub struct SomeLDL {
    /// L, or U.
    pub l: Tiles,
    /// D.
    pub d: Tiles,
}

/// Adds the next columns of L, and D and rows of the factorization of a matrix that [`ldl_rotated`] gives; those before
/// are `done`. `a` are these columns alone.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn ldl_columns(
    place: Place<'_>,
    (next, rows): (SomeLDL, Tiles),
    done: Option<SomeLDL>,
    a: Tiles,
    what: Indefinite,
) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let l = next.l.beginning_as(program, a);
    let upright = |l: Tiles| if what.half == Half::Upper { l.transposed() } else { l };
    let l = upright(l);
    let (side, _) = l.tile(program);
    let dtype = l.dtype(program);
    for narrow in [next.d, rows] {
        check_narrow(program, narrow)?;
    }
    let turned = l.axes().is_transposed();
    program.workspace = program.workspace.max(workspace(dtype, side));
    let mut builder = Builder::on(program, makers, dtype, speeds, extents(side, side, turned));
    let columns = Columns::after_squares(done.map(|done| upright(done.l)), l, builder.program)?;
    let d = in_a_row(done.map(|done| done.d), next.d, builder.program);
    let ways = blocks(runtime, builder.program, columns, speeds)?;
    let (p, q) = super::chosen(&ways, way);
    let mut steps = Steps::new(what.hermitian);
    Factoring { builder: &mut builder, steps: &mut steps, l: columns, d, rows, begins: true }
        .factored((p, q));
    Ok(Way {
        remark: format!("{p} x {q} tiles of L, each {side} x {side}, in memory"),
        count: ways.len(),
        frugal: (p, q) == (1, 1),
        lower_bound: lower_bound(runtime, builder.program, a),
    })
}

/// Adds X, which is L with its rows in the order that `rows` says, of a factor as [`ldl_columns`] leaves it.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn ldl_in_order(place: Place<'_>, (x, rows, l): (Tiles, Tiles, Tiles), half: Half) -> Result<Way> {
    let Place { runtime, program, speeds, makers, .. } = place;
    let x = x.beginning_as(program, l);
    let x = if half == Half::Upper { x.transposed() } else { x };
    check_narrow(program, rows)?;
    let ((side, _), (count, _)) = (x.tile(program), x.counts(program));
    let dtype = x.dtype(program);
    program.workspace = program.workspace.max(workspace(dtype, side));
    let turned = x.axes().is_transposed();
    let mut builder = Builder::on(program, makers, dtype, speeds, extents(side, side, turned));
    plan::capacity(runtime, builder.program, count * count, speeds, 3 * x.frame(builder.program))?;
    fetch_all(&mut builder, rows);
    for k in 0..count {
        (k..count).for_each(|i| builder.begin(x, i, k));
    }
    in_order(&mut builder, &mut Steps::new(false), x, rows);
    let bytes = x.shape(builder.program).0.pow(2) * dtype.size() as u64 / 2;
    Ok(Way {
        remark: format!("tiles, each {side} x {side}, one after the other"),
        count: 1,
        frugal: true,
        lower_bound: (bytes as f64, "half of the factor once"),
    })
}

/// D, of which tiles are found by columns as those of L are.
fn in_a_row(done: Option<Tiles>, own: Tiles, program: &Program) -> Columns {
    Columns::after(done.map(Tiles::transposed), own.transposed(), program)
}

/// A temporary of a few columns, of tiles as many rows long.
fn beside(
    program: &mut Program,
    name: &str,
    dtype: DType,
    (n, cols): (u64, u64),
    side: u64,
) -> Result<Tiles> {
    let new = New { name, dtype, shape: &[n, cols], tile: &[side, cols], initial: None };
    Ok(Tiles::new(new.temporary(program)?, Axes::MATRIX))
}

fn check_narrow(program: &Program, narrow: Tiles) -> Result<()> {
    let (cols, width) = (narrow.shape(program).1, narrow.tile(program).1);
    if width >= cols {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "D, and rows, of a factorization have whole rows in their tiles: {cols} columns, not {width}"
    )))
}

/// Adds X of `A X = B` with what [`ldl`] gives for A.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn ldl_solve(
    place: Place<'_>,
    (x, l, d, rows, b): (Tiles, Tiles, Tiles, Tiles, Tiles),
    what: Indefinite,
) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let x = x.beginning_as(program, b);
    let Indefinite { half, hermitian } = what;
    for narrow in [d, rows] {
        check_narrow(program, narrow)?;
    }
    // The upper factor is, transposed, the lower factor of the transposed matrix, which is the conjugate one.
    let (l, conj) = if half == Half::Upper { (l.transposed(), hermitian) } else { (l, false) };
    let ((side, wide), (n, cols)) = (x.tile(program), x.counts(program));
    let dtype = x.dtype(program);
    let transposed = (l.axes().is_transposed(), false);
    let extents = Extents { rows: side, cols: wide, depth: side, solves: true, pivoted: 0, transposed };
    program.workspace = program.workspace.max(columns_workspace(dtype, x.shape(program).0));
    let mut builder = Builder::on(program, makers, dtype, speeds, extents);
    let count = n * (n + 1) * cols;
    plan::capacity(runtime, builder.program, count, speeds, n as usize * x.frame(builder.program))?;
    let ways = triangular::blocks(runtime, builder.program, l, x, speeds)?;
    let (p, w) = super::chosen(&ways, way);
    let mut steps = Steps::new(hermitian);
    for k in 0..n {
        builder.fetch(l, k, k);
        builder.fetch(d, k, 0);
        builder.fetch(rows, k, 0);
        let program = &*builder.program;
        let tiles =
            FactorTiles { l: l.at(program, k, k), d: d.at(program, k, 0), rows: rows.at(program, k, 0) };
        steps.fit(&mut builder, tiles);
    }
    for s in 0..cols {
        (0..n).for_each(|i| builder.begin(x, i, s));
        fetch_all(&mut builder, rows);
        steps.around(&mut builder, (x, s), rows, Around::Before, conj);
    }
    let lower = Triangle { half: Half::Lower, diagonal: Diagonal::Unit, conj };
    solve_steps(&mut builder, l, lower, (x, None), (p, w));
    for s in 0..cols {
        fetch_all(&mut builder, d);
        steps.around(&mut builder, (x, s), d, Around::Between, conj);
    }
    let upper = Triangle { half: Half::Upper, diagonal: Diagonal::Unit, conj: hermitian != conj };
    solve_steps(&mut builder, l.transposed(), upper, (x, None), (p, w));
    for s in 0..cols {
        fetch_all(&mut builder, rows);
        steps.around(&mut builder, (x, s), rows, Around::After, conj);
    }
    let ((n, _), (_, columns)) = (l.shape(builder.program), b.shape(builder.program));
    let bytes = (n * (n + 1) / 2 + n * columns) * dtype.size() as u64;
    Ok(Way {
        remark: format!("{p} x {w} tiles of X, each {side} x {wide}, in memory"),
        count: ways.len(),
        frugal: (p, w) == (1, 1),
        lower_bound: (bytes as f64, "half of the factor and the right-hand sides once"),
    })
}

/// Makes the tiles of a narrow matrix, where these have to be made.
fn fetch_all(builder: &mut Builder<'_>, matrix: Tiles) {
    let count = matrix.counts(builder.program).0;
    (0..count).for_each(|i| builder.fetch(matrix, i, 0));
}

struct Factoring<'f, 'b> {
    builder: &'f mut Builder<'b>,
    steps: &'f mut Steps,
    l: Columns,
    /// Turned: a tile of it is beside each column of tiles of L.
    d: Columns,
    /// Of the columns that are not done.
    rows: Tiles,
    /// Whether tiles of L are still to be made those of the matrix.
    begins: bool,
}

/// A row of tiles, and that of its partners.
type Pair = (u64, Option<u64>);

/// The pairs of rows of tiles of a group of four at the most, first and then, of `count` rows of tiles: those from `group` on that
/// are half of them apart, and a quarter.
fn pairs(group: u64, count: u64, (half, quarter): (u64, u64)) -> [Vec<Pair>; 2] {
    let within = |row: u64, end: u64| (row < end).then_some(row);
    let members = [Some(group), within(group + quarter, half)];
    let first = members.into_iter().flatten().map(|row| (row, within(row + half, count))).collect();
    let second = [(group, half), (group + half, count)];
    let second = second.into_iter().filter(|&(row, end)| row < end);
    [first, second.map(|(row, end)| (row, within(row + quarter, end))).collect()]
}

/// The pairs of rows of tiles that are rotated with each other, group by group; none where there is but one tile.
fn groups(program: &Program, l: Tiles) -> Vec<[Vec<Pair>; 2]> {
    let count = l.counts(program).0;
    let half = count.div_ceil(2);
    let quarter = half.div_ceil(2);
    let groups = if count < 2 { 0 } else { quarter };
    (0..groups).map(|g| pairs(g, count, (half, quarter))).collect()
}

/// Which rows of a matrix of tiles like these are rotated with each other.
fn partners(program: &Program, l: Tiles) -> Partners {
    let (n, count, side) = (l.shape(program).0, l.counts(program).0, l.tile(program).0);
    if count < 2 {
        return Partners { n, apart: [0, 0] };
    }
    let half = count.div_ceil(2);
    let quarter = half.div_ceil(2);
    // Rows that are paired by a quarter of one part of them are that far apart in the other, too.
    Partners { n, apart: [half * side, if quarter < half { quarter * side } else { 0 }] }
}

/// Rotates rows and columns of the matrix that L begins as.
fn rotated(builder: &mut Builder<'_>, steps: &mut Steps, l: Tiles) {
    let groups = groups(builder.program, l);
    // Sixteen tiles at the most are in turn, and as far as memory holds them they stay there.
    for (g, one) in groups.iter().enumerate() {
        for other in &groups[..=g] {
            for &(row, col) in &tiles_of(one, other) {
                builder.begin(l, row, col);
            }
            for level in 0..2 {
                for (i, &rows) in one[level].iter().enumerate() {
                    for (j, &cols) in other[level].iter().enumerate() {
                        let is_same = std::ptr::eq(one, other);
                        if !is_same || j <= i {
                            rotate(builder, steps, l, level as u64, (rows, cols), is_same && i == j);
                        }
                    }
                }
            }
        }
    }
}

fn rotate(
    builder: &mut Builder<'_>,
    steps: &mut Steps,
    l: Tiles,
    level: u64,
    (rows, cols): (Pair, Pair),
    half: bool,
) {
    if rows.1.is_none() && cols.1.is_none() {
        return;
    }
    let program = &*builder.program;
    let tile = |row: Option<u64>, col: Option<u64>| {
        let (row, col) = row.zip(col)?;
        let is_stored = row >= col;
        let at = if is_stored { l.at(program, row, col) } else { l.at(program, col, row).transposed() };
        Some((at, !is_stored))
    };
    let mut parts = [
        tile(Some(rows.0), Some(cols.0)),
        tile(Some(rows.0), cols.1),
        tile(rows.1, Some(cols.0)),
        tile(rows.1, cols.1),
    ];
    if half {
        parts[1] = None;
    }
    let side = l.tile(program).0;
    let count = l.rows_of(program, rows.0) * l.rows_of(program, cols.0);
    let start = (rows.0 * side, cols.0 * side);
    steps.rotate(builder, parts, half, level, start, 4.0 * count);
}

/// Rows of L get the order that they had before their own tile on the diagonal was factored.
fn in_order(builder: &mut Builder<'_>, steps: &mut Steps, l: Tiles, rows: Tiles) {
    let n = l.counts(builder.program).0;
    // The last columns are in memory still.
    for k in (0..n).rev() {
        for i in k + 1..n {
            let program = &*builder.program;
            let (x, rows) = (l.at(program, i, k), rows.at(program, i, 0));
            steps.order(builder, x, rows);
        }
    }
}

impl Factoring<'_, '_> {
    /// Factors, with a block of tiles in memory.
    fn factored(&mut self, (p, q): (u64, u64)) {
        let (n, end) = self.l.counts(self.builder.program);
        let partners = partners(self.builder.program, self.l.own(self.l.first).0);
        for j0 in (self.l.first..end).step_by(q as usize) {
            let j1 = (j0 + q).min(end);
            for i0 in (j0..n).step_by(p as usize) {
                let i1 = (i0 + p).min(n);
                if self.begins {
                    for j in j0..j1.min(i1) {
                        let (own, col) = self.l.own(j);
                        (i0.max(j)..i1).for_each(|i| self.builder.begin(own, i, col));
                    }
                }
                for k in 0..j0 {
                    for j in j0..j1.min(i1) {
                        for i in i0.max(j)..i1 {
                            self.update((i, j, k));
                        }
                    }
                }
                for k in j0..j1.min(i1) {
                    if k >= i0 {
                        let (tiles, order) = (self.tiles(k), self.l.rows_of(self.builder.program, k));
                        self.steps.factor(self.builder, tiles, partners, order);
                    }
                    for i in i0.max(k + 1)..i1 {
                        let program = &*self.builder.program;
                        let (x, m) = (self.l.at(program, i, k), self.l.rows_of(program, i));
                        let (tiles, order) = (self.tiles(k), self.l.rows_of(program, k));
                        self.steps.solve(self.builder, x, tiles, (m, order), k == 0);
                    }
                    for j in k + 1..j1.min(i1) {
                        for i in i0.max(j)..i1 {
                            self.update((i, j, k));
                        }
                    }
                }
            }
        }
    }

    /// Those of a column that is not done.
    fn tiles(&self, k: u64) -> FactorTiles {
        let program = &*self.builder.program;
        FactorTiles {
            l: self.l.at(program, k, k),
            d: self.d.at(program, 0, k).transposed(),
            rows: self.rows.at(program, k - self.l.first, 0),
        }
    }

    /// Subtracts from the tile at (i, j) what column k of tiles takes from it.
    fn update(&mut self, (i, j, k): (u64, u64, u64)) {
        let program = &*self.builder.program;
        let [c, a, b] = [(i, j), (i, k), (j, k)].map(|(row, col)| self.l.at(program, row, col));
        let d = self.d.at(program, 0, k).transposed();
        let extents = (self.l.rows_of(program, i), self.l.rows_of(program, j), self.l.rows_of(program, k));
        self.steps.update(self.builder, (c, a, b, d), extents, [k == 0, k + 1 == j, k < self.l.first]);
    }
}

/// The tiles of the lower half where the rows of a group meet those of another one, or its own.
fn tiles_of(one: &[Vec<Pair>; 2], other: &[Vec<Pair>; 2]) -> Vec<(u64, u64)> {
    let rows = |group: &[Vec<Pair>; 2]| -> Vec<u64> {
        group[0].iter().flat_map(|&(row, partner)| [Some(row), partner]).flatten().collect()
    };
    let (rows, cols) = (rows(one), rows(other));
    let mut found: Vec<(u64, u64)> =
        rows.iter().flat_map(|&i| cols.iter().map(move |&j| (i.max(j), i.min(j)))).collect();
    found.sort_unstable();
    found.dedup();
    found
}
