//! The factorization `P^T A P = L D L^T` of a symmetric matrix, or `P^T A P = L D L^H` of a Hermitian one, in memory, and what
//! goes with it: D, which has blocks of one and of two on its diagonal, and rotations of rows and columns.
//!
//! Pivots are those of Bunch and Kaufman, found in panels as LAPACK's `lasyf` finds them, so that most of the work is
//! products.

use super::float::{Float, at, copy};
use super::{Block, Half, Scalar, gemm_half, with_float};
use faer::{c32, c64};
use outcrop_store::io::Cancel;
use outcrop_store::{DType, Result};

/// Columns of a panel.
const PANEL: usize = 32;

/// Copies begin at multiples of this.
const ALIGNED: usize = 64;

/// Rows or columns that are copied at once.
const STRIP: usize = 32;

/// From which part of the largest element of its column on a diagonal element is a pivot: (1 + sqrt(17)) / 8.
const ALPHA: f64 = 0.640_388_203_202_208;

/// Bytes of workspace that [`factor`] needs, of which products may have what is left.
pub fn workspace(dtype: DType, order: usize) -> usize {
    (order * (order + PANEL)) * dtype.size() + 3 * ALIGNED
}

/// Bytes of workspace of [`gathered`] for rows or columns so long.
pub fn gather_workspace(dtype: DType, order: usize) -> usize {
    order * STRIP * dtype.size() + ALIGNED
}

/// What stops a factorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There is nothing but zeros in this column, from the diagonal on.
    Zero(usize),
    /// There is NaN or infinity in this one.
    NotFinite(usize),
}

/// The block D of the pivot that begins in a row; the element below the diagonal is zero if it is of one.
#[derive(Clone, Copy)]
struct Pivot<T> {
    a: T,
    b: T,
    c: T,
    hermitian: bool,
}

impl<T: Float> Pivot<T> {
    /// The one in a row of D, of which the first column is the diagonal and the second one what is below it.
    ///
    /// # Safety
    /// Both columns are valid for reads.
    unsafe fn of(d: &Block, row: usize, hermitian: bool, conj: bool) -> Option<Pivot<T>> {
        // SAFETY: as the caller vouches.
        let (a, b) = unsafe { (at::<T>(d, row, 0).read(), at::<T>(d, row, 1).read()) };
        if b == T::ZERO || row + 1 == d.rows {
            return None;
        }
        // SAFETY: as the caller vouches.
        let c = unsafe { at::<T>(d, row + 1, 0).read() };
        Some(Pivot { a, b: if conj { b.conjugate() } else { b }, c, hermitian })
    }

    /// The element above the diagonal.
    fn above(&self) -> T {
        mirrored(self.b, self.hermitian)
    }

    /// `[x y] D`.
    fn times(&self, x: T, y: T) -> (T, T) {
        (sum(x * self.a, y * self.b), sum(x * self.above(), y * self.c))
    }

    /// The numbers that solutions have in common: c / b, a / b', and 1 / (ac / bb' - 1).
    fn parts(&self) -> (T, T, T) {
        let (p, q) = (self.c.over(self.b), self.a.over(self.above()));
        let one = T::scalar(Scalar::ONE);
        let mut determinant = p * q;
        determinant -= one;
        (p, q, one.over(determinant))
    }

    /// `[x y] D^-1`.
    fn solve_rows(&self, (p, q, t): (T, T, T), x: T, y: T) -> (T, T) {
        let (above, below) = (self.above(), self.b);
        ((t * difference(x * p, y)).over(above), (t * difference(y * q, x)).over(below))
    }

    /// `D^-1 [x y]^T`.
    fn solve_columns(&self, (p, q, t): (T, T, T), x: T, y: T) -> (T, T) {
        let (x, y) = (x.over(self.above()), y.over(self.b));
        (t * difference(p * x, y), t * difference(q * y, x))
    }
}

fn sum<T: Float>(mut x: T, y: T) -> T {
    x += y;
    x
}

fn difference<T: Float>(mut x: T, y: T) -> T {
    x -= y;
    x
}

