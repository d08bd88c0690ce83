//! Steps of factorizations of symmetric matrices, and of Hermitian ones, that are not definite.

use super::matrix::{Axes, MatrixTile, Tiles};
use super::steps::{Builder, OperandAxes, SQUARE_RATE, factor_of, not_finite_anywhere, product, spans};
use crate::kernels::ldl::{self, Around, Part, Stop};
use crate::kernels::{self, Block, Diagonal, Half};
use outcrop_engine::program::{Kernel, Operand as Use, Running, Tile};
use outcrop_store::{DType, Error, Failure, Result};
use smallvec::smallvec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Rows and columns are rotated with their partners: which of two times two parts there are, and which of them are
    /// transposed ones of the other half; of a matrix that is its own other half, three.
    Rotate { there: [bool; 4], turned: [bool; 4], half: bool },
    /// The lower half of `a` becomes L; D and the order of rows are written.
    Factor,
    /// `x = x P L^-H D^-1`.
    Solve,
    /// `c -= a D b^H`, or the lower half of that.
    Update { lower: bool },
    /// Rows get the order of those of L.
    Order,
    /// Whether L, D and rows are of one factorization, as far as a tile on the diagonal tells.
    Fit,
    /// What is done to right-hand sides between triangular systems.
    Around { what: Around, conj: bool },
}

/// A kernel on matrices that lie so in their arrays.
struct LdlKernel {
    dtype: DType,
    kind: Kind,
    hermitian: bool,
    axes: OperandAxes,
    growth: Arc<Growth>,
}

/// How large elements become while they are made those of L, row of tiles by row.
#[derive(Default)]
struct Growth(Mutex<HashMap<usize, RowSizes>>);

/// Of a row of tiles.
#[derive(Default)]
struct RowSizes {
    /// The largest element that it has at first.
    first: f64,
    /// The largest one that its tile on the diagonal has afterwards, and the least pivot by which it has become that.
    most: (f64, u64),
}

impl Growth {
    /// Takes in the largest element of a tile that nothing has been subtracted from yet.
    fn begin(&self, row: usize, size: f64) {
        self.change(row, |sizes| sizes.first = sizes.first.max(size));
    }

    /// Takes in that of the tile on the diagonal, by its first row.
    fn note(&self, row: usize, size: f64, pivot: u64) {
        self.change(row, |sizes| {
            if size > sizes.most.0 {
                sizes.most = (size, pivot);
            }
        });
    }

    /// Looks, when all has been subtracted from the tile on the diagonal, whether there is anything left of what it was.
    ///
    /// Then all tiles beside it have begun, so that it is the same whichever steps come first.
    fn check(&self, row: usize, dtype: DType) -> Result<()> {
        let (growth, pivot) = self.change(row, |sizes| (sizes.most.0 / sizes.first, sizes.most.1));
        if growth > most_growth(dtype) { Err(grown(pivot, growth)) } else { Ok(()) }
    }

    fn change<T>(&self, row: usize, change: impl FnOnce(&mut RowSizes) -> T) -> T {
        let mut sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(sizes.entry(row).or_default())
    }
}

/// Which rows are partners: a row with that so many rows further down, of all rows, and then of each of the two parts that
/// these make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partners {
    /// Rows of the matrix.
    pub n: u64,
    /// How far apart they are, first and then; zero where there are none.
    pub apart: [u64; 2],
}

impl Partners {
    /// The partner of a row; itself where it has none.
    fn of(self, level: usize, row: u64) -> u64 {
        let [first, second] = self.apart;
        let (start, end) = match (level, row >= first) {
            (0, _) => (0, self.n),
            (_, false) => (0, first.min(self.n)),
            (_, true) => (first, self.n),
        };
        let apart = if level == 0 { first } else { second };
        match row - start {
            _ if apart == 0 => row,
            at if at >= apart && at < 2 * apart => row - apart,
            at if at < apart && row + apart < end => row + apart,
            _ => row,
        }
    }
}

