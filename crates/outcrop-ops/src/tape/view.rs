//! Strided memory.

use smallvec::{SmallVec, smallvec};

/// A number for each axis.
pub(super) type PerAxis<T> = SmallVec<[T; 4]>;

/// An array in memory, with strides in bytes.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) start: *mut u8,
    pub(super) shape: PerAxis<usize>,
    pub(super) strides: PerAxis<isize>,
}

impl View {
    /// Elements that follow one another, the last axis fastest.
    pub(super) fn dense(start: *mut u8, shape: PerAxis<usize>, itemsize: usize) -> View {
        let strides = dense_strides(&shape, itemsize);
        View { start, shape, strides }
    }
}

pub(super) fn dense_strides(shape: &[usize], itemsize: usize) -> PerAxis<isize> {
    let mut strides: PerAxis<isize> = smallvec![0; shape.len()];
    let mut stride = itemsize as isize;
    for (own, &n) in strides.iter_mut().zip(shape).rev() {
        *own = stride;
        stride *= n as isize;
    }
    strides
}
