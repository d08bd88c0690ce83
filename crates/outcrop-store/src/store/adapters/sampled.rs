//! Samples of arrays: indices at equal distances along an axis, and nothing of what lies between them.

use crate::error::{Error, Result};
use crate::layout::AxisOrder;
use crate::shape::{ArrayBox, Dims};
use crate::store::transfer::canvas::Canvas;
use crate::store::{Extents, Info, Mover, Staging, Store};
use std::sync::Arc;

/// Every so many indices of another array along an axis, each of which is loaded by itself.
pub struct SampledArray {
    inner: Arc<dyn Store>,
    axis: usize,
    first: u64,
    step: u64,
    info: Info,
}

impl SampledArray {
    /// The indices `first + step * k` for `k < count` along an axis.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the array has no such axis or indices.
    pub fn of(
        inner: &Arc<dyn Store>,
        axis: usize,
        (first, step, count): (u64, u64, u64),
    ) -> Result<Arc<dyn Store>> {
        let own = inner.info();
        let last = count.checked_sub(1).and_then(|n| n.checked_mul(step)).and_then(|n| n.checked_add(first));
        let is_there = axis < own.shape.len() && last.is_some_and(|last| last < own.shape[axis]) && step > 0;
        if !is_there {
            return Err(Error::invalid(format!(
                "an array of shape {:?} has no {count} indices from {first} on, each {step} behind the last, \
                 along axis {axis}",
                own.shape
            )));
        }
        let mut info = Info { writable: false, ..own.clone() };
        info.shape[axis] = count;
        // What is loaded by itself is cut as one likes.
        info.tile[axis] = 1;
        Ok(Arc::new(SampledArray { inner: Arc::clone(inner), axis, first, step, info }))
    }

    /// The boxes that make a box up, and where each is in the array.
    fn places(&self, region: &ArrayBox) -> impl Iterator<Item = (ArrayBox, ArrayBox)> {
        let (axis, first, step, region) = (self.axis, self.first, self.step, region.clone());
        (region.start[axis]..region.end(axis)).map(move |index| {
            let mut shown = region.clone();
            (shown.start[axis], shown.shape[axis]) = (index, 1);
            let mut place = shown.clone();
            place.start[axis] = first + step * index;
            (shown, place)
        })
    }

    /// One of the boxes that a box is made up of.
    fn one(&self, region: &ArrayBox) -> Option<ArrayBox> {
        self.places(region).next().map(|(_, place)| place)
    }
}

impl Store for SampledArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        self.inner.staging(false)
    }

    fn staging_of(&self, shape: &[u64]) -> usize {
        let mut one: Dims = shape.into();
        one[self.axis] = one[self.axis].min(1);
        self.inner.staging_of(&one)
    }

    fn origin(&self) -> Option<&Arc<dyn Store>> {
        Some(&self.inner)
    }

    fn calls_back(&self) -> bool {
        self.inner.calls_back()
    }

    fn file_axes(&self) -> Option<AxisOrder> {
        self.inner.file_axes()
    }

    fn extents(&self, region: &ArrayBox) -> Extents {
        self.one(region).map_or(Extents { count: 0, bytes: 0 }, |place| {
            let each = self.inner.extents(&place);
            Extents { count: each.count * region.shape[self.axis], ..each }
        })
    }

    fn is_reversed(&self, axis: usize) -> bool {
        self.inner.is_reversed(axis)
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        self.places(region).map(|(_, place)| self.inner.bytes_to_load(&place)).sum()
    }

    fn bytes_to_load_with(&self, region: &ArrayBox, staging: usize) -> Result<u64> {
        self.places(region).map(|(_, place)| self.inner.bytes_to_load_with(&place, staging)).sum()
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        self.places(canvas.region())
            .try_for_each(|(shown, place)| self.inner.load(mover, &canvas.moved(&shown, &place.start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::format::zarr::{Encoding, Labels};
    use crate::layout::Layout;
    use crate::store::sketch::Sketch;

    #[test]
    fn a_box_is_made_up_of_its_indices() {
        let info = Info {
            path: "a.zarr".into(),
            shape: [100, 7].as_slice().into(),
            dtype: DType::F64,
            tile: [4, 4].as_slice().into(),
            layout: Layout::Tiled,
            format: "zarr",
            codecs: String::new(),
            attributes: "{}".into(),
            writable: false,
        };
        let inner: Arc<dyn Store> =
            Arc::new(Sketch::tiled(info, Encoding::Plain, &Labels::default()).unwrap());
        let found = SampledArray::of(&inner, 0, (5, 10, 9)).unwrap();
        assert_eq!((found.info().shape.as_slice(), found.info().tile.as_slice()), (&[9, 7][..], &[1, 4][..]));
        // A tile each, of two beside each other.
        let one = inner.bytes_to_load(&ArrayBox::new([5, 0], [1, 4])).unwrap();
        assert_eq!(found.bytes_to_load(&ArrayBox::new([2, 0], [3, 7])).unwrap(), 6 * one);
        assert_eq!(found.bytes_to_load(&ArrayBox::new([2, 0], [0, 7])).unwrap(), 0);
        for (axis, indices) in
            [(2, (0, 1, 1)), (0, (5, 10, 11)), (0, (0, 0, 1)), (0, (0, 1, 0)), (1, (0, 1 << 63, 3))]
        {
            assert!(SampledArray::of(&inner, axis, indices).is_err());
        }
    }
}