/// The tiles of a factor.
#[derive(Clone, Copy)]
pub(super) struct FactorTiles {
    /// L.
    pub l: MatrixTile,
    /// The diagonal of D, and what is below it.
    pub d: MatrixTile,
    /// The order of rows, and their partners.
    pub rows: MatrixTile,
}

/// Appends such steps to a program.
pub(super) struct Steps {
    hermitian: bool,
    growth: Arc<Growth>,
    /// The kernels that have been declared.
    known: Vec<(Kind, OperandAxes, u16)>,
}

/// Bytes of workspace for tiles of so many rows and columns, beside that of products.
pub(super) fn workspace(dtype: DType, order: u64) -> usize {
    let n = order as usize;
    ldl::workspace(dtype, n) + kernels::gemm_workspace(dtype, n, n, n)
}

/// Bytes of workspace for right-hand sides of so many rows.
pub(super) fn columns_workspace(dtype: DType, rows: u64) -> usize {
    2 * (rows as usize * dtype.size() + ALIGNED) + 3 * size_of::<i32>() * rows as usize
}

/// Copies begin at multiples of this.
const ALIGNED: usize = 64;

impl Steps {
    pub(super) fn new(hermitian: bool) -> Steps {
        Steps { hermitian, growth: Arc::default(), known: Vec::new() }
    }

    fn add(
        &mut self,
        builder: &mut Builder<'_>,
        kind: Kind,
        axes: OperandAxes,
        (operands, arguments): (&[Use], &[u64]),
        work: f64,
    ) {
        let known = self.known.iter().find(|known| (known.0, &known.1) == (kind, &axes));
        let kernel = match known {
            Some((.., number)) => *number,
            None => {
                let (name, part) = match kind {
                    Kind::Rotate { .. } => ("rotate", 0.05),
                    Kind::Factor => ("hetrf", 0.2),
                    Kind::Solve => ("trsm", 0.7),
                    Kind::Update { lower } => ("gemm", if lower { SQUARE_RATE } else { 1.0 }),
                    Kind::Order => ("laswp", 1.0),
                    Kind::Fit => ("check", 1.0),
                    Kind::Around { .. } => ("rotate rows", 0.05),
                };
                let made = LdlKernel {
                    dtype: builder.dtype,
                    kind,
                    hermitian: self.hermitian,
                    axes: axes.clone(),
                    growth: Arc::clone(&self.growth),
                };
                let number = builder.program.kernel(name, builder.rate * part, Arc::new(made));
                self.known.push((kind, axes, number));
                number
            }
        };
        builder.program.step(kernel, operands, arguments, work);
    }

    /// Rotates parts of a matrix, of two rows of tiles and two columns; a part is transposed if it is one of the other half.
    /// `start` are the first row and column.
    pub(super) fn rotate(
        &mut self,
        builder: &mut Builder<'_>,
        parts: [Option<(MatrixTile, bool)>; 4],
        half: bool,
        level: u64,
        start: (u64, u64),
        count: f64,
    ) {
        let (there, turned) = (parts.map(|part| part.is_some()), parts.map(|part| part.is_some_and(|p| p.1)));
        let tiles = || parts.into_iter().flatten().map(|(tile, _)| tile);
        let operands: Vec<Use> = tiles().map(|tile| Use::update(tile.tile)).collect();
        let kind = Kind::Rotate { there, turned, half };
        let work = builder.pair() * 4.0 * count;
        let arguments = [level, start.0, start.1];
        self.add(builder, kind, tiles().map(|tile| tile.axes).collect(), (&operands, &arguments), work);
    }

    /// Factors a tile on the diagonal, of order `n`.
    pub(super) fn factor(&mut self, builder: &mut Builder<'_>, t: FactorTiles, partners: Partners, n: f64) {
        let operands = [Use::update(t.l.tile), Use::write(t.d.tile), Use::write(t.rows.tile)];
        let arguments = [partners.n, partners.apart[0], partners.apart[1]];
        let axes = smallvec![t.l.axes, t.d.axes, t.rows.axes];
        let work = builder.pair() / 6.0 * n * n * n;
        self.add(builder, Kind::Factor, axes, (&operands, &arguments), work);
    }

