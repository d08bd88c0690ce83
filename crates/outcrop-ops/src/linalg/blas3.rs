//! The operations of level-3 BLAS, which change a matrix: `C = alpha A B + beta C` with factors of any kind, updates
//! of a half of a symmetric or Hermitian matrix, products with triangles and triangular systems in place.
//!
//! All of them are products of tiles, or solutions, that differ in how tiles of factors are had (of a symmetric matrix,
//! one that is not stored is one that is, transposed), and in which tiles of C there are.

use super::blas_steps::{self, FactorTile, Mirror, Steps};
use super::half_blocks::{Block, HalfOf, Shape};
use super::matmul;
use super::matrix::Tiles;
use super::steps::{Builder, Extents};
use super::triangular::{self, Triangle};
use super::{Place, Way};
use crate::kernels::{self, Half, Scalar};
use outcrop_engine::plan;
use outcrop_store::Result;

/// What is computed, besides the matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// What the product is multiplied by.
    pub alpha: Scalar,
    /// What C is multiplied by; it is not read where this is zero.
    pub beta: Scalar,
    /// Which operation it is.
    pub form: Form,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// `C = beta C`, or that of a half of it, which may be that of a Hermitian matrix.
    Scale {
        /// The half.
        half: Option<Half>,
        /// Whether the diagonal is real.
        hermitian: bool,
    },
    /// `C = alpha A B + beta C`.
    Product {
        /// Which of the factors is conjugated.
        conj: (bool, bool),
        /// Of which factor only this half counts, since it is symmetric.
        symmetric: (Option<Half>, Option<Half>),
        /// Whether that is Hermitian.
        hermitian: bool,
    },
    /// A half of `C = alpha A B^T + beta C`, or of `C = alpha A B^T + alpha B A^T + beta C`.
    Update {
        /// The half.
        half: Half,
        /// Which of A and B is given as its conjugate.
        conj: (bool, bool),
        /// Whether it is Hermitian: then one factor of each product is conjugated, the first or the second, and alpha
        /// in the second product.
        hermitian: Option<Conjugated>,
        /// Whether there are two products.
        twice: bool,
    },
    /// `B = alpha T B`.
    Multiply(Triangle),
    /// `B = alpha T^-1 B`.
    Solve(Triangle),
}

/// Which factor of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conjugated {
    /// The first one.
    First,
    /// The second one.
    Second,
}

/// A matrix as a factor.
#[derive(Clone, Copy)]
struct Factor {
    tiles: Tiles,
    conj: bool,
    mirror: Option<Mirror>,
}

impl Factor {
    fn plain(tiles: Tiles, conj: bool) -> Factor {
        Factor { tiles, conj, mirror: None }
    }

    fn transposed(self) -> Factor {
        let flipped = |m: Mirror| Mirror { half: m.half.transposed(), ..m };
        Factor { tiles: self.tiles.transposed(), mirror: self.mirror.map(flipped), ..self }
    }

    /// Whether the tile at a place is stored there, and not at the other side of the diagonal.
    fn is_there(&self, row: u64, col: u64) -> bool {
        self.mirror.is_none_or(|m| row == col || (row > col) == (m.half == Half::Lower))
    }

    fn fetch(&self, builder: &mut Builder<'_>, row: u64, col: u64) {
        let (row, col) = if self.is_there(row, col) { (row, col) } else { (col, row) };
        builder.fetch(self.tiles, row, col);
    }

    fn at(&self, builder: &Builder<'_>, row: u64, col: u64) -> FactorTile {
        let program = &*builder.program;
        if self.is_there(row, col) {
            let mirror = self.mirror.filter(|_| row == col);
            return FactorTile { tile: self.tiles.at(program, row, col), conj: self.conj, mirror };
        }
        let hermitian = self.mirror.is_some_and(|m| m.hermitian);
        let tile = self.tiles.transposed().at(program, row, col);
        FactorTile { tile, conj: self.conj != hermitian, mirror: None }
    }
}

/// A product that is added to C.
#[derive(Clone, Copy)]
struct Term {
    alpha: Scalar,
    a: Factor,
    b: Factor,
}