/// The element on the other side of the diagonal.
#[inline(always)]
fn mirrored<T: Float>(x: T, hermitian: bool) -> T {
    if hermitian { x.conjugate() } else { x }
}

/// Factors the matrix whose lower half is in `a`, in its place: L, with ones on and zeros beyond its diagonal. `d` gets the
/// diagonal of D and what is below it, `order` the row of A that each row of L is.
///
/// # Errors
/// [`outcrop_store::Error::Interrupted`].
///
/// # Panics
/// Where the workspace is smaller than [`workspace`] says.
///
/// # Safety
/// As [`super::gemm`], with the lower half of `a` read, all of it written, and `d` written, which has two columns.
pub unsafe fn factor(
    dtype: DType,
    a: Block,
    hermitian: bool,
    d: Block,
    order: &mut [usize],
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<Option<Stop>> {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { factored::<T>(dtype, a, hermitian, d, order, workspace, cancel) })
}

/// A block whose columns are contiguous, at the beginning of the workspace, and the rest of that.
fn columns_in(workspace: &mut [u8], rows: usize, cols: usize, itemsize: usize) -> (Block, &mut [u8]) {
    let skip = workspace.as_ptr().align_offset(ALIGNED);
    let (own, rest) = workspace[skip..].split_at_mut(rows * cols * itemsize);
    (Block::row_major(own.as_mut_ptr(), cols, rows, rows).transposed(), rest)
}

/// # Safety
/// As [`factor`].
unsafe fn factored<T: Float>(
    dtype: DType,
    a: Block,
    hermitian: bool,
    d: Block,
    order: &mut [usize],
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<Option<Stop>> {
    let (n, size) = (a.rows, size_of::<T>());
    order.iter_mut().enumerate().for_each(|(i, row)| *row = i);
    let (x, workspace) = columns_in(workspace, n, n, size);
    let (w, workspace) = columns_in(workspace, n, PANEL, size);
    // SAFETY: as the caller vouches; the copy is ours.
    unsafe { copy(x, a, size) };
    if hermitian {
        // SAFETY: on the diagonal of the copy.
        (0..n).for_each(|i| unsafe { *at::<T>(&x, i, i) = at::<T>(&x, i, i).read().real_part() });
    }
    let mut panels = Panels { x, w, d, order, hermitian, first: 0 };
    let mut k = 0;
    while k < n {
        cancel.check()?;
        // SAFETY: as the caller vouches.
        let next = match unsafe { panels.panel::<T>(k) } {
            Ok(next) => next,
            Err(stop) => return Ok(Some(stop)),
        };
        let rest = x.part(next..n, next..n, size);
        let (l, own) = (x.part(next..n, k..next, size), w.part(next..n, 0..next - k, size));
        let factor = super::Operand { block: own.transposed(), conj: hermitian };
        // SAFETY: as the caller vouches; the blocks are apart.
        unsafe { gemm_half(dtype, Half::Lower, rest, true, -1.0, l.plain(), factor, workspace) };
        k = next;
    }
    for j in 0..n {
        // SAFETY: the copy is ours.
        unsafe {
            (0..j).for_each(|i| at::<T>(&x, i, j).write(T::ZERO));
            at::<T>(&x, j, j).write(T::scalar(Scalar::ONE));
        }
    }
    // SAFETY: as the caller vouches.
    unsafe { copy(a, x, size) };
    Ok(None)
}

/// A factorization by panels, of a copy of the matrix whose columns are contiguous.
struct Panels<'a> {
    /// What is factored.
    x: Block,
    /// Columns of L D of the panel.
    w: Block,
    d: Block,
    order: &'a mut [usize],
    hermitian: bool,
    /// Where the panel begins.
    first: usize,
}

