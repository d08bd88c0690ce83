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
    let mut factoring = Factoring { builder: &mut builder, steps: Steps::new(what.hermitian), l, d, rows };
    let partners = factoring.rotated();
    factoring.factored((p, q), partners);
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
    steps: Steps,
    l: Tiles,
    d: Tiles,
    rows: Tiles,
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

impl Factoring<'_, '_> {
    /// Rotates rows and columns, and says which with which.
    fn rotated(&mut self) -> Partners {
        let program = &*self.builder.program;
        let (n, count, side) = (self.l.shape(program).0, self.l.counts(program).0, self.l.tile(program).0);
        if count < 2 {
            return Partners { n, apart: [0, 0] };
        }
        let half = count.div_ceil(2);
        let quarter = half.div_ceil(2);
        let groups: Vec<[Vec<Pair>; 2]> = (0..quarter).map(|g| pairs(g, count, (half, quarter))).collect();
        // Sixteen tiles at the most are in turn, and as far as memory holds them they stay there.
        for (g, one) in groups.iter().enumerate() {
            for other in &groups[..=g] {
                for &(row, col) in &tiles_of(one, other) {
                    self.builder.begin(self.l, row, col);
                }
                for level in 0..2 {
                    for (i, &rows) in one[level].iter().enumerate() {
                        for (j, &cols) in other[level].iter().enumerate() {
                            let is_same = std::ptr::eq(one, other);
                            if !is_same || j <= i {
                                self.rotate(level as u64, rows, cols, is_same && i == j);
                            }
                        }
                    }
                }
            }
        }
        // Rows that are paired by a quarter of one part of them are that far apart in the other, too.
        Partners { n, apart: [half * side, if quarter < half { quarter * side } else { 0 }] }
    }

    fn rotate(&mut self, level: u64, rows: Pair, cols: Pair, half: bool) {
        if rows.1.is_none() && cols.1.is_none() {
            return;
        }
        let program = &*self.builder.program;
        let tile = |row: Option<u64>, col: Option<u64>| {
            let (row, col) = row.zip(col)?;
            let is_stored = row >= col;
            let at = if is_stored {
                self.l.at(program, row, col)
            } else {
                self.l.at(program, col, row).transposed()
            };
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
        let side = self.l.tile(program).0;
        let count = self.l.rows_of(program, rows.0) * self.l.rows_of(program, cols.0);
        let start = (rows.0 * side, cols.0 * side);
        self.steps.rotate(self.builder, parts, half, level, start, 4.0 * count);
    }

    /// Factors, with a block of tiles in memory.
    fn factored(&mut self, (p, q): (u64, u64), partners: Partners) {
        let n = self.l.counts(self.builder.program).0;
        for j0 in (0..n).step_by(q as usize) {
            let j1 = (j0 + q).min(n);
            for i0 in (j0..n).step_by(p as usize) {
                let i1 = (i0 + p).min(n);
                if n == 1 {
                    self.builder.begin(self.l, 0, 0);
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
                        self.steps.solve(self.builder, x, tiles, m, order);
                    }
                    for j in k + 1..j1.min(i1) {
                        for i in i0.max(j)..i1 {
                            self.update((i, j, k));
                        }
                    }
                }
            }
        }
        // Rows have the order that they had before their own tile on the diagonal was factored. The last columns are in
        // memory still.
        for k in (0..n).rev() {
            for i in k + 1..n {
                let program = &*self.builder.program;
                let (x, rows) = (self.l.at(program, i, k), self.rows.at(program, i, 0));
                self.steps.order(self.builder, x, rows);
            }
        }
    }

    fn tiles(&self, k: u64) -> FactorTiles {
        let program = &*self.builder.program;
        FactorTiles {
            l: self.l.at(program, k, k),
            d: self.d.at(program, k, 0),
            rows: self.rows.at(program, k, 0),
        }
    }

    /// Subtracts from the tile at (i, j) what column k of tiles takes from it.
    fn update(&mut self, (i, j, k): (u64, u64, u64)) {
        let program = &*self.builder.program;
        let [c, a, b] = [(i, j), (i, k), (j, k)].map(|(row, col)| self.l.at(program, row, col));
        let d = self.d.at(program, k, 0);
        let extents = (self.l.rows_of(program, i), self.l.rows_of(program, j), self.l.rows_of(program, k));
        self.steps.update(self.builder, (c, a, b, d), extents);
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