impl Term {
    fn transposed(self) -> Term {
        Term { a: self.b.transposed(), b: self.a.transposed(), ..self }
    }
}

/// What becomes of C, besides products.
#[derive(Clone, Copy)]
struct Changed {
    c: Tiles,
    beta: Scalar,
    /// Whether only the lower half counts.
    lower: bool,
    /// Whether the diagonal is real.
    hermitian: bool,
    /// Whether the other half becomes that which counts, transposed, or the adjoint of it where the diagonal is real.
    mirrored: bool,
}

impl Changed {
    /// As much of it as there is, with the lower half for the upper one.
    fn of(c: Tiles, beta: Scalar, half: Option<Half>, hermitian: bool) -> Changed {
        let c = if half == Some(Half::Upper) { c.transposed() } else { c };
        Changed { c, beta, lower: half.is_some(), hermitian, mirrored: false }
    }

    fn is_on_diagonal(&self, row: u64, col: u64) -> bool {
        self.lower && row == col
    }

    /// Makes a tile what products are added to; says whether they are, or take its place.
    fn begin(&self, builder: &mut Builder<'_>, steps: &mut Steps, row: u64, col: u64) -> bool {
        let diagonal = self.is_on_diagonal(row, col);
        if self.beta == Scalar::ZERO && (!diagonal || self.mirrored) {
            return false;
        }
        // Of a tile on the diagonal, the other half stays.
        builder.begin(self.c, row, col);
        let tile = self.c.at(builder.program, row, col);
        if self.beta == Scalar::ZERO {
            return false;
        }
        if diagonal && self.hermitian {
            steps.real(builder, tile);
        }
        if self.beta != Scalar::ONE {
            steps.scale(builder, tile, self.beta, diagonal);
        }
        true
    }

    /// Makes the other half of what a block has.
    fn mirror(&self, builder: &mut Builder<'_>, block: &Block) {
        for &col in &block.cols {
            for row in block.rows_of(col) {
                let program = &*builder.program;
                let (below, above) = (self.c.at(program, row, col), self.c.at(program, col, row));
                if row == col {
                    builder.mirror(below, self.hermitian);
                } else if self.hermitian {
                    builder.adjoint(above, below);
                } else {
                    builder.transpose(above, below);
                }
            }
        }
    }
}

/// Adds `C = A A^T` or `C = A A^H`, where `b` is A transposed: what is below the diagonal, and what is above as that is.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub(super) fn gram(place: Place<'_>, (c, a, b): (Tiles, Tiles, Tiles), conj: (bool, bool)) -> Result<Way> {
    let term = Term { alpha: Scalar::ONE, a: Factor::plain(a, conj.0), b: Factor::plain(b, conj.1) };
    let hermitian = conj.0 != conj.1;
    update(place, &[term], Changed { c, beta: Scalar::ZERO, lower: true, hermitian, mirrored: true })
}

/// Adds an operation: of the matrices X, A, B and C, X becomes what is computed, and C is what it is before, of the
/// same tiles. Where an operation takes no A or no B, they are not looked at; T is A.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn blas3(place: Place<'_>, (x, a, b, c): (Tiles, Tiles, Tiles, Tiles), call: Call) -> Result<Way> {
    let x = x.beginning_as(place.program, c);
    let Call { alpha, beta, form } = call;
    match form {
        Form::Scale { half, hermitian } => scale(place, Changed::of(x, beta, half, hermitian)),
        Form::Product { conj, symmetric, hermitian } => {
            let mirror = |half: Option<Half>| half.map(|half| Mirror { half, hermitian });
            let a = Factor { tiles: a, conj: conj.0, mirror: mirror(symmetric.0) };
            let b = Factor { tiles: b, conj: conj.1, mirror: mirror(symmetric.1) };
            product(place, Term { alpha, a, b }, Changed::of(x, beta, None, false))
        }
        Form::Update { half, conj, hermitian, twice } => {
            let first = hermitian == Some(Conjugated::First);
            let second = hermitian == Some(Conjugated::Second);
            let term = |alpha, (a, is_a): (Tiles, bool), (b, is_b): (Tiles, bool)| {
                let (a, b) = (Factor::plain(a, is_a != first), Factor::plain(b.transposed(), is_b != second));
                let term = Term { alpha, a, b };
                if half == Half::Upper { term.transposed() } else { term }
            };
            let other = if hermitian.is_some() { alpha.conjugate() } else { alpha };
            let mut terms = vec![term(alpha, (a, conj.0), (b, conj.1))];
            if twice {
                terms.push(term(other, (b, conj.1), (a, conj.0)));
            }
            update(place, &terms, Changed::of(x, beta, Some(half), hermitian.is_some()))
        }
        Form::Multiply(what) => triangle(place, (x, a), alpha, what, false),
        Form::Solve(what) => triangle(place, (x, a), alpha, what, true),
    }
}