    /// Makes a tile below one on the diagonal one of L; it has `m` rows, and `n` columns. `first` ones are as they were.
    pub(super) fn solve(
        &mut self,
        builder: &mut Builder<'_>,
        x: MatrixTile,
        t: FactorTiles,
        (m, n): (f64, f64),
        first: bool,
    ) {
        let operands =
            [Use::update(x.tile), Use::read(t.l.tile), Use::read(t.d.tile), Use::read(t.rows.tile)];
        let axes = smallvec![x.axes, t.l.axes, t.d.axes, t.rows.axes];
        let work = builder.pair() / 2.0 * n * n * m;
        self.add(builder, Kind::Solve, axes, (&operands, &[u64::from(first)]), work);
    }

    /// `c -= a D b^H`; of a product of a tile with itself, the lower half. `extents` are the rows and columns of c, and the
    /// columns of a. `turns` are whether it is the first
    /// and the last time for that tile, and whether a has been there before this program.
    pub(super) fn update(
        &mut self,
        builder: &mut Builder<'_>,
        (c, a, b, d): (MatrixTile, MatrixTile, MatrixTile, MatrixTile),
        (m, n, k): (f64, f64, f64),
        turns: [bool; 3],
    ) {
        let lower = a.tile == b.tile;
        let operands = [Use::update(c.tile), Use::read(d.tile), Use::read(a.tile), Use::read(b.tile)];
        // A product of a tile with itself names it once.
        let operands = &operands[..if lower { 3 } else { 4 }];
        let axes = smallvec![c.axes, d.axes, a.axes, b.axes];
        let part = if lower { 0.5 } else { 1.0 };
        let work = builder.pair() * m * n * k * part;
        self.add(builder, Kind::Update { lower }, axes, (operands, &turns.map(u64::from)), work);
    }

    /// Checks that parts of a factor fit each other.
    pub(super) fn fit(&mut self, builder: &mut Builder<'_>, t: FactorTiles) {
        let operands = [Use::read(t.l.tile), Use::read(t.d.tile), Use::read(t.rows.tile)];
        let axes = smallvec![t.l.axes, t.d.axes, t.rows.axes];
        self.add(builder, Kind::Fit, axes, (&operands, &[]), 0.0);
    }

    /// Brings the rows of a tile of L to the order of those of the tile on the diagonal.
    pub(super) fn order(&mut self, builder: &mut Builder<'_>, x: MatrixTile, rows: MatrixTile) {
        let operands = [Use::update(x.tile), Use::read(rows.tile)];
        self.add(builder, Kind::Order, smallvec![x.axes, rows.axes], (&operands, &[]), 0.0);
    }

    /// Rotates and orders the rows of a column of tiles, or divides them by D, of which `other` has the tiles.
    pub(super) fn around(
        &mut self,
        builder: &mut Builder<'_>,
        (x, column): (Tiles, u64),
        other: Tiles,
        what: Around,
        conj: bool,
    ) {
        let program = &*builder.program;
        let rows = x.counts(program).0;
        let mut operands: Vec<Use> = (0..rows).map(|i| Use::update(x.at(program, i, column).tile)).collect();
        operands.extend((0..other.counts(program).0).map(|i| Use::read(other.at(program, i, 0).tile)));
        let axes = smallvec![x.axes(), other.axes()];
        let (n, work) = (x.shape(program).0 as f64, builder.pair() * 8.0);
        let work = work * n * x.cols_of(builder.program, column);
        self.add(builder, Kind::Around { what, conj }, axes, (&operands, &[rows]), work);
    }
}

