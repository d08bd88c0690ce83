//! Arrays read as if they were of a wider dtype, or conjugated.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::{ArrayBox, BoxIndices};
use crate::store::transfer::canvas::{Canvas, Patch, dense_strides};
use crate::store::{Info, Mover, Staging, Store};
use std::sync::Arc;

/// Another array, its elements converted as they are loaded.
pub struct CastArray {
    inner: Arc<dyn Store>,
    info: Info,
    convert: Convert,
}

/// Converts `count` elements from one place to another that begins at or before it, so that no element
/// is overwritten before it is read.
///
/// # Safety
/// As for [`convert`].
type Convert = unsafe fn(from: *const u8, to: *mut u8, count: usize);

impl CastArray {
    /// The array as one of `dtype`.
    ///
    /// # Errors
    /// [`Error::Invalid`] where that would lose something that NumPy's promotion never loses.
    pub fn new(inner: Arc<dyn Store>, dtype: DType) -> Result<CastArray> {
        let own = inner.info().dtype;
        let convert = converter(own, dtype)
            .ok_or_else(|| Error::invalid(format!("{own} is not converted to {dtype}")))?;
        Ok(Self::converted(inner, dtype, convert))
    }

    /// The array's complex conjugates.
    ///
    /// # Errors
    /// [`Error::Invalid`] where it is not complex.
    pub fn conjugated(inner: Arc<dyn Store>) -> Result<CastArray> {
        /// # Safety
        /// As for [`convert`].
        unsafe fn run<T: Copy + std::ops::Neg<Output = T>>(from: *const u8, to: *mut u8, count: usize) {
            // SAFETY: passed on.
            unsafe { convert::<[T; 2], [T; 2]>(from, to, count, |[re, im]| [re, -im]) }
        }
        let dtype = inner.info().dtype;
        let convert: Convert = match dtype {
            DType::C64 => run::<f32>,
            DType::C128 => run::<f64>,
            _ => return Err(Error::invalid(format!("{dtype} has no conjugates"))),
        };
        Ok(Self::converted(inner, dtype, convert))
    }

    fn converted(inner: Arc<dyn Store>, dtype: DType, convert: Convert) -> CastArray {
        let info = Info { dtype, writable: false, ..inner.info().clone() };
        CastArray { inner, info, convert }
    }
}

impl Store for CastArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        self.inner.staging(false)
    }

    fn origin(&self) -> Option<&Arc<dyn Store>> {
        Some(&self.inner)
    }

    fn calls_back(&self) -> bool {
        self.inner.calls_back()
    }

    fn staging_of(&self, shape: &[u64]) -> usize {
        self.inner.staging_of(shape)
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        self.inner.bytes_to_load(region)
    }

    fn bytes_to_load_with(&self, region: &ArrayBox, staging: usize) -> Result<u64> {
        self.inner.bytes_to_load_with(region, staging)
    }

    /// The canvas is one patch.
    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        let region = canvas.region();
        if region.is_empty() {
            return Ok(());
        }
        let (wide, narrow) = (self.info.dtype.size(), self.inner.info().dtype.size());
        let (start, strides) = canvas.address(region);
        // Rows of narrow elements come to lie at the ends of those of wide ones.
        let last = region.ndim().checked_sub(1);
        let row = last.map_or(1, |a| region.shape[a] as usize);
        let dense =
            last.is_none_or(|a| region.shape[a] <= 1 || strides[a] == dense_strides(&region.shape, wide)[a]);
        if !dense {
            return Err(Error::invalid("a converted array is loaded to rows without gaps"));
        }
        let shift = row * (wide - narrow);
        let mut inner_strides = strides.clone();
        last.into_iter().for_each(|a| inner_strides[a] = narrow as isize);
        let patch = Patch::strided(region.clone(), start.wrapping_add(shift), inner_strides);
        // SAFETY: the patch lies inside the canvas's memory, which is ours until this returns.
        let own = unsafe { Canvas::new(region.clone(), narrow, [patch]) };
        self.inner.load(mover, &own)?;
        let mut rows = ArrayBox::whole(&region.shape);
        last.into_iter().for_each(|a| rows.shape[a] = 1);
        for index in BoxIndices::new(&rows) {
            let offset: isize = index.iter().zip(&strides).map(|(&i, s)| i as isize * s).sum();
            let to = start.wrapping_offset(offset);
            // SAFETY: the row was loaded above, and its memory has room for the wide elements.
            unsafe { (self.convert)(to.wrapping_add(shift), to, row) };
        }
        Ok(())
    }
}

/// # Safety
/// `count` elements can be read at `from` and written at `to`, which is not behind it.
unsafe fn convert<S: Copy, T>(from: *const u8, to: *mut u8, count: usize, each: impl Fn(S) -> T) {
    for i in 0..count {
        // SAFETY: the caller's promise; element i of the target ends before element i + 1 of the source
        // begins, since the target's elements are no smaller and begin earlier by what they have more.
        unsafe {
            let value = from.cast::<S>().add(i).read_unaligned();
            to.cast::<T>().add(i).write_unaligned(each(value));
        }
    }
}

macro_rules! converters {
    ($from:expr, $to:expr; $(($s:ident $S:ty => $($t:ident $T:ty),*))*) => {
        match ($from, $to) {
            $($((DType::$s, DType::$t) => {
                /// # Safety
                /// As for [`convert`].
                unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
                    // SAFETY: passed on.
                    unsafe { convert::<$S, $T>(from, to, count, |x| x as $T) }
                }
                Some(run as Convert)
            })*)*
            _ => None,
        }
    };
}