impl Panels<'_> {
    /// Factors the columns of a panel, and says where the next one begins.
    ///
    /// # Safety
    /// All blocks have elements of this type, and are nobody else's.
    unsafe fn panel<T: Float>(&mut self, first: usize) -> std::result::Result<usize, Stop> {
        self.first = first;
        let n = self.x.rows;
        let mut k = first;
        // The last column of a panel may be the first one of two.
        while k < n && k + 1 < first + PANEL {
            // SAFETY: as the caller vouches.
            k += unsafe { self.pivot::<T>(k)? };
        }
        Ok(k)
    }

    /// The elements of a column of W, of which the first is that of row `k`.
    ///
    /// # Safety
    /// As [`Panels::panel`].
    unsafe fn own<'a, T>(&self, col: usize, k: usize) -> &'a mut [T] {
        // SAFETY: as the caller vouches: columns are contiguous.
        unsafe { std::slice::from_raw_parts_mut(at::<T>(&self.w, k, col - self.first), self.x.rows - k) }
    }

    /// Brings a column, from row `k` on, up to date in one of W: what the columns of the panel take from it.
    ///
    /// # Safety
    /// As [`Panels::panel`].
    unsafe fn update<T: Float>(&mut self, row: usize, k: usize, to: usize) -> std::result::Result<(), Stop> {
        let (n, x) = (self.x.rows, self.x);
        // SAFETY: as the caller vouches; the columns are apart.
        unsafe {
            let own = self.own::<T>(to, k);
            for i in k..row {
                own[i - k] = mirrored(at::<T>(&x, row, i).read(), self.hermitian);
            }
            own[row - k..].copy_from_slice(std::slice::from_raw_parts(at::<T>(&x, row, row), n - row));
            for p in self.first..k {
                let scale = mirrored(at::<T>(&self.w, row, p - self.first).read(), self.hermitian);
                super::lu::subtract_scaled(own, std::slice::from_raw_parts(at::<T>(&x, k, p), n - k), scale);
            }
            if self.hermitian {
                own[row - k] = own[row - k].real_part();
            }
            let is_finite = own.iter().all(|value| value.magnitude().is_finite());
            if is_finite { Ok(()) } else { Err(Stop::NotFinite(k)) }
        }
    }

    /// Factors the next column, or two, and says how many.
    ///
    /// # Safety
    /// As [`Panels::panel`].
    unsafe fn pivot<T: Float>(&mut self, k: usize) -> std::result::Result<usize, Stop> {
        let n = self.x.rows;
        // SAFETY: as the caller vouches.
        unsafe {
            self.update::<T>(k, k, k)?;
            let own = self.own::<T>(k, k);
            let diagonal = own[0].magnitude();
            let (row, most) = largest(&own[1..]).map_or((k, 0.0), |(i, size)| (k + 1 + i, size));
            if diagonal.max(most) == 0.0 {
                return Err(Stop::Zero(k));
            }
            let (mut other, mut count) = (k, 1);
            if diagonal < ALPHA * most {
                self.update::<T>(row, k, k + 1)?;
                let beside = self.own::<T>(k + 1, k);
                let parts = [&beside[..row - k], &beside[row - k + 1..]];
                let across =
                    parts.iter().filter_map(|part| largest(part)).fold(0.0, |x, (_, size)| size.max(x));
                if diagonal * across < ALPHA * most * most {
                    other = row;
                    if beside[row - k].magnitude() >= ALPHA * across {
                        own.copy_from_slice(beside);
                    } else {
                        count = 2;
                    }
                }
            }
            self.exchange::<T>(k + count - 1, other, k);
            if count == 1 {
                let pivot = own[0];
                at::<T>(&self.d, k, 0).write(pivot);
                at::<T>(&self.d, k, 1).write(T::ZERO);
                for (i, &value) in own.iter().enumerate().skip(1) {
                    at::<T>(&self.x, k + i, k).write(value.over(pivot));
                }
                return Ok(1);
            }
            let beside = self.own::<T>(k + 1, k);
            at::<T>(&self.d, k, 0).write(own[0]);
            at::<T>(&self.d, k, 1).write(own[1]);
            at::<T>(&self.d, k + 1, 0).write(beside[1]);
            at::<T>(&self.d, k + 1, 1).write(T::ZERO);
            let block = Pivot { a: own[0], b: own[1], c: beside[1], hermitian: self.hermitian };
            let parts = block.parts();
            at::<T>(&self.x, k + 1, k).write(T::ZERO);
            for i in 2..n - k {
                let (one, two) = block.solve_rows(parts, own[i], beside[i]);
                at::<T>(&self.x, k + i, k).write(one);
                at::<T>(&self.x, k + i, k + 1).write(two);
            }
            Ok(2)
        }
    }

    /// Exchanges two rows and columns, of which `own` is one of those that become L, from `k` on.
    ///
    /// # Safety
    /// As [`Panels::panel`].
    unsafe fn exchange<T: Float>(&mut self, own: usize, other: usize, k: usize) {
        if other <= own {
            return;
        }
        let (n, x, w, hermitian) = (self.x.rows, self.x, self.w, self.hermitian);
        self.order.swap(own, other);
        // SAFETY: as the caller vouches.
        unsafe {
            // What is in W of the column that comes here is not needed of the matrix.
            at::<T>(&x, other, other).write(at::<T>(&x, own, own).read());
            for i in own + 1..other {
                at::<T>(&x, other, i).write(mirrored(at::<T>(&x, i, own).read(), hermitian));
            }
            for i in other + 1..n {
                at::<T>(&x, i, other).write(at::<T>(&x, i, own).read());
            }
            (0..k).for_each(|j| std::ptr::swap(at::<T>(&x, own, j), at::<T>(&x, other, j)));
            for j in 0..=own - self.first {
                std::ptr::swap(at::<T>(&w, own, j), at::<T>(&w, other, j));
            }
        }
    }
}

