//! The frontiers of an array's tiles, as an array of their own: what is needed of a tile where only the tile beside it
//! is worked on.

use crate::error::{Error, Result};
use crate::shape::{ArrayBox, TileGrid};
use crate::store::transfer::canvas::Canvas;
use crate::store::{Info, Mover, Staging, Store};
use std::sync::Arc;

/// The low or the high frontiers along an axis, one after the other: as many tiles as the array has, in the same order.
pub struct FrontierArray {
    inner: Arc<dyn Store>,
    info: Info,
    axis: usize,
    high: bool,
}

impl FrontierArray {
    /// The frontiers of an array whose tiles have them beside them.
    ///
    /// # Errors
    /// [`Error::Invalid`] where it has none, or no such axis.
    pub fn new(inner: Arc<dyn Store>, axis: usize, high: bool) -> Result<FrontierArray> {
        let whole = inner.info();
        let thickness = inner.thickness().filter(|_| axis < whole.shape.len()).ok_or_else(|| {
            Error::invalid(format!("{}: there are no frontiers along axis {axis}", whole.path.display()))
        })?;
        let mut info = Info { writable: false, ..whole.clone() };
        let (n, tile) = (whole.shape[axis], whole.tile[axis]);
        info.tile[axis] = thickness;
        // The last tile may have less than that inside the array.
        info.shape[axis] = n / tile * thickness + (n % tile).min(thickness);
        Ok(FrontierArray { inner, info, axis, high })
    }

    /// Where the elements of a box are in the array, by tiles.
    fn places(&self, region: &ArrayBox) -> impl Iterator<Item = (ArrayBox, ArrayBox)> {
        let (own, inner) = (&self.info, self.inner.info());
        let (n, tile, thickness) = (inner.shape[self.axis], inner.tile[self.axis], own.tile[self.axis]);
        let (axis, high, region) = (self.axis, self.high, region.clone());
        let grid = TileGrid { shape: own.shape.clone(), tile: own.tile.clone() };
        let first = if region.is_empty() { 0 } else { region.start[axis] / thickness };
        let end = if region.is_empty() { 0 } else { (region.end(axis) - 1) / thickness + 1 };
        (first..end).filter_map(move |number| {
            let mut slab = ArrayBox::whole(&grid.shape);
            slab.start[axis] = number * thickness;
            slab.shape[axis] = thickness.min(grid.shape[axis] - slab.start[axis]);
            let shown = slab.intersect(&region)?;
            let last = ((number + 1) * tile).min(n);
            let start = if high { last - slab.shape[axis] } else { number * tile };
            let mut place = shown.clone();
            place.start[axis] = start + (shown.start[axis] - slab.start[axis]);
            Some((shown, place))
        })
    }
}

impl Store for FrontierArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        self.inner.staging(false)
    }

    fn origin(&self) -> Option<&Arc<dyn Store>> {
        Some(&self.inner)
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        self.places(region).map(|(_, place)| self.inner.bytes_to_load(&place)).sum()
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
    fn a_frontier_is_at_its_edge_of_its_tile() {
        let info = Info {
            path: "a.zarr".into(),
            shape: [10, 7].as_slice().into(),
            dtype: DType::F64,
            tile: [4, 4].as_slice().into(),
            layout: Layout::Tiled,
            format: "zarr",
            codecs: String::new(),
            attributes: "{}".into(),
            writable: false,
        };
        let encoding = Encoding::Frontiers { thickness: 2 };
        let inner: Arc<dyn Store> = Arc::new(Sketch::tiled(info, encoding, &Labels::default()).unwrap());
        for (axis, high, shape, starts) in [
            (0, false, [6, 7], vec![0, 4, 8]),
            (0, true, [6, 7], vec![2, 6, 8]),
            (1, false, [10, 4], vec![0, 4]),
            (1, true, [10, 4], vec![2, 5]),
        ] {
            let found = FrontierArray::new(Arc::clone(&inner), axis, high).unwrap();
            assert_eq!(found.info().shape.as_slice(), shape);
            let places: Vec<u64> =
                found.places(&ArrayBox::whole(&shape)).map(|(_, place)| place.start[axis]).collect();
            assert_eq!(places, starts);
        }
        let found = FrontierArray::new(Arc::clone(&inner), 0, true).unwrap();
        let region = ArrayBox::new([1, 2], [2, 3]);
        let part = found.places(&region).map(|(shown, place)| (shown.to_string(), place.to_string()));
        let part: Vec<_> = part.collect();
        let expected = [("[1:2, 2:5]", "[3:4, 2:5]"), ("[2:3, 2:5]", "[6:7, 2:5]")];
        assert_eq!(part, expected.map(|(a, b)| (a.to_string(), b.to_string())));
        assert!(FrontierArray::new(inner, 2, true).is_err());
    }
}