fn scale(place: Place<'_>, changed: Changed) -> Result<Way> {
    let Place { program, speeds, makers, .. } = place;
    let Changed { c, beta, lower, hermitian, .. } = changed;
    let dtype = c.dtype(program);
    let (rows, cols) = c.tile(program);
    let extents = Extents { rows, cols, depth: 1, solves: false, pivoted: 0, transposed: (false, false) };
    let mut builder = Builder::on(program, makers, dtype, speeds, extents);
    let mut steps = Steps::new();
    let (mt, nt) = c.counts(builder.program);
    for i in 0..mt {
        for j in 0..if lower { (i + 1).min(nt) } else { nt } {
            let diagonal = changed.is_on_diagonal(i, j);
            if beta != Scalar::ZERO || diagonal {
                builder.begin(c, i, j);
            }
            let tile = c.at(builder.program, i, j);
            if diagonal && hermitian {
                steps.real(&mut builder, tile);
            }
            if beta != Scalar::ONE {
                steps.scale(&mut builder, tile, beta, diagonal);
            }
        }
    }
    let (m, n) = c.shape(builder.program);
    let elements = if lower { m * (m + 1) / 2 } else { m * n };
    let bytes = if beta == Scalar::ZERO { 0 } else { elements * dtype.size() as u64 };
    let remark = "C tile by tile".into();
    Ok(Way { remark, count: 1, frugal: true, lower_bound: (bytes as f64, "C once") })
}

fn product(place: Place<'_>, term: Term, changed: Changed) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let (c, a, b) = (changed.c, term.a.tiles, term.b.tiles);
    let ((rows, cols), (_, depth)) = (c.tile(program), a.tile(program));
    let transposed = (a.axes().is_transposed(), b.axes().is_transposed());
    let dtype = c.dtype(program);
    let extents = Extents { rows, cols, depth, solves: false, pivoted: 0, transposed };
    let mut builder = Builder::on(program, makers, dtype, speeds, extents);
    if term.a.mirror.is_some() || term.b.mirror.is_some() {
        let order = if term.a.mirror.is_some() { rows } else { cols };
        let own = kernels::gemm_workspace(dtype, rows as usize, cols as usize, depth as usize);
        let program = &mut *builder.program;
        program.workspace = program.workspace.max(own + blas_steps::copies(dtype, order, 0));
    }
    let program = &*builder.program;
    let ((mt, kt), (_, nt)) = (a.counts(program), b.counts(program));
    let (count, least) = (mt * nt * kt, [a, b, c].iter().map(|t| t.frame(program)).sum());
    let capacity = plan::capacity(runtime, program, count, speeds, least)?;
    let found = matmul::blocks(program, (c, a, b), capacity, super::candidates(count));
    let ways = super::with_the_least(runtime, found.into_iter(), capacity, least, count);
    let (p, q) = super::chosen(&ways, way);
    let mut blocks = Vec::new();
    for (number, i0) in (0..mt).step_by(p as usize).enumerate() {
        let mut starts: Vec<u64> = (0..nt).step_by(q as usize).collect();
        if number % 2 == 1 {
            starts.reverse();
        }
        blocks.extend(starts.into_iter().map(|j0| Block::whole(i0..(i0 + p).min(mt), j0..(j0 + q).min(nt))));
    }
    block_steps(&mut builder, &[term], changed, blocks.iter());
    Ok(Way {
        remark: format!("{p} x {q} tiles of C, each {rows} x {cols}, in memory"),
        count: ways.len(),
        frugal: (p, q) == (1, 1),
        lower_bound: matmul::lower_bound(runtime, builder.program, (a, b)),
    })
}