/// The first of the largest elements, if there are any.
fn largest<T: Float>(values: &[T]) -> Option<(usize, f64)> {
    let mut found: Option<(usize, f64)> = None;
    for (i, value) in values.iter().enumerate() {
        let size = value.magnitude();
        if found.is_none_or(|(_, most)| size > most) {
            found = Some((i, size));
        }
    }
    found
}

/// The largest real or imaginary part of a block's elements, or of those on and below its diagonal, without its sign. NaN
/// is left out.
///
/// # Safety
/// The elements are valid for reads, and written by nobody meanwhile.
pub unsafe fn largest_part(dtype: DType, x: Block, half: bool) -> f64 {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { largest_part_of::<T>(x, half) })
}

/// # Safety
/// As [`largest_part`].
unsafe fn largest_part_of<T: Float>(x: Block, half: bool) -> f64 {
    // Rows of the transposed block are columns, from the diagonal on.
    let (x, is_turned) = if x.row_stride == 1 { (x.transposed(), true) } else { (x, false) };
    let mut found = 0.0f64;
    for row in 0..x.rows {
        let cols = match (half, is_turned) {
            (false, _) => 0..x.cols,
            (true, false) => 0..x.cols.min(row + 1),
            (true, true) => row.min(x.cols)..x.cols,
        };
        // SAFETY: as the caller vouches.
        let own = unsafe {
            if x.col_stride == 1 {
                farthest(std::slice::from_raw_parts(at::<T>(&x, row, cols.start), cols.len()))
            } else {
                cols.fold(0.0, |most: f64, col| most.max(at::<T>(&x, row, col).read().magnitude()))
            }
        };
        found = found.max(own);
    }
    found
}

/// The magnitude of the largest value; several at a time, as processors have it.
fn farthest<T: Float>(values: &[T]) -> f64 {
    let mut most = [0.0f64; 8];
    let take = |most: &mut f64, value: &T| {
        let size = value.magnitude();
        if size > *most {
            *most = size;
        }
    };
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        most.iter_mut().zip(chunk).for_each(|(most, value)| take(most, value));
    }
    most.iter_mut().zip(rest).for_each(|(most, value)| take(most, value));
    most.into_iter().fold(0.0, f64::max)
}