fn converter(from: DType, to: DType) -> Option<Convert> {
    // A complex number is two real ones; from a real one it gets the imaginary part zero.
    match (from, to) {
        (DType::C64, DType::C128) => {
            /// # Safety
            /// As for [`convert`].
            unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
                // SAFETY: passed on.
                unsafe { convert::<[f32; 2], [f64; 2]>(from, to, count, |x| x.map(f64::from)) }
            }
            return Some(run);
        }
        (_, DType::C64) => return to_complex(from, true),
        (_, DType::C128) => return to_complex(from, false),
        _ => {}
    }
    converters!(from, to;
        (Bool u8 => I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64)
        (I8 i8 => I16 i16, I32 i32, I64 i64, F32 f32, F64 f64)
        (I16 i16 => I32 i32, I64 i64, F32 f32, F64 f64)
        (I32 i32 => I64 i64, F64 f64)
        (I64 i64 => F64 f64)
        (U8 u8 => I16 i16, I32 i32, I64 i64, U16 u16, U32 u32, U64 u64, F32 f32, F64 f64)
        (U16 u16 => I32 i32, I64 i64, U32 u32, U64 u64, F32 f32, F64 f64)
        (U32 u32 => I64 i64, U64 u64, F64 f64)
        (U64 u64 => F64 f64)
        (F32 f32 => F64 f64)
    )
}

/// The converter from a real dtype to a complex one, of parts of 4 bytes (`single`) or 8.
fn to_complex(from: DType, single: bool) -> Option<Convert> {
    macro_rules! from_real {
        ($S:ty, $T:ty) => {{
            /// # Safety
            /// As for [`convert`].
            unsafe fn run(from: *const u8, to: *mut u8, count: usize) {
                // SAFETY: passed on.
                unsafe { convert::<$S, [$T; 2]>(from, to, count, |x| [x as $T, 0.0]) }
            }
            Some(run as Convert)
        }};
    }
    match (from, single) {
        (DType::Bool | DType::U8, true) => from_real!(u8, f32),
        (DType::I8, true) => from_real!(i8, f32),
        (DType::I16, true) => from_real!(i16, f32),
        (DType::U16, true) => from_real!(u16, f32),
        (DType::F32, true) => from_real!(f32, f32),
        (DType::Bool | DType::U8, false) => from_real!(u8, f64),
        (DType::I8, false) => from_real!(i8, f64),
        (DType::I16, false) => from_real!(i16, f64),
        (DType::U16, false) => from_real!(u16, f64),
        (DType::I32, false) => from_real!(i32, f64),
        (DType::U32, false) => from_real!(u32, f64),
        (DType::I64, false) => from_real!(i64, f64),
        (DType::U64, false) => from_real!(u64, f64),
        (DType::F32, false) => from_real!(f32, f64),
        (DType::F64, false) => from_real!(f64, f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Budget;
    use crate::io::{Cancel, Disk, EngineChoice};
    use crate::store::memory::MemoryArray;

    #[test]
    fn elements_are_widened_in_place() {
        let budget = Budget::new(1 << 20);
        let disk = Disk::new(EngineChoice::Auto).unwrap();
        let mut frame = budget.frame(5 * 7 * 2, "source").unwrap();
        let values: Vec<i16> = (0..35).map(|i| i * 100 - 1000).collect();
        for (i, v) in values.iter().enumerate() {
            frame.bytes_mut()[2 * i..2 * i + 2].copy_from_slice(&v.to_le_bytes());
        }
        let inner: Arc<dyn Store> = Arc::new(MemoryArray::new(&[5, 7], DType::I16, Arc::new(frame)));
        let mut mover = Mover::new(&disk, &budget, 0, &Cancel::default()).unwrap();
        for (dtype, width) in [(DType::I32, 1), (DType::F64, 1), (DType::C64, 2), (DType::C128, 2)] {
            let cast = CastArray::new(Arc::clone(&inner), dtype).unwrap();
            let target = budget.frame(4 * 8 * 16, "target").unwrap();
            // A box inside, in rows that are longer than the box.
            let region = ArrayBox::new([1, 2], [3, 5]);
            let patch = Patch::padded(region.clone(), target.as_ptr(), target.len(), &[4, 8], dtype.size());
            // SAFETY: the frame is larger than the patch.
            let canvas = unsafe { Canvas::new(region, dtype.size(), [patch]) };
            cast.load(&mut mover, &canvas).unwrap();
            for i in 0..3 {
                for j in 0..5 {
                    let at = (i * 8 + j) * dtype.size();
                    let bytes = &target.bytes()[at..at + dtype.size()];
                    let expected = f64::from(values[(i + 1) * 7 + j + 2]);
                    let part = &bytes[..dtype.size() / width];
                    let found = match (dtype, part.len()) {
                        (DType::I32, _) => f64::from(i32::from_le_bytes(part.try_into().unwrap())),
                        (_, 4) => f64::from(f32::from_le_bytes(part.try_into().unwrap())),
                        _ => f64::from_le_bytes(part.try_into().unwrap()),
                    };
                    assert_eq!(found, expected, "{dtype} {i} {j}");
                    assert!(width == 1 || bytes[dtype.size() / 2..].iter().all(|&b| b == 0));
                }
            }
        }
        assert!(CastArray::new(inner, DType::I8).is_err());
    }
}
