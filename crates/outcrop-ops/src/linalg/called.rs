//! The product of blocks in memory, for kernels that were compiled elsewhere: a C function that these call.

use super::rates::{self, Product};
use super::steps::{PART, product_in_parts};
use crate::kernels::{self, Block};
use crate::native::STOPPED;
use outcrop_store::{DType, Error};
use std::ffi::c_int;

/// What a function returns that was told what does not exist.
const UNKNOWN: c_int = 1;

/// The number of an element type, as [`product`] takes it.
pub fn number(dtype: DType) -> i64 {
    DType::ALL.iter().position(|&one| one == dtype).map_or(-1, |at| at as i64)
}

/// Operations of such products in a second on each of so many threads at once; and bytes of workspace and beside it.
pub fn cost(
    dtype: DType,
    (m, n, k): (usize, usize, usize),
    transposed: (bool, bool),
    threads: usize,
) -> (f64, usize, usize) {
    let (rows, cols) = (m.min(PART), n.min(PART));
    let rate = rates::rate(Product { dtype, m, n, k, transposed }, threads);
    (rate, kernels::gemm_workspace(dtype, rows, cols, k), kernels::packing_bytes(dtype, rows, cols, k))
}

/// `c += alpha a b`, where c has `m` rows and `n` columns, and a has `k` columns: what steps of linear algebra do. The
/// strides are in elements, from row to row and from column to column. Returns 0, or [`STOPPED`] where it was to stop.
///
/// # Safety
/// As [`kernels::gemm`], for blocks of elements of the type of this [`number`], which is a
/// [floating](kernels::is_floating) one. Nobody else touches the workspace of `room` bytes, and `stop` is as long valid.
#[allow(clippy::too_many_arguments, reason = "three matrices and how they are multiplied")]
pub unsafe extern "C" fn product(
    dtype: i64,
    c: *mut u8,
    a: *mut u8,
    b: *mut u8,
    m: i64,
    n: i64,
    k: i64,
    c_row: i64,
    c_col: i64,
    a_row: i64,
    a_col: i64,
    b_row: i64,
    b_col: i64,
    alpha: f64,
    workspace: *mut u8,
    room: u64,
    stop: *const bool,
) -> c_int {
    let floating = usize::try_from(dtype).ok().and_then(|at| DType::ALL.get(at).copied());
    let Some(dtype) = floating.filter(|&dtype| kernels::is_floating(dtype)) else { return UNKNOWN };
    let block = |start, rows: i64, cols: i64, row: i64, col: i64| Block {
        start,
        rows: rows.max(0) as usize,
        cols: cols.max(0) as usize,
        row_stride: row as isize,
        col_stride: col as isize,
    };
    let c = block(c, m, n, c_row, c_col);
    let (a, b) = (block(a, m, k, a_row, a_col), block(b, k, n, b_row, b_col));
    // SAFETY: as the caller vouches; the flag is only ever set.
    let check = || if unsafe { stop.read_volatile() } { Err(Error::Interrupted) } else { Ok(()) };
    let mut none = [0u8; 0];
    let workspace = if workspace.is_null() || room == 0 {
        &mut none[..]
    } else {
        // SAFETY: as the caller vouches.
        unsafe { std::slice::from_raw_parts_mut(workspace, room as usize) }
    };
    // SAFETY: as the caller vouches.
    let ended =
        unsafe { product_in_parts(dtype, c, (true, alpha.into()), a.plain(), b.plain(), workspace, check) };
    if ended.is_ok() { 0 } else { STOPPED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_factor_is_added_and_an_unknown_type_refused() {
        let (m, n, k) = (5, 7, 3);
        let mut c = vec![1.0f64; (m * n) as usize];
        let mut a: Vec<f64> = (0..m * k).map(|x| x as f64).collect();
        let mut b: Vec<f64> = (0..k * n).map(|x| (x % 4) as f64).collect();
        let stop = [false, true];
        let mut call = |dtype, stop: &bool| {
            let [c, a, b] = [&mut c, &mut a, &mut b].map(|x| x.as_mut_ptr().cast::<u8>());
            // SAFETY: blocks of such sizes; a lies column by column.
            unsafe { product(dtype, c, a, b, m, n, k, n, 1, 1, m, n, 1, -2.0, std::ptr::null_mut(), 0, stop) }
        };
        assert_eq!(call(number(DType::F64), &stop[0]), 0);
        assert_eq!(call(number(DType::I64), &stop[0]), UNKNOWN);
        assert_eq!(call(99, &stop[0]), UNKNOWN);
        assert_eq!(call(number(DType::F64), &stop[1]), STOPPED);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let sum: f64 = (0..k).map(|l| (l * m + i) as f64 * ((l * n + j) % 4) as f64).sum();
            assert_eq!(c[(i * n + j) as usize], 1.0 - 2.0 * sum);
        }
    }
}
