//! Products of integers and booleans.

use super::Block;
use outcrop_store::dtype::DType;

/// Rows and columns of the part of the right factor that is copied to where it lies well: 32 KiB at most.
const PART: usize = 64;

/// What a product of matrices needs of its elements.
trait Element: Copy {
    const ZERO: Self;
    fn from_whole(value: i64) -> Self;
    fn times(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
}

macro_rules! element {
    ($($T:ty)*) => {$(
        impl Element for $T {
            const ZERO: Self = 0;
            #[inline(always)]
            fn from_whole(value: i64) -> Self {
                value as $T
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}

element!(i8 i16 i32 i64 u8 u16 u32 u64);

/// A boolean as it is stored. Whatever is not zero is true; what is written is 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Truth(u8);

impl Element for Truth {
    const ZERO: Self = Truth(0);
    #[inline(always)]
    fn from_whole(value: i64) -> Self {
        Truth(u8::from(value != 0))
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Truth(u8::from(self.0 != 0) & u8::from(other.0 != 0))
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Truth(u8::from(self.0 != 0) | u8::from(other.0 != 0))
    }
}

/// # Safety
/// As [`super::gemm`]; the extents agree.
pub(super) unsafe fn gemm(dtype: DType, c: Block, accumulate: bool, alpha: f64, a: Block, b: Block) {
    assert!(alpha.fract() == 0.0, "{dtype} times {alpha}");
    let alpha = alpha as i64;
    // SAFETY: as the caller vouches.
    unsafe {
        match dtype {
            DType::Bool => typed::<Truth>(c, accumulate, alpha, a, b),
            DType::I8 => typed::<i8>(c, accumulate, alpha, a, b),
            DType::I16 => typed::<i16>(c, accumulate, alpha, a, b),
            DType::I32 => typed::<i32>(c, accumulate, alpha, a, b),
            DType::I64 => typed::<i64>(c, accumulate, alpha, a, b),
            DType::U8 => typed::<u8>(c, accumulate, alpha, a, b),
            DType::U16 => typed::<u16>(c, accumulate, alpha, a, b),
            DType::U32 => typed::<u32>(c, accumulate, alpha, a, b),
            DType::U64 => typed::<u64>(c, accumulate, alpha, a, b),
            _ => unreachable!("{dtype} is floating"),
        }
    }
}

/// # Safety
/// As [`gemm`], with elements of type `T`.
unsafe fn typed<T: Element>(c: Block, accumulate: bool, alpha: i64, a: Block, b: Block) {
    #[cfg(target_arch = "x86_64")]
    {
        /// # Safety
        /// As [`typed`], on a processor with AVX2.
        #[target_feature(enable = "avx2")]
        unsafe fn avx2<T: Element>(c: Block, accumulate: bool, alpha: i64, a: Block, b: Block) {
            // SAFETY: as the caller vouches.
            unsafe { product::<T>(c, accumulate, alpha, a, b) }
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as the caller vouches, and AVX2 is there.
            return unsafe { avx2::<T>(c, accumulate, alpha, a, b) };
        }
    }
    // SAFETY: as the caller vouches.
    unsafe { product::<T>(c, accumulate, alpha, a, b) }
}

/// # Safety
/// As [`typed`].
#[inline(always)]
unsafe fn product<T: Element>(c: Block, accumulate: bool, alpha: i64, a: Block, b: Block) {
    // Rows of C are written; let them be what lies together.
    let (c, a, b) = if c.row_stride.unsigned_abs() < c.col_stride.unsigned_abs() {
        (c.transposed(), b.transposed(), a.transposed())
    } else {
        (c, a, b)
    };
    let alpha = T::from_whole(alpha);
    let at = |block: &Block, row: usize, col: usize| {
        let offset = row as isize * block.row_stride + col as isize * block.col_stride;
        block.start.cast::<T>().wrapping_offset(offset)
    };
    let depth = a.cols;
    let mut part = [[T::ZERO; PART]; PART];
    for col in (0..c.cols).step_by(PART) {
        let cols = PART.min(c.cols - col);
        // Once at least, so that nothing times nothing overwrites C.
        for first in (0..depth.max(1)).step_by(PART) {
            let deep = PART.min(depth - first);
            for (k, line) in part[..deep].iter_mut().enumerate() {
                for (j, element) in line[..cols].iter_mut().enumerate() {
                    // SAFETY: (first + k, col + j) is inside B.
                    *element = unsafe { at(&b, first + k, col + j).read() };
                }
            }
            for row in 0..c.rows {
                let mut sums = [T::ZERO; PART];
                for (k, line) in part[..deep].iter().enumerate() {
                    // SAFETY: (row, first + k) is inside A.
                    let factor = alpha.times(unsafe { at(&a, row, first + k).read() });
                    for (sum, &element) in sums.iter_mut().zip(line) {
                        *sum = sum.plus(factor.times(element));
                    }
                }
                for (j, &sum) in sums[..cols].iter().enumerate() {
                    let target = at(&c, row, col + j);
                    // SAFETY: (row, col + j) is inside C, and was written before in the second case.
                    unsafe {
                        if accumulate || first > 0 {
                            target.write(target.read().plus(sum));
                        } else {
                            target.write(sum);
                        }
                    }
                }
            }
        }
    }
}
