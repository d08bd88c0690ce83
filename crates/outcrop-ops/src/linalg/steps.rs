//! The steps of linear algebra: which kernel runs on which tiles.

use super::Makers;
use super::matrix::{Axes, Columns, MatrixTile, PART_BITS, Part, Tiles};
use super::rates::{self, Product};
use crate::kernels::lu::Stack;
use crate::kernels::{self, Block, Diagonal, Half, Operand, Scalar};
use outcrop_engine::plan::speeds::Speeds;
use outcrop_engine::program::{Kernel, Operand as Use, Program, Running, Tile};
use outcrop_store::io::Cancel;
use outcrop_store::{DType, Error, Failure, Result};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::Arc;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// `c = 0`.
    Zero,
    /// `c = a`.
    Copy,
    /// `c = a^H`.
    Adjoint,
    /// What is above the diagonal becomes what is below, transposed, or the adjoint of that.
    Mirror { hermitian: bool },
    /// `c` becomes a unit matrix.
    Unit,
    /// `c = alpha a b`, or `c += alpha a b`, of factors as they are or conjugated.
    Product { accumulate: bool, alpha: f64, conj: (bool, bool) },
    /// The lower half of `c -= a a^H`.
    Square,
    /// The lower half of `a` becomes its Cholesky factor, the other half zero.
    Factor,
    /// `x = t^-1 x`, or `x = x t^-T` where `right`; t as it is or conjugated.
    Solve { half: Half, diagonal: Diagonal, conj: bool, right: bool },
    /// The tiles of a column become its LU factorization, from the diagonal on, whose pivots are written, too. A pivot that
    /// is zero is an error where the matrix `has_to_be_regular`.
    Pivot { has_to_be_regular: bool },
    /// Rows are exchanged in the tiles of a column, as the pivots say that come after the tiles; `backwards`, these are
    /// taken back.
    Exchange { backwards: bool },
    /// Where rows come to be that pivots exchange.
    Permute,
}

/// The axes of the operands of a step, in their order.
pub(super) type OperandAxes = SmallVec<[Axes; 3]>;

/// A kernel of linear algebra, on matrices that lie so in their arrays.
struct MatrixKernel {
    dtype: DType,
    kind: Kind,
    /// Of a product of a tile with itself, which a step names once, three all the same.
    axes: OperandAxes,
}

/// Appends arrays and steps of linear algebra to a program.
pub(crate) struct Builder<'a> {
    pub program: &'a mut Program,
    makers: &'a dyn Makers,
    pub(super) dtype: DType,
    /// The kernels that have been declared.
    known: Vec<(Kind, OperandAxes, u16)>,
    /// Operations of a product in a second on one thread.
    pub(super) rate: f64,
}

/// The largest extents of the tiles of an operation's steps.
#[derive(Clone, Copy)]
pub(crate) struct Extents {
    /// Rows and columns of what a step changes.
    pub rows: u64,
    pub cols: u64,
    /// What is summed over.
    pub depth: u64,
    /// Whether triangular systems are solved, or blocks factored.
    pub solves: bool,
    /// Rows of what is factored with pivots, if anything is.
    pub pivoted: u64,
    /// Which of the factors of most of the products lie column by column.
    pub transposed: (bool, bool),
}

/// Rows and columns of products that are computed at once, at most: larger ones are hardly faster, and what packing them
/// takes belongs to the memory for tiles.
pub(super) const PART: usize = 512;

/// Rows and columns of parts are a multiple of this: of the registers that products are computed in.
const ALIGNED: usize = 32;

/// In the argument of an operand of a step, above its part: which of them it is. Those that are whole tiles have none, as
/// there are many steps.
const OPERAND: u32 = PART_BITS;

/// It lies in the tile that the step changes.
const IS_CHANGED: u64 = 1 << 62;