/// The rows of A that those of L are, by their number in the block, of a tile on the diagonal whose first row is `start`.
fn order_of(rows: &Block, start: usize) -> Result<Vec<usize>> {
    let n = rows.rows;
    let mut is_taken = vec![false; n];
    (0..n)
        .map(|i| {
            // SAFETY: the tile is granted to the step.
            let row = unsafe { entry(rows, i, 0).read() };
            let own = usize::try_from(row).ok().and_then(|row| row.checked_sub(start)).filter(|&row| row < n);
            match own {
                Some(own) if !std::mem::replace(&mut is_taken[own], true) => Ok(own),
                _ => Err(no_order(start + i, i64::from(row))),
            }
        })
        .collect()
}

/// Where a number stands.
fn entry(block: &Block, row: usize, col: usize) -> *mut i32 {
    let offset = row as isize * block.row_stride + col as isize * block.col_stride;
    block.start.cast::<i32>().wrapping_offset(offset)
}

/// The column of rows in which what D and L have there is sealed.
const SEAL: usize = 3;

/// A number that two rows of factorizations with other pivots hardly have in common: of that row of D, and of what is beside
/// the diagonal of L. It is the same in double precision. 0 where there is nothing to tell: in a tile's first row, whose
/// element of L is in another tile, and where D has no pivot.
///
/// # Safety
/// The tiles are granted to the step.
unsafe fn seal(dtype: DType, l: &Block, d: &Block, row: usize) -> i32 {
    if row == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let [before, own, below, beside] = unsafe {
        [(d, row - 1, 1), (d, row, 0), (d, row, 1), (l, row, row - 1)]
            .map(|(block, row, col)| single(dtype, block, row, col))
    };
    let zero = |number: [f32; 2]| number == [0.0; 2];
    if zero(before) && zero(own) && zero(below) {
        return 0;
    }
    let mut found = 0x811c_9dc5_u32;
    for number in [own, below, beside].into_iter().flatten() {
        // Zero is the same with either sign.
        found = (found ^ (number + 0.0).to_bits()).wrapping_mul(0x0100_0193).rotate_left(13);
    }
    (found | 1) as i32
}

/// The real and the imaginary part of an element, in single precision.
///
/// # Safety
/// The element is in memory that may be read.
unsafe fn single(dtype: DType, block: &Block, row: usize, col: usize) -> [f32; 2] {
    let offset = row as isize * block.row_stride + col as isize * block.col_stride;
    let at = |size: usize| block.start.wrapping_offset(offset * size as isize);
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::F32 => [at(4).cast::<f32>().read(), 0.0],
            DType::C64 => at(8).cast::<[f32; 2]>().read(),
            DType::C128 => at(16).cast::<[f64; 2]>().read().map(|part| part as f32),
            _ => [at(8).cast::<f64>().read() as f32, 0.0],
        }
    }
}

fn no_order(row: usize, found: i64) -> Error {
    Error::invalid(format!("these are not the rows of an LDL factorization: at row {row} there is {found}"))
}

impl LdlKernel {
    fn block(&self, operand: usize, tile: &Tile<'_>) -> Block {
        self.axes[operand].block(tile)
    }
}

/// The first row of a tile in its matrix.
fn row_of(axes: Axes, tile: &Tile<'_>) -> usize {
    axes.rows.map_or(0, |a| tile.region().start[a] as usize)
}