fn update(place: Place<'_>, terms: &[Term], changed: Changed) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let c = changed.c;
    let Term { a: Factor { tiles: a, .. }, b: Factor { tiles: b, .. }, .. } = terms[0];
    let ((side, _), (_, depth)) = (c.tile(program), a.tile(program));
    let transposed = (a.axes().is_transposed(), b.axes().is_transposed());
    let dtype = c.dtype(program);
    let extents = Extents { rows: side, cols: side, depth, solves: false, pivoted: 0, transposed };
    let mut builder = Builder::on(program, makers, dtype, speeds, extents);
    let program = &*builder.program;
    let half = HalfOf::factors(program, (c, a, b), terms.len() as u64);
    let capacity = plan::capacity(runtime, program, half.count(), speeds, half.least())?;
    let ways = half.ways(capacity, runtime.limit());
    let shape = super::chosen(&ways, way);
    let lower_bound = half.lower_bound(runtime.limit(), program, a);
    block_steps(&mut builder, terms, changed, shape.blocks(half.n).iter());
    Ok(Way {
        remark: format!("{shape} of C, each tile {side} x {side}, in memory"),
        count: ways.len(),
        frugal: shape == Shape::LEAST,
        lower_bound,
    })
}

/// Adds the steps for blocks of C, one after the other: each stays in memory, while slices of the factors pass.
fn block_steps<'b>(
    builder: &mut Builder<'_>,
    terms: &[Term],
    changed: Changed,
    blocks: impl Iterator<Item = &'b Block>,
) {
    let mut steps = Steps::new();
    let c = changed.c;
    let depth = terms[0].a.tiles.counts(builder.program).1;
    // The sum over k runs forward in every block: results must not depend on how blocks are cut.
    for block in blocks {
        for k in 0..depth {
            for term in terms {
                block.rows.iter().for_each(|&i| term.a.fetch(builder, i, k));
            }
            for &j in &block.cols {
                for term in terms {
                    let tile = term.b.at(builder, k, j).tile.tile;
                    let mut rows = terms.iter().flat_map(|t| block.rows.iter().map(move |&i| (t, i)));
                    if !rows.any(|(t, i)| t.a.at(builder, i, k).tile.tile == tile) {
                        term.b.fetch(builder, k, j);
                    }
                }
                // One product after the other: steps that follow each other change different tiles, and of what stands in
                // a column, one tile is in use.
                for (number, term) in terms.iter().enumerate() {
                    let is_last = k + 1 == depth && number + 1 == terms.len();
                    for i in block.rows_of(j) {
                        let diagonal = changed.is_on_diagonal(i, j);
                        let begun = k > 0 || number > 0;
                        let accumulate = begun || changed.begin(builder, &mut steps, i, j);
                        let (a, b) = (term.a.at(builder, i, k), term.b.at(builder, k, j));
                        let program = &*builder.program;
                        let tile = c.at(program, i, j);
                        let (factor, other) = (term.a.tiles, term.b.tiles);
                        let extents = (
                            factor.rows_of(program, i),
                            other.cols_of(program, j),
                            factor.cols_of(program, k),
                        );
                        // Of what is mirrored, the first product writes all of a tile.
                        let how = (accumulate, term.alpha, diagonal && (accumulate || !changed.mirrored));
                        steps.product(builder, (tile, a, b), how, extents);
                        if is_last && diagonal && changed.hermitian {
                            steps.real(builder, tile);
                        }
                    }
                }
            }
        }
        if changed.mirrored {
            changed.mirror(builder, block);
        }
    }
}