/// Gives rows, or columns of the transposed block, another order: the first is that of this number, and so on.
///
/// # Panics
/// Where the workspace is smaller than [`gather_workspace`] says.
///
/// # Safety
/// All elements are `itemsize` bytes, valid for reads and writes, and nobody else's.
pub unsafe fn gathered(x: Block, itemsize: usize, order: &[usize], workspace: &mut [u8]) {
    for start in (0..x.cols).step_by(STRIP) {
        let part = x.part(0..x.rows, start..x.cols.min(start + STRIP), itemsize);
        let (taken, _) = columns_in(workspace, part.cols, part.rows, itemsize);
        let taken = taken.transposed();
        // SAFETY: as the caller vouches.
        unsafe {
            copy(taken, part, itemsize);
            for (row, &from) in order.iter().enumerate() {
                copy(
                    part.part(row..row + 1, 0..part.cols, itemsize),
                    taken.part(from..from + 1, 0..part.cols, itemsize),
                    itemsize,
                );
            }
        }
    }
}

/// `to = x D`.
///
/// # Safety
/// As [`super::gemm`], with `x` and `d` read and `to` written.
pub unsafe fn multiply(dtype: DType, to: Block, x: Block, d: Block, hermitian: bool) {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe {
        by_columns::<T, _>(to, x, d, hermitian, |x, a| x * a, |block, (), x, y| block.times(x, y), |_| ());
    });
}

/// `x = x D^-1`. There is no zero in D.
///
/// # Safety
/// As [`super::gemm`], with `d` read and `x` read and written.
pub unsafe fn divide(dtype: DType, x: Block, d: Block, hermitian: bool) {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe {
        let solve = |block: &Pivot<T>, parts, x, y| block.solve_rows(parts, x, y);
        by_columns::<T, _>(x, x, d, hermitian, |x, a| x.over(a), solve, |block| block.parts());
    });
}

/// A column, with the element of D on its diagonal; and the block that begins there, if it is of two, with what is computed of
/// it once.
type Own<T, P> = (usize, T, Option<(Pivot<T>, P)>);

/// # Safety
/// As [`multiply`]; both blocks may be the same.
unsafe fn by_columns<T: Float, P: Copy>(
    to: Block,
    x: Block,
    d: Block,
    hermitian: bool,
    one: impl Fn(T, T) -> T,
    two: impl Fn(&Pivot<T>, P, T, T) -> (T, T),
    parts: impl Fn(&Pivot<T>) -> P,
) {
    // SAFETY: as the caller vouches.
    unsafe {
        let mut blocks: Vec<Own<T, P>> = Vec::with_capacity(x.cols);
        let mut k = 0;
        while k < x.cols {
            let pivot = Pivot::<T>::of(&d, k, hermitian, false);
            blocks.push((k, at::<T>(&d, k, 0).read(), pivot.map(|pivot| (pivot, parts(&pivot)))));
            k += if pivot.is_some() { 2 } else { 1 };
        }
        for i in 0..x.rows {
            for (k, a, block) in &blocks {
                let value = at::<T>(&x, i, *k).read();
                match block {
                    None => at::<T>(&to, i, *k).write(one(value, *a)),
                    Some((block, parts)) => {
                        let (left, right) = two(block, *parts, value, at::<T>(&x, i, k + 1).read());
                        at::<T>(&to, i, *k).write(left);
                        at::<T>(&to, i, k + 1).write(right);
                    }
                }
            }
        }
    }
}

/// The cosine and the sine of an angle.
pub type Angle = (f64, f64);

/// The cosine and the sine of the angle by which a row is rotated with its partner: the same in every run.
pub fn rotation(level: u64, row: u64) -> Angle {
    // SplitMix64, of which the upper bits are a number from 0 to 1, and the lowest is a sign.
    let mut bits = (row * 2 + level).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    let part = (bits >> 11) as f64 / (1u64 << 53) as f64;
    // The tangent of half of the angle, between 22 and 68 degrees, by operations that are rounded alike everywhere.
    let half = 0.2 + 0.45 * part;
    let (cos, sin) = ((1.0 - half * half) / (1.0 + half * half), 2.0 * half / (1.0 + half * half));
    (cos, if bits & 1 == 0 { sin } else { -sin })
}

/// Rows and columns of one of the four parts of a matrix that are rotated.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its elements.
    pub block: Block,
    /// Whether they are those of the other half of the matrix, transposed, of which the conjugates count.
    pub conj: bool,
}