impl Kernel for LdlKernel {
    // SAFETY: what the caller promises is what the kernels below ask for.
    unsafe fn run(&self, step: Running<'_>) -> Result<()> {
        let Running { tiles, workspace, cancel, arguments, .. } = step;
        let (dtype, size, hermitian) = (self.dtype, self.dtype.size(), self.hermitian);
        // SAFETY, of every kernel below: the tiles are granted to the step, those that it writes to it alone; a frame
        // has room for its block; different tiles do not overlap, and the workspace is the step's.
        match self.kind {
            Kind::Rotate { there, turned, half } => {
                let mut next = 0;
                let parts = [0, 1, 2, 3].map(|i| {
                    there[i].then(|| {
                        next += 1;
                        Part { block: self.block(next - 1, &tiles[next - 1]), conj: turned[i] }
                    })
                });
                let [level, row, col] = [arguments[0], arguments[1], arguments[2]];
                let extent = |i: usize, along: fn(&Block) -> usize| parts[i].map_or(0, |p| along(&p.block));
                let angles = |first: u64, count: usize| -> Vec<(f64, f64)> {
                    (0..count as u64).map(|i| ldl::rotation(level, first + i)).collect()
                };
                let rows = angles(row, extent(2, |block| block.rows));
                let cols = if half { rows.clone() } else { angles(col, extent(1, |block| block.cols)) };
                let parts = [[parts[0], parts[1]], [parts[2], parts[3]]];
                cancel.check()?;
                // SAFETY: as above.
                unsafe { ldl::rotate(dtype, parts, half, hermitian, (&rows, &cols)) };
            }
            Kind::Factor => {
                let [a, d, rows] = [0, 1, 2].map(|i| self.block(i, &tiles[i]));
                let start = row_of(self.axes[0], &tiles[0]);
                let mut order = vec![0; a.rows];
                // SAFETY: as above.
                let stop = unsafe { ldl::factor(dtype, a, hermitian, d, &mut order, workspace, cancel)? };
                match stop {
                    Some(Stop::Zero(i)) => return Err(no_pivot((start + i) as u64 + 1)),
                    Some(Stop::NotFinite(i)) => return Err(not_finite_anywhere((start + i) as u64 + 1)),
                    None => {}
                }
                let partners = Partners { n: arguments[0], apart: [arguments[1], arguments[2]] };
                for (i, own) in order.into_iter().enumerate() {
                    let row = (start + i) as u64;
                    // SAFETY: as above.
                    let seal = unsafe { seal(dtype, &a, &d, i) };
                    let numbers = [(start + own) as u64, partners.of(0, row), partners.of(1, row)];
                    let values = numbers.into_iter().map(|number| number as i32).chain([seal]);
                    for (col, value) in values.enumerate() {
                        // SAFETY: as above.
                        unsafe { entry(&rows, i, col).write(value) };
                    }
                }
            }
            Kind::Solve => {
                let [x, t, d, rows] = [0, 1, 2, 3].map(|i| self.block(i, &tiles[i]));
                let order = order_of(&rows, row_of(self.axes[1], &tiles[1]))?;
                if arguments[0] == 1 {
                    // SAFETY: as above.
                    let size = unsafe { ldl::largest_part(dtype, x, false) };
                    self.growth.begin(row_of(self.axes[0], &tiles[0]), size);
                }
                // SAFETY: as above.
                unsafe { ldl::gathered(x.transposed(), size, &order, workspace) };
                for cols in spans(x.rows, x.cols * x.cols, dtype) {
                    cancel.check()?;
                    let part = x.part(cols, 0..x.cols, size);
                    // SAFETY: as above.
                    unsafe {
                        let (lower, unit, t) = (Half::Lower, Diagonal::Unit, factor_of(t, hermitian));
                        kernels::solve_triangular(dtype, lower, unit, t, part.transposed(), workspace);
                        ldl::divide(dtype, part, d, hermitian);
                    }
                }
            }
            Kind::Update { lower } => {
                let [c, d, a] = [0, 1, 2].map(|i| self.block(i, &tiles[i]));
                let b = if lower { a } else { self.block(3, &tiles[3]) };
                let (ad, workspace) = taken(workspace, a.rows, a.cols, size);
                let row = row_of(self.axes[0], &tiles[0]);
                if arguments[0] == 1 {
                    // SAFETY: as above.
                    self.growth.begin(row, unsafe { ldl::largest_part(dtype, c, lower) });
                }
                // SAFETY: as above.
                unsafe { ldl::multiply(dtype, ad, a, d, hermitian) };
                if lower && arguments[2] == 1 {
                    // What it was at first is not known here, and hardly less than that.
                    // SAFETY: as above.
                    self.growth.begin(row, unsafe { ldl::largest_part(dtype, ad, false) });
                }
                let of = |block: Block| factor_of(block.transposed(), hermitian);
                if !lower {
                    let alpha = (true, (-1.0).into());
                    // SAFETY: as above.
                    return unsafe { product(dtype, c, alpha, ad.plain(), of(b), workspace, cancel) };
                }
                for rows in spans(c.rows, 2 * c.cols * a.cols, dtype) {
                    cancel.check()?;
                    let own = ad.part(rows.clone(), 0..a.cols, size).plain();
                    let (beside, before) =
                        (a.part(rows.clone(), 0..a.cols, size), a.part(0..rows.start, 0..a.cols, size));
                    let left = c.part(rows.clone(), 0..rows.start, size);
                    let diagonal = c.part(rows.clone(), rows, size);
                    // SAFETY: as above.
                    unsafe {
                        kernels::gemm(dtype, left, true, -1.0, own, of(before), workspace);
                        kernels::gemm_half(
                            dtype,
                            Half::Lower,
                            diagonal,
                            true,
                            -1.0,
                            own,
                            of(beside),
                            workspace,
                        );
                    }
                }
                // SAFETY: as above.
                let (size, pivot) = unsafe { (ldl::largest_part(dtype, c, true), smallest_pivot(dtype, &d)) };
                self.growth.note(row, size, (row_of(self.axes[1], &tiles[1]) + pivot) as u64 + 1);
                if arguments[1] == 1 {
                    self.growth.check(row, dtype)?;
                }
            }
            Kind::Order => {
                let (x, rows) = (self.block(0, &tiles[0]), self.block(1, &tiles[1]));
                let order = order_of(&rows, row_of(self.axes[1], &tiles[1]))?;
                // SAFETY: as above.
                unsafe { ldl::gathered(x, size, &order, workspace) };
            }
            Kind::Fit => {
                let [l, d, rows] = [0, 1, 2].map(|i| self.block(i, &tiles[i]));
                let start = row_of(self.axes[0], &tiles[0]);
                for i in 1..l.rows {
                    // SAFETY: as above.
                    let (own, sealed) = unsafe { (seal(dtype, &l, &d, i), entry(&rows, i, SEAL).read()) };
                    if sealed != 0 && own != sealed {
                        return Err(Error::invalid(format!(
                            "L, D and rows of an LDL factorization do not fit each other, at row {}: they were \
                             computed apart; pivots depend on tiles, so compute or save them together",
                            start + i
                        )));
                    }
                }
            }
            Kind::Around { what, conj } => {
                let (changed, others) = tiles.split_at(arguments[0] as usize);
                let blocks: Vec<Block> = changed.iter().map(|tile| self.axes[0].block(tile)).collect();
                let others: Vec<Block> = others.iter().map(|tile| self.axes[1].block(tile)).collect();
                let n: usize = blocks.iter().map(|block| block.rows).sum();
                cancel.check()?;
                if what == Around::Between {
                    let (none, conj) = ((&[][..], [&[][..]; 2]), (hermitian, conj));
                    // SAFETY: as above.
                    let done =
                        unsafe { ldl::around_columns(dtype, what, &blocks, &others, none, conj, workspace) };
                    return done.map_err(|i| no_pivot(i as u64 + 1));
                }
                let (mut numbers, workspace) = rows_in(workspace, n);
                let [order, first, second] = &mut numbers;
                // SAFETY: as above.
                let number = |block: &Block, i: usize, col: usize| unsafe { entry(block, i, col).read() };
                let read = |col: usize| {
                    others.iter().flat_map(move |block| (0..block.rows).map(move |i| number(block, i, col)))
                };
                read(0).zip(order.iter_mut()).for_each(|(from, to)| *to = from);
                read(1).zip(first.iter_mut()).for_each(|(from, to)| *to = from);
                read(2).zip(second.iter_mut()).for_each(|(from, to)| *to = from);
                check_rows(order, [first, second])?;
                let rows = (&**order, [&**first, &**second]);
                // SAFETY: as above.
                let done = unsafe {
                    ldl::around_columns(dtype, what, &blocks, &[], rows, (hermitian, conj), workspace)
                };
                done.map_err(|i| no_pivot(i as u64 + 1))?;
            }
        }
        Ok(())
    }
}