/// Rates of the kernels by which a step is slower than a product, roughly.
pub(super) const SQUARE_RATE: f64 = 0.85;
const SOLVE_RATE: f64 = 0.8;
const FACTOR_RATE: f64 = 0.5;
const PIVOT_RATE: f64 = 0.4;

impl<'a> Builder<'a> {
    /// Makes room for the workspace of such steps, and finds out how fast they are.
    pub(crate) fn on(
        program: &'a mut Program,
        makers: &'a dyn Makers,
        dtype: DType,
        speeds: Speeds,
        extents: Extents,
    ) -> Builder<'a> {
        let Extents { rows, cols, depth, solves, pivoted, transposed } = extents;
        let (m, n, k) = (rows as usize, cols as usize, depth as usize);
        // Triangles are as deep as products, and what is solved with them is as long as a tile.
        let order = k;
        // What has pivots is solved by its columns, as high as triangles.
        let sides = if pivoted > 0 { n } else { m.max(n) };
        // Products are computed in parts.
        let (rows, cols) = (m.min(PART), n.min(PART));
        let mut workspace = kernels::gemm_workspace(dtype, rows, cols, k);
        let mut beside =
            if kernels::is_floating(dtype) { kernels::packing_bytes(dtype, rows, cols, k) } else { 0 };
        if solves {
            let solve = kernels::solve_triangular_workspace(dtype, order, sides);
            let factor = kernels::cholesky_workspace(dtype, order);
            workspace = workspace.max(solve).max(factor);
            beside = beside.max(kernels::packing_bytes(dtype, order, sides, order));
        }
        if pivoted > 0 {
            workspace = workspace.max(kernels::lu::workspace(dtype, pivoted as usize, order.min(n)));
        }
        program.workspace = program.workspace.max(workspace);
        program.beside = program.beside.max(beside);
        let rate = rates::rate(Product { dtype, m, n, k, transposed }, speeds.threads);
        Builder { program, makers, dtype, known: Vec::new(), rate }
    }

    fn kernel(&mut self, kind: Kind, axes: OperandAxes) -> u16 {
        if let Some((.., number)) = self.known.iter().find(|known| (known.0, &known.1) == (kind, &axes)) {
            return *number;
        }
        let (name, part) = match kind {
            Kind::Zero => ("zero", 1.0),
            Kind::Copy | Kind::Adjoint => ("copy", 1.0),
            Kind::Mirror { .. } => ("mirror", 1.0),
            Kind::Unit => ("unit", 1.0),
            Kind::Product { .. } => ("gemm", 1.0),
            Kind::Square => ("herk", SQUARE_RATE),
            Kind::Factor => ("potrf", FACTOR_RATE),
            Kind::Solve { .. } => ("trsm", SOLVE_RATE),
            Kind::Pivot { .. } => ("getrf", PIVOT_RATE),
            Kind::Exchange { .. } => ("laswp", 1.0),
            Kind::Permute => ("permutation", 1.0),
        };
        let made = MatrixKernel { dtype: self.dtype, kind, axes: axes.clone() };
        let number = self.program.kernel(name, self.rate * part, Arc::new(made));
        self.known.push((kind, axes, number));
        number
    }

    fn step(&mut self, kind: Kind, axes: OperandAxes, operands: &[Use], work: f64) {
        let kernel = self.kernel(kind, axes);
        self.program.step(kernel, operands, &[], work);
    }

    /// Adds a step that changes the first of three tiles, or of two. A tile that is meant twice, or parts of one, are one
    /// operand; where a part is meant, or what is changed is read, too, arguments say so.
    fn step_on_parts(&mut self, kind: Kind, first: Use, tiles: &[MatrixTile], work: f64) {
        let mut operands: SmallVec<[Use; 3]> = smallvec![first];
        for (i, tile) in tiles.iter().enumerate().skip(1) {
            if tiles[..i].iter().all(|other| other.tile != tile.tile) {
                operands.push(Use::read(tile.tile));
            }
        }
        let is_changed = |i: usize| i > 0 && tiles[i].tile == tiles[0].tile;
        let arguments: SmallVec<[u64; 3]> = (0..tiles.len())
            .filter(|&i| tiles[i].part.is_some() || is_changed(i))
            .map(|i| {
                let place = if is_changed(i) { IS_CHANGED } else { 0 };
                place | (i as u64) << OPERAND | Part::encoded(tiles[i].part)
            })
            .collect();
        let kernel = self.kernel(kind, tiles.iter().map(|tile| tile.axes).collect());
        self.program.step(kernel, &operands, &arguments, work);
    }

    /// Operations of a multiplication and an addition.
    pub(super) fn pair(&self) -> f64 {
        if matches!(self.dtype, DType::C64 | DType::C128) { 8.0 } else { 2.0 }
    }

    pub(crate) fn zero(&mut self, c: MatrixTile) {
        self.step(Kind::Zero, smallvec![c.axes], &[Use::write(c.tile)], 0.0);
    }

    pub(crate) fn unit(&mut self, c: MatrixTile) {
        self.step(Kind::Unit, smallvec![c.axes], &[Use::write(c.tile)], 0.0);
    }

    pub(crate) fn mirror(&mut self, c: MatrixTile, hermitian: bool) {
        self.step(Kind::Mirror { hermitian }, smallvec![c.axes], &[Use::update(c.tile)], 0.0);
    }

    pub(crate) fn adjoint(&mut self, c: MatrixTile, a: MatrixTile) {
        self.copy(Kind::Adjoint, c, a);
    }

    pub(crate) fn transpose(&mut self, c: MatrixTile, a: MatrixTile) {
        self.copy(Kind::Copy, c, a.transposed());
    }

    fn copy(&mut self, kind: Kind, c: MatrixTile, a: MatrixTile) {
        self.step(kind, smallvec![c.axes, a.axes], &[Use::write(c.tile), Use::read(a.tile)], 0.0);
    }

    /// Makes a tile of an operand, if it has to be made, for the steps that follow.
    pub(crate) fn fetch(&mut self, matrix: Tiles, row: u64, col: u64) {
        if self.makers.make_tiles_of(matrix.array()) {
            let tile = matrix.at(self.program, row, col).tile;
            self.makers.make(self.program, tile);
        }
    }

    /// Makes or copies what a tile starts with, where it is to be made or copied.
    pub(crate) fn begin(&mut self, x: Tiles, row: u64, col: u64) {
        let Some(source) = x.copied_from() else { return self.fetch(x, row, col) };
        self.fetch(source, row, col);
        let (to, from) = (x.at(self.program, row, col), source.at(self.program, row, col));
        self.copy(Kind::Copy, to, from);
    }

    /// `extents` are the rows and columns of c, and the columns of a; `conj` says which of the factors count as their
    /// conjugates.
    pub(crate) fn product(
        &mut self,
        (c, a, b): (MatrixTile, MatrixTile, MatrixTile),
        (accumulate, alpha): (bool, f64),
        conj: (bool, bool),
        (m, n, k): (f64, f64, f64),
    ) {
        // What is written is written as a whole.
        debug_assert!(accumulate || c.part.is_none());
        let use_of_c = if accumulate { Use::update(c.tile) } else { Use::write(c.tile) };
        let kind = Kind::Product { accumulate, alpha, conj };
        self.step_on_parts(kind, use_of_c, &[c, a, b], self.pair() * m * n * k);
    }

    pub(crate) fn square(&mut self, c: MatrixTile, a: MatrixTile, n: f64, k: f64) {
        let operands = [Use::update(c.tile), Use::read(a.tile)];
        let work = self.pair() / 2.0 * n * (n + 1.0) * k;
        self.step(Kind::Square, smallvec![c.axes, a.axes], &operands, work);
    }

    pub(crate) fn factor(&mut self, a: MatrixTile, n: f64) {
        let work = self.pair() / 6.0 * n * n * n;
        self.step(Kind::Factor, smallvec![a.axes], &[Use::update(a.tile)], work);
    }

    /// Factors the tiles of column `k` of a matrix from the diagonal on, and writes its pivots, which stand in a row.
    pub(crate) fn pivot(&mut self, x: Columns, pivots: Columns, k: u64, has_to_be_regular: bool) {
        let program = &*self.program;
        let (rows, pivot) = (x.counts(program).0, pivots.at(program, 0, k).transposed());
        let mut operands = vec![Use::write(pivot.tile)];
        let tiles: Vec<_> =
            x.strips(program, k..rows).into_iter().map(|strip| x.high(program, strip, k).0).collect();
        operands.extend(tiles.iter().map(|tile| Use::update(tile.tile)));
        let (m, n) = ((k..rows).map(|i| x.rows_of(program, i)).sum::<f64>(), x.cols_of(program, k));
        let (least, most) = (m.min(n), m.max(n));
        let work = self.pair() / 2.0 * least * least * (most - least / 3.0);
        // Those above the diagonal stay as they are.
        let arguments = tiles[0].part.map(|_| Part::encoded(tiles[0].part));
        let kernel = self.kernel(Kind::Pivot { has_to_be_regular }, smallvec![pivot.axes, tiles[0].axes]);
        self.program.step(kernel, &operands, arguments.as_slice(), work);
    }

    /// Exchanges rows of a column of tiles, from the first row on of which pivots are taken.
    pub(crate) fn exchange(
        &mut self,
        (x, column): (Tiles, u64),
        (pivots, taken): (Columns, Range<u64>),
        backwards: bool,
    ) {
        if taken.is_empty() {
            return;
        }
        let program = &*self.program;
        let side = x.tile(program).0;
        let strips = x.strips(program, taken.start..x.counts(program).0);
        let tiles: Vec<_> = strips.into_iter().map(|strip| x.high(program, strip, column).0).collect();
        let mut operands: Vec<Use> = tiles.iter().map(|tile| Use::update(tile.tile)).collect();
        let pivot = pivots.at(program, 0, taken.start).transposed();
        operands.extend(taken.clone().map(|k| Use::read(pivots.at(program, 0, k).tile)));
        let first = Part::encoded(tiles[0].part);
        let arguments = [tiles.len() as u64, taken.start * side, side, first];
        let kernel = self.kernel(Kind::Exchange { backwards }, smallvec![x.axes(), pivot.axes]);
        self.program.step(kernel, &operands, &arguments, 0.0);
    }

    /// Writes where each row of a matrix is after the exchanges.
    pub(crate) fn permutation(&mut self, rows: Tiles, pivots: Tiles) {
        let program = &*self.program;
        let (count, taken) = (rows.counts(program).0, pivots.counts(program).0);
        let mut operands: Vec<Use> = (0..count).map(|i| Use::write(rows.at(program, i, 0).tile)).collect();
        operands.extend((0..taken).map(|k| Use::read(pivots.at(program, k, 0).tile)));
        let kernel = self.kernel(Kind::Permute, smallvec![rows.axes(), pivots.axes()]);
        self.program.step(kernel, &operands, &[count], 0.0);
    }

    /// `x` has `n` rows or columns along `t`, and `m` the other way.
    pub(crate) fn solve(&mut self, kind: Kind, x: MatrixTile, t: MatrixTile, n: f64, m: f64) {
        self.step_on_parts(kind, Use::update(x.tile), &[x, t], self.pair() / 2.0 * n * n * m);
    }
}