/// Adds `X = alpha T X`, or `X = alpha T^-1 X` if it `solves`.
fn triangle(
    place: Place<'_>,
    (x, t): (Tiles, Tiles),
    alpha: Scalar,
    what: Triangle,
    solves: bool,
) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let (side, width) = x.tile(program);
    let transposed = (t.axes().is_transposed(), x.axes().is_transposed());
    let extents = Extents { rows: side, cols: width, depth: side, solves, pivoted: 0, transposed };
    let dtype = x.dtype(program);
    let mut builder = Builder::on(program, makers, dtype, speeds, extents);
    if !solves {
        let own = kernels::gemm_workspace(dtype, side as usize, width as usize, side as usize);
        let program = &mut *builder.program;
        program.workspace = program.workspace.max(own + blas_steps::copies(dtype, side, width));
    }
    let ways = triangular::blocks(runtime, builder.program, t, x, speeds)?;
    let (p, w) = super::chosen(&ways, way);
    let mut steps = Steps::new();
    if solves {
        let mut begin = |builder: &mut Builder<'_>, (i, s): (u64, u64)| {
            builder.begin(x, i, s);
            if alpha != Scalar::ONE {
                let tile = x.at(builder.program, i, s);
                steps.scale(builder, tile, alpha, false);
            }
        };
        triangular::solve_steps(&mut builder, t, what, (x, Some(&mut begin)), (p, w));
    } else {
        multiply_steps(&mut builder, &mut steps, (x, t), (alpha, what), (p, w));
    }
    let ((n, _), (_, columns)) = (t.shape(builder.program), x.shape(builder.program));
    let size = dtype.size() as f64;
    let (n, columns) = (n as f64, columns as f64);
    let memory = (runtime.limit() as f64 / size).max(1.0);
    let (moved, once) = (n * n * columns / memory.sqrt() - 2.0 * memory, n * (n + 1.0) / 2.0 + n * columns);
    let lower_bound = if moved > once {
        (moved * size, "k^2 n/sqrt(M) - 2M elements, after Smith et al. 2017")
    } else {
        (once * size, "half of the triangle and B once")
    };
    Ok(Way {
        remark: format!("{p} x {w} tiles of B, each {side} x {width}, in memory"),
        count: ways.len(),
        frugal: (p, w) == (1, 1),
        lower_bound,
    })
}

/// A row of tiles is overwritten when no other one is made of it any more: downwards for an upper triangle.
fn multiply_steps(
    builder: &mut Builder<'_>,
    steps: &mut Steps,
    (x, t): (Tiles, Tiles),
    (alpha, what): (Scalar, Triangle),
    (p, w): (u64, u64),
) {
    let (n, m) = x.counts(builder.program);
    let row = |i: u64| if what.half == Half::Upper { i } else { n - 1 - i };
    let factor = Factor::plain(t, what.conj);
    for s0 in (0..m).step_by(w as usize) {
        let cols = s0..(s0 + w).min(m);
        for i0 in (0..n).step_by(p as usize) {
            let i1 = (i0 + p).min(n);
            for k in i0..n {
                if k < i1 {
                    cols.clone().for_each(|s| builder.begin(x, row(k), s));
                }
                for i in i0..k.min(i1) {
                    builder.fetch(t, row(i), row(k));
                    for s in cols.clone() {
                        // A row that is not this block's yet is as it was given.
                        let given = x.copied_from().filter(|_| k >= i1).unwrap_or(x);
                        if k >= i1 {
                            builder.fetch(given, row(k), s);
                        }
                        let program = &*builder.program;
                        let (tile, other) = (x.at(program, row(i), s), given.at(program, row(k), s));
                        let other = FactorTile { tile: other, conj: false, mirror: None };
                        let extents =
                            (x.rows_of(program, row(i)), x.cols_of(program, s), t.cols_of(program, row(k)));
                        let a = factor.at(builder, row(i), row(k));
                        steps.product(builder, (tile, a, other), (true, alpha, false), extents);
                    }
                }
                if k < i1 {
                    builder.fetch(t, row(k), row(k));
                    for s in cols.clone() {
                        let program = &*builder.program;
                        let tiles = (x.at(program, row(k), s), t.at(program, row(k), row(k)));
                        let extents = (x.rows_of(program, row(k)), x.cols_of(program, s));
                        steps.multiply(builder, tiles, alpha, what, extents);
                    }
                }
            }
        }
    }
}