/// Three rows of numbers in the workspace, and what is left of that.
fn rows_in(workspace: &mut [u8], n: usize) -> ([&mut [i32]; 3], &mut [u8]) {
    let skip = workspace.as_ptr().align_offset(ALIGNED);
    let (own, rest) = workspace[skip..].split_at_mut(3 * n * size_of::<i32>());
    // SAFETY: bytes have no invalid values, nor have these numbers.
    let (_, numbers, _) = unsafe { own.align_to_mut::<i32>() };
    let (first, others) = numbers.split_at_mut(n);
    let (second, third) = others.split_at_mut(n);
    ([first, second, third], rest)
}

/// Rows may be anybody's: each has to be there once, and partners have to be each other's.
fn check_rows(order: &[i32], partners: [&[i32]; 2]) -> Result<()> {
    let n = order.len();
    let mut is_taken = vec![false; n];
    for (i, &row) in order.iter().enumerate() {
        let own = usize::try_from(row).ok().filter(|&row| row < n);
        if own.is_none_or(|own| std::mem::replace(&mut is_taken[own], true)) {
            return Err(no_order(i, row.into()));
        }
    }
    for partner in partners {
        for (i, &row) in partner.iter().enumerate() {
            let own = usize::try_from(row).ok().and_then(|row| partner.get(row));
            if own.is_none_or(|&back| back as usize != i) {
                return Err(no_order(i, row.into()));
            }
        }
    }
    Ok(())
}