/// Rotates rows and columns with their partners: `G^T X G`, of X in two times two parts, of which those in the second row or
/// column may be fewer, or not there. `angles` are the rotations of rows and of columns. Where `half`, the matrix is its own
/// other half, and so are the parts on its diagonal; there is no second part in the first row.
///
/// # Safety
/// All elements are of this type, valid for reads and writes, nobody else's, and share no memory.
pub unsafe fn rotate(
    dtype: DType,
    parts: [[Option<Part>; 2]; 2],
    half: bool,
    hermitian: bool,
    (rows, cols): (&[Angle], &[Angle]),
) {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe { rotated::<T>(parts, half, hermitian, rows, cols) });
}

/// # Safety
/// As [`rotate`].
unsafe fn rotated<T: Float>(
    parts: [[Option<Part>; 2]; 2],
    half: bool,
    hermitian: bool,
    rows: &[Angle],
    cols: &[Angle],
) {
    let [[first, above], [below, last]] = parts;
    let Some(first) = first else { return };
    let (m, n) = (first.block.rows, first.block.cols);
    let turned = |(cos, sin): Angle, x: T, y: T| {
        let (cos, sin) = (Scalar::from(cos), Scalar::from(sin));
        (difference(x.times(cos), y.times(sin)), sum(x.times(sin), y.times(cos)))
    };
    let conjugated = |x: T, conj: bool| if conj && hermitian { x.conjugate() } else { x };
    let get = |part: &Option<Part>, i, j| {
        // SAFETY: as the caller vouches.
        let value = |part: Part| unsafe { at::<T>(&part.block, i, j).read() };
        part.map_or(T::ZERO, |part| conjugated(value(part), part.conj))
    };
    let put = |part: &Option<Part>, i, j, x: T| {
        if let Some(part) = part {
            // SAFETY: as the caller vouches.
            unsafe { at::<T>(&part.block, i, j).write(conjugated(x, part.conj)) };
        }
    };
    let (first, one) = (Some(first), STRIP);
    for (i0, j0) in (0..m).step_by(one).flat_map(|i| (0..n).step_by(one).map(move |j| (i, j))) {
        for i in i0..m.min(i0 + one) {
            for j in j0..n.min(j0 + one) {
                if half && j > i {
                    break;
                }
                // There are as many angles as partners.
                let (by_row, by_col) = (rows.get(i).copied(), cols.get(j).copied());
                let (has_row, has_col) = (by_row.is_some(), by_col.is_some());
                let on_diagonal = |x: T| if half && hermitian && i == j { x.real_part() } else { x };
                let mut a = on_diagonal(get(&first, i, j));
                let mut b = match (has_col, half) {
                    (false, _) => T::ZERO,
                    // That on the other side of the diagonal.
                    (true, true) => mirrored(get(&below, j, i), hermitian),
                    (true, false) => get(&above, i, j),
                };
                let mut c = if has_row { get(&below, i, j) } else { T::ZERO };
                let mut d = if has_row && has_col { on_diagonal(get(&last, i, j)) } else { T::ZERO };
                if let Some(angle) = by_col {
                    (a, b) = turned(angle, a, b);
                    (c, d) = turned(angle, c, d);
                }
                if let Some(angle) = by_row {
                    (a, c) = turned(angle, a, c);
                    (b, d) = turned(angle, b, d);
                }
                put(&first, i, j, on_diagonal(a));
                if has_row {
                    put(&below, i, j, c);
                }
                match (has_col, half) {
                    (false, _) => {}
                    (true, true) => {
                        if i != j {
                            put(&below, j, i, mirrored(b, hermitian));
                        }
                    }
                    (true, false) => put(&above, i, j, b),
                }
                if has_row && has_col {
                    put(&last, i, j, on_diagonal(d));
                }
            }
        }
    }
}

/// What is done to vectors between the triangular systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// Rows are rotated, and given the order of those of L.
    Before,
    /// `D y = x`.
    Between,
    /// Rows get their own order again, and are rotated back.
    After,
}