impl MatrixKernel {
    fn block(&self, operand: usize, tile: &Tile<'_>) -> Block {
        self.axes[operand].block(tile)
    }

    /// The blocks of tiles one below the other, of whose first one only a part may be meant.
    fn stack(&self, operand: usize, tiles: &[Tile<'_>], first: Option<Part>) -> Vec<Block> {
        let mut blocks: Vec<Block> = tiles.iter().map(|tile| self.block(operand, tile)).collect();
        if let Some(part) = first {
            blocks[0] = part.of(blocks[0], self.dtype.size());
        }
        blocks
    }

    /// Where a tile's first diagonal element is on the diagonal of its matrix.
    fn diagonal_start(&self, operand: usize, tile: &Tile<'_>) -> u64 {
        self.axes[operand].rows.map_or(0, |a| tile.region().start[a])
    }
}

/// A block as a factor, as it is or conjugated.
pub(super) fn factor_of(block: Block, conj: bool) -> Operand {
    Operand { block, conj }
}

impl Kernel for MatrixKernel {
    // SAFETY: what the caller promises is what the kernels below ask for.
    unsafe fn run(&self, step: Running<'_>) -> Result<()> {
        let Running { tiles, workspace, cancel, arguments, .. } = step;
        let (dtype, size) = (self.dtype, self.dtype.size());
        // A part of a tile where the arguments say so.
        let told = |i: usize| arguments.iter().copied().find(|argument| argument >> OPERAND & 3 == i as u64);
        let operand = |i: usize| {
            let argument = told(i).unwrap_or(0);
            let own = if argument & IS_CHANGED == 0 { tiles.get(i).unwrap_or(&tiles[1]) } else { &tiles[0] };
            let block = self.block(i, own);
            Part::decoded(argument).map_or(block, |part| part.of(block, size))
        };
        let c = self.block(0, &tiles[0]);
        let spans = |extent, work| spans(extent, work, dtype);
        // SAFETY, of every kernel below: the tiles are granted to the step, those that it writes to it
        // alone; a frame has room for its block; different tiles do not overlap.
        match self.kind {
            Kind::Zero => {
                let strides = [c.row_stride, c.col_stride].map(|s| s * dtype.size() as isize);
                let zero = [0u8; 16];
                // SAFETY: as above.
                unsafe {
                    outcrop_store::strided::fill(
                        c.start,
                        &strides,
                        &[c.rows as u64, c.cols as u64],
                        &zero[..dtype.size()],
                    );
                }
            }
            Kind::Unit => {
                // SAFETY: as above.
                unsafe { kernels::structured::unit(dtype, c) };
            }
            Kind::Mirror { hermitian } => {
                // SAFETY: as above.
                unsafe {
                    if hermitian {
                        kernels::structured::mirror_adjoint(dtype, c);
                    } else {
                        kernels::mirror(c, dtype.size());
                    }
                }
            }
            Kind::Copy | Kind::Adjoint => {
                let is_adjoint = self.kind == Kind::Adjoint;
                let a = self.block(1, &tiles[1]);
                let a = if is_adjoint { a.transposed() } else { a };
                let strides = |b: &Block| [b.row_stride, b.col_stride].map(|s| s * dtype.size() as isize);
                let shape = [c.rows as u64, c.cols as u64];
                // SAFETY: as above.
                unsafe {
                    outcrop_store::strided::copy(
                        c.start,
                        &strides(&c),
                        a.start,
                        &strides(&a),
                        &shape,
                        dtype.size(),
                    );
                }
                if is_adjoint {
                    // SAFETY: as above.
                    unsafe { kernels::structured::conjugate(dtype, c) };
                }
            }
            Kind::Product { accumulate, alpha, conj } => {
                let c = operand(0);
                let (a, b) = (factor_of(operand(1), conj.0), factor_of(operand(2), conj.1));
                // SAFETY: as above.
                unsafe { product(dtype, c, (accumulate, alpha.into()), a, b, workspace, cancel)? };
            }
            Kind::Square => {
                let a = self.block(1, &tiles[1]);
                for rows in spans(c.rows, 2 * c.cols * a.cols) {
                    cancel.check()?;
                    let (own, before) =
                        (a.part(rows.clone(), 0..a.cols, size), a.part(0..rows.start, 0..a.cols, size));
                    let left = c.part(rows.clone(), 0..rows.start, size);
                    let diagonal = c.part(rows.clone(), rows, size);
                    // SAFETY: as above.
                    unsafe {
                        kernels::gemm(dtype, left, true, -1.0, own.plain(), before.adjoint(), workspace);
                        kernels::gemm_half(
                            dtype,
                            Half::Lower,
                            diagonal,
                            true,
                            -1.0,
                            own.plain(),
                            own.adjoint(),
                            workspace,
                        );
                    }
                }
            }
            Kind::Factor => {
                for panel in spans(c.rows, c.rows * c.rows / 3) {
                    let (before, after) = (0..panel.start, panel.end..c.rows);
                    let own = c.part(panel.clone(), panel.clone(), size);
                    let below = c.part(after.clone(), panel.clone(), size);
                    let done = c.part(panel.clone(), before.clone(), size);
                    let beside = c.part(after, before, size);
                    // SAFETY: as above.
                    unsafe {
                        if done.cols > 0 {
                            let (a, b) = (done.plain(), done.adjoint());
                            kernels::gemm_half(dtype, Half::Lower, own, true, -1.0, a, b, workspace);
                            cancel.check()?;
                            kernels::gemm(dtype, below, true, -1.0, beside.plain(), b, workspace);
                            cancel.check()?;
                        }
                        let factored = kernels::cholesky(dtype, Half::Lower, own, workspace);
                        let first = self.diagonal_start(0, &tiles[0]) + panel.start as u64 + 1;
                        factored.map_err(|i| not_positive_definite(first + i as u64))?;
                        cancel.check()?;
                        let (half, stored, conjugated) =
                            (Half::Lower, Diagonal::Stored, factor_of(own, true));
                        let rows = below.transposed();
                        kernels::solve_triangular(dtype, half, stored, conjugated, rows, workspace);
                    }
                }
                let strides = [c.row_stride, c.col_stride].map(|s| s * dtype.size() as isize);
                let zero = [0u8; 16];
                for i in 0..c.rows.saturating_sub(1) {
                    let above = c.part(i..i + 1, i + 1..c.cols, dtype.size());
                    let shape = [1, above.cols as u64];
                    // SAFETY: as above.
                    unsafe {
                        outcrop_store::strided::fill(above.start, &strides, &shape, &zero[..dtype.size()])
                    };
                }
            }
            Kind::Solve { half, diagonal, conj, right } => {
                let (c, factor) = (operand(0), operand(1));
                let x = if right { c.transposed() } else { c };
                // The last tile on the diagonal of what is not square has more rows, or columns.
                let factor = factor.part(0..x.rows, 0..x.rows, size);
                // SAFETY: as above.
                let zero = unsafe { kernels::first_zero_diagonal(dtype, factor) };
                if let Some(i) = zero.filter(|_| diagonal == Diagonal::Stored) {
                    let part = told(1).and_then(Part::decoded);
                    let start = self.diagonal_start(1, &tiles[1]) + part.map_or(0, Part::start);
                    return Err(singular(start + i as u64 + 1));
                }
                for cols in spans(x.cols, x.rows * x.rows) {
                    cancel.check()?;
                    let x = x.part(0..x.rows, cols, size);
                    // SAFETY: as above.
                    unsafe {
                        let t = factor_of(factor, conj);
                        kernels::solve_triangular(dtype, half, diagonal, t, x, workspace);
                    }
                }
            }
            Kind::Pivot { has_to_be_regular } => {
                let first = arguments.first().and_then(|&argument| Part::decoded(argument));
                let blocks = self.stack(1, &tiles[1..], first);
                let mut found = vec![0; c.rows];
                let stack = Stack::new(&blocks, size);
                // SAFETY: as above.
                let remarkable = unsafe { kernels::lu(dtype, stack, &mut found, workspace, cancel)? };
                // Its first row is that on the diagonal.
                let row = row_of(self.axes[1], &tiles[1]) + first.map_or(0, Part::start) as usize;
                let index = |i: usize| (row + i) as u64 + 1;
                if let Some(i) = remarkable.not_finite {
                    return Err(not_finite(index(i)));
                }
                if let Some(i) = remarkable.zero.filter(|_| has_to_be_regular) {
                    return Err(singular_matrix(index(i), dtype));
                }
                for (i, pivot) in found.into_iter().enumerate() {
                    // SAFETY: as above, of the tile of pivots.
                    unsafe { entry::<i32>(&c, i).write((row + pivot) as i32) };
                }
            }
            Kind::Exchange { backwards } => {
                let (changed, pivots) = tiles.split_at(arguments[0] as usize);
                let blocks = self.stack(0, changed, Part::decoded(arguments[3]));
                let [_, top, side] = [0, 1, 2].map(|i| arguments[i] as usize);
                let bottom = top + blocks.iter().map(|block| block.rows).sum::<usize>();
                let stack = Stack::new(&blocks, size);
                let exchange = |(i, tile): (usize, &Tile<'_>)| {
                    let (taken, first) = (self.axes[1].block(tile), top + i * side);
                    // SAFETY: as above.
                    let pivot = |i: usize| unsafe { entry::<i32>(&taken, i).read() } as usize;
                    (0..taken.rows).try_for_each(|i| check_pivot(pivot(i), first + i..bottom))?;
                    let pivot = |i: usize| pivot(i) - top;
                    // SAFETY: as above.
                    unsafe { kernels::lu::exchange_rows(stack, first - top, taken.rows, pivot, backwards) };
                    cancel.check()
                };
                if backwards {
                    pivots.iter().enumerate().rev().try_for_each(exchange)?;
                } else {
                    pivots.iter().enumerate().try_for_each(exchange)?;
                }
            }
            Kind::Permute => {
                let (rows, pivots) = tiles.split_at(arguments[0] as usize);
                let blocks: Vec<Block> = rows.iter().map(|tile| self.axes[0].block(tile)).collect();
                let side = blocks[0].rows;
                let place = |row: usize| entry::<i64>(&blocks[row / side], row % side);
                let count: usize = blocks.iter().map(|block| block.rows).sum();
                // SAFETY: as above, for all places.
                (0..count).for_each(|row| unsafe { place(row).write(row as i64) });
                for tile in pivots.iter().rev() {
                    let (taken, first) = (self.axes[1].block(tile), row_of(self.axes[1], tile));
                    for i in (0..taken.rows).rev() {
                        // SAFETY: as above.
                        let other = unsafe { entry::<i32>(&taken, i).read() } as usize;
                        check_pivot(other, first + i..count)?;
                        // SAFETY: as above; both are rows.
                        unsafe { std::ptr::swap(place(first + i), place(other)) };
                    }
                }
            }
        }
        Ok(())
    }
}

/// The first row of a tile in its matrix.
fn row_of(axes: Axes, tile: &Tile<'_>) -> usize {
    axes.rows.map_or(0, |a| tile.region().start[a] as usize)
}

/// Pivots may be anybody's.
fn check_pivot(pivot: usize, rows: Range<usize>) -> Result<()> {
    if rows.contains(&pivot) {
        return Ok(());
    }
    let (row, last) = (rows.start, rows.end.saturating_sub(1));
    Err(Error::invalid(format!(
        "these are no pivots of an LU factorization: row {row} is exchanged with row {}, and not with one from {row} \
         to {last}",
        pivot as i32
    )))
}

/// Where a number of a column stands.
fn entry<T>(column: &Block, row: usize) -> *mut T {
    column.start.cast::<T>().wrapping_offset(row as isize * column.row_stride)
}

/// A product of tiles, in parts, between which an interrupt is noticed.
///
/// # Errors
/// [`Error::Interrupted`].
///
/// # Safety
/// As [`kernels::gemm`].
pub(super) unsafe fn product(
    dtype: DType,
    c: Block,
    how: (bool, Scalar),
    a: Operand,
    b: Operand,
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<()> {
    // SAFETY: as the caller vouches.
    unsafe { product_in_parts(dtype, c, how, a, b, workspace, || cancel.check()) }
}

/// A product in parts, before each of which `check` says whether to go on.
///
/// # Errors
/// Those of `check`.
///
/// # Safety
/// As [`kernels::gemm`].
pub(super) unsafe fn product_in_parts(
    dtype: DType,
    c: Block,
    (accumulate, alpha): (bool, Scalar),
    a: Operand,
    b: Operand,
    workspace: &mut [u8],
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let (depth, size) = (a.block.cols, dtype.size());
    for rows in parts(c.rows) {
        let a = Operand { block: a.block.part(rows.clone(), 0..depth, size), ..a };
        for cols in parts(c.cols) {
            check()?;
            let c = c.part(rows.clone(), cols.clone(), size);
            let b = Operand { block: b.block.part(0..depth, cols, size), ..b };
            // SAFETY: as the caller vouches.
            unsafe { kernels::gemm(dtype, c, accumulate, alpha, a, b, workspace) };
        }
    }
    Ok(())
}

/// Parts of an extent that are as long as each other, at most [`PART`]: they are not told from the memory there is, since
/// in the last bits of the result they may be seen.
pub(super) fn parts(extent: usize) -> impl Iterator<Item = Range<usize>> {
    let part = extent.div_ceil(extent.div_ceil(PART).max(1)).next_multiple_of(ALIGNED).max(1);
    (0..extent).step_by(part).map(move |start| start..(start + part).min(extent))
}

/// Spans of an extent, of which each index takes `work` operations on real numbers, so short that an interrupt
/// in between is soon noticed. They depend on nothing else, since in the last bits of the result they may be
/// seen.
pub(super) fn spans(extent: usize, work: usize, dtype: DType) -> impl Iterator<Item = Range<usize>> {
    let most = match dtype {
        DType::C64 | DType::C128 => 2_500_000_000,
        _ if kernels::is_floating(dtype) => 10_usize.pow(10),
        _ => 10_usize.pow(9),
    };
    let span = (most / work.max(1)).max(64) / 64 * 64;
    (0..extent).step_by(span).map(move |start| start..(start + span).min(extent))
}

pub(super) fn not_positive_definite(index: u64) -> Error {
    let what = format!(
        "the matrix is not positive definite: its leading minor of order {index} is not positive, or \
         there is NaN or infinity in its first {index} rows"
    );
    Error::Numerical { what, failure: Failure::NotPositiveDefinite, index }
}

fn not_finite(index: u64) -> Error {
    let what = format!("there is NaN or infinity in the first {index} columns of the matrix");
    Error::Numerical { what, failure: Failure::NotFinite, index }
}

/// Where rows and columns have been mixed, what is found in one may come from any other.
pub(super) fn not_finite_anywhere(index: u64) -> Error {
    let what = format!("there is NaN or infinity in the matrix, or in what it becomes at pivot {index}");
    Error::Numerical { what, failure: Failure::NotFinite, index }
}

fn singular_matrix(index: u64, dtype: DType) -> Error {
    let what = format!("the matrix is singular: pivot {index}, counted from 1, is exactly zero in {dtype}");
    Error::Numerical { what, failure: Failure::Singular, index }
}

pub(super) fn singular(index: u64) -> Error {
    let what = format!(
        "the triangular matrix is singular: element {index} of its diagonal, counted from 1, is zero"
    );
    Error::Numerical { what, failure: Failure::Singular, index }
}