/// A block in the workspace, and what is left of that.
fn taken(workspace: &mut [u8], rows: usize, cols: usize, itemsize: usize) -> (Block, &mut [u8]) {
    let skip = workspace.as_ptr().align_offset(ALIGNED);
    let (own, rest) = workspace[skip..].split_at_mut(rows * cols * itemsize);
    (Block::row_major(own.as_mut_ptr(), rows, cols, cols), rest)
}

/// How many times as large elements may become by one column of tiles: half of all digits stay right then, and whoever
/// refines a solution gets the others.
fn most_growth(dtype: DType) -> f64 {
    let epsilon = if matches!(dtype, DType::F32 | DType::C64) { f32::EPSILON.into() } else { f64::EPSILON };
    epsilon.sqrt().recip()
}

/// The row of D with the smallest pivot.
///
/// # Safety
/// The tile is granted to the step.
unsafe fn smallest_pivot(dtype: DType, d: &Block) -> usize {
    let size = |row: usize| {
        let beside = row.saturating_sub(1);
        // SAFETY: the caller's promise.
        let parts = unsafe { [(row, 0), (row, 1), (beside, 1)].map(|(i, j)| single(dtype, d, i, j)) };
        parts.into_iter().flatten().fold(0.0, |most: f32, part| most.max(part.abs()))
    };
    (0..d.rows).min_by(|&i, &j| size(i).total_cmp(&size(j))).unwrap_or(0)
}

fn grown(index: u64, growth: f64) -> Error {
    let what = format!(
        "the matrix cannot be factored so: elements grow {growth:.0e} times by pivot {index}, counted from 1, which is \
         next to zero; solve(..., assume=\"sym\") or \"her\" solves such systems by LU"
    );
    Error::Numerical { what, failure: Failure::Singular, index }
}

fn no_pivot(index: u64) -> Error {
    let what =
        format!("the matrix is singular, or cannot be factored so: pivot {index}, counted from 1, is zero");
    Error::Numerical { what, failure: Failure::Singular, index }
}