/// Rotates and orders the rows of a vector, as [`Around::Before`] says, or takes that back. `order` are the rows of A that
/// those of L are, `partners` those with which rows are rotated, first and then.
pub fn around<T: Copy>(
    what: Around,
    x: &mut [T],
    spare: &mut [T],
    (order, partners): (&[i32], [&[i32]; 2]),
    turned: impl Fn(Angle, T, T) -> (T, T),
) {
    let rotate = |x: &mut [T], level: usize, sign: f64| {
        for (row, &partner) in partners[level].iter().enumerate() {
            let partner = partner as usize;
            if partner > row {
                let (cos, sin) = rotation(level as u64, row as u64);
                (x[row], x[partner]) = turned((cos, sign * sin), x[row], x[partner]);
            }
        }
    };
    if what == Around::Before {
        rotate(x, 0, 1.0);
        rotate(x, 1, 1.0);
        order.iter().zip(spare.iter_mut()).for_each(|(&from, to)| *to = x[from as usize]);
        x.copy_from_slice(spare);
    } else {
        order.iter().zip(x.iter()).for_each(|(&to, &value)| spare[to as usize] = value);
        x.copy_from_slice(spare);
        rotate(x, 1, -1.0);
        rotate(x, 0, -1.0);
    }
}

/// The same for all columns of a matrix whose rows lie in several blocks, one below the other, of `side` rows each; of
/// [`Around::Between`], `d` are those of D.
///
/// # Errors
/// `Err(i)`: row i of D is zero.
///
/// # Panics
/// Where the workspace has no room for two columns.
///
/// # Safety
/// As [`super::gemm`], with blocks of D read, and the others read and written.
pub unsafe fn around_columns(
    dtype: DType,
    what: Around,
    blocks: &[Block],
    d: &[Block],
    rows: (&[i32], [&[i32]; 2]),
    (hermitian, conj): (bool, bool),
    workspace: &mut [u8],
) -> std::result::Result<(), usize> {
    // SAFETY: as the caller vouches.
    with_float!(dtype, T => unsafe {
        let n: usize = blocks.iter().map(|block| block.rows).sum();
        let (x, rest) = columns_in(workspace, n, 1, size_of::<T>());
        let (spare, _) = columns_in(rest, n, 1, size_of::<T>());
        let x = std::slice::from_raw_parts_mut(x.start.cast::<T>(), n);
        let spare = std::slice::from_raw_parts_mut(spare.start.cast::<T>(), n);
        for col in 0..blocks.first().map_or(0, |block| block.cols) {
            let places = || blocks.iter().flat_map(|block| (0..block.rows).map(move |row| at::<T>(block, row, col)));
            places().zip(x.iter_mut()).for_each(|(from, to)| *to = from.read());
            if what == Around::Between {
                divided::<T>(x, d, hermitian, conj)?;
            } else {
                around(what, x, spare, rows, |(cos, sin), x: T, y: T| {
                    let (cos, sin) = (Scalar::from(cos), Scalar::from(sin));
                    (difference(x.times(cos), y.times(sin)), sum(x.times(sin), y.times(cos)))
                });
            }
            places().zip(x.iter()).for_each(|(to, &from)| to.write(from));
        }
        Ok(())
    })
}

/// `D y = x`, of D by blocks of rows.
///
/// # Safety
/// As [`around_columns`].
unsafe fn divided<T: Float>(
    x: &mut [T],
    d: &[Block],
    hermitian: bool,
    conj: bool,
) -> std::result::Result<(), usize> {
    let side = d.first().map_or(1, |block| block.rows);
    // SAFETY: as the caller vouches.
    let of = |row: usize, col: usize| unsafe { at::<T>(&d[row / side], row % side, col).read() };
    let conjugated = |x: T| if conj { x.conjugate() } else { x };
    let mut row = 0;
    while row < x.len() {
        let (a, b) = (conjugated(of(row, 0)), conjugated(of(row, 1)));
        if b == T::ZERO || row + 1 == x.len() {
            if a == T::ZERO {
                return Err(row);
            }
            x[row] = x[row].over(a);
            row += 1;
            continue;
        }
        let block = Pivot { a, b, c: conjugated(of(row + 1, 0)), hermitian };
        (x[row], x[row + 1]) = block.solve_columns(block.parts(), x[row], x[row + 1]);
        row += 2;
    }
    Ok(())
}
