//! Arrays read with their axes in another order, or backwards.

use crate::error::{Error, Result};
use crate::layout::AxisOrder;
use crate::shape::{ArrayBox, Dims};
use crate::store::transfer::canvas::{Canvas, turn};
use crate::store::transfer::edges::{Cuts, Edges};
use crate::store::{Extents, Info, Mover, Staging, Store};
use smallvec::SmallVec;
use std::sync::Arc;

/// Which axis is shown as which, and which of them run backwards: any of the eight orientations of a picture, any
/// permutation of an array of more axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orientation {
    /// Axis `a` of what is shown is axis `axes[a]` of the array.
    pub axes: AxisOrder,
    /// Whether axis `a` of what is shown runs backwards.
    pub reversed: SmallVec<[bool; 4]>,
}

impl Orientation {
    /// An orientation.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the axes are no permutation, or not as many as there are directions.
    pub fn new(axes: &[usize], reversed: &[bool]) -> Result<Orientation> {
        let mut sorted: AxisOrder = axes.into();
        sorted.sort_unstable();
        if sorted.iter().enumerate().any(|(i, &a)| i != a) || axes.len() != reversed.len() {
            return Err(Error::invalid(format!("{axes:?} is no permutation of axes")));
        }
        Ok(Orientation { axes: axes.into(), reversed: reversed.into() })
    }

    /// The orientation in which an array of so many axes is.
    pub fn plain(ndim: usize) -> Orientation {
        Orientation { axes: (0..ndim).collect(), reversed: SmallVec::from_elem(false, ndim) }
    }

    /// Whether the array is shown as it is.
    pub fn is_plain(&self) -> bool {
        self.axes.iter().enumerate().all(|(i, &a)| i == a) && !self.reversed.contains(&true)
    }

    /// A box of an array of this shape, in what is shown of it.
    pub fn shown(&self, region: &ArrayBox, shape: &[u64]) -> ArrayBox {
        let start = self
            .axes
            .iter()
            .zip(&self.reversed)
            .map(|(&a, &reversed)| if reversed { shape[a] - region.end(a) } else { region.start[a] });
        ArrayBox { start: start.collect(), shape: self.of(&region.shape) }
    }

    /// Dims of the array as those of what is shown.
    pub fn of(&self, dims: &[u64]) -> Dims {
        self.axes.iter().map(|&a| dims[a]).collect()
    }
}

/// Another array, shown in another orientation. Elements are put in their places as they are loaded.
pub struct OrientedArray {
    inner: Arc<dyn Store>,
    orientation: Orientation,
    info: Info,
}

impl OrientedArray {
    /// The array in this orientation; as it is where that is plain.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the array has another number of axes.
    pub fn of(inner: &Arc<dyn Store>, orientation: Orientation) -> Result<Arc<dyn Store>> {
        let own = inner.info();
        if own.shape.len() != orientation.axes.len() {
            return Err(Error::invalid(format!(
                "{} axes cannot be the {} of an array of shape {:?}",
                orientation.axes.len(),
                own.shape.len(),
                own.shape
            )));
        }
        if orientation.is_plain() {
            return Ok(Arc::clone(inner));
        }
        let (shape, tile) = (orientation.of(&own.shape), orientation.of(&own.tile));
        let info = Info { shape, tile, writable: false, ..own.clone() };
        Ok(Arc::new(OrientedArray { inner: Arc::clone(inner), orientation, info }))
    }

    fn inside(&self, region: &ArrayBox) -> ArrayBox {
        turn(region, &self.orientation.axes, &self.orientation.reversed, &self.info.shape)
    }

    fn canvas(&self, canvas: &Canvas) -> Canvas {
        canvas.reoriented(&self.orientation.axes, &self.orientation.reversed, &self.info.shape)
    }
}

impl Store for OrientedArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        self.inner.staging(false)
    }

    fn staging_of(&self, shape: &[u64]) -> usize {
        let mut inner: Dims = shape.into();
        self.orientation.axes.iter().zip(shape).for_each(|(&a, &n)| inner[a] = n);
        self.inner.staging_of(&inner)
    }

    fn origin(&self) -> Option<&Arc<dyn Store>> {
        Some(&self.inner)
    }

    fn calls_back(&self) -> bool {
        self.inner.calls_back()
    }

    fn file_axes(&self) -> Option<AxisOrder> {
        let shown = |own: usize| self.orientation.axes.iter().position(|&a| a == own).expect("a permutation");
        Some(self.inner.file_axes()?.into_iter().map(shown).collect())
    }

    fn extents(&self, region: &ArrayBox) -> Extents {
        self.inner.extents(&self.inside(region))
    }

    fn phase(&self, region: &ArrayBox) -> usize {
        self.inner.phase(&self.inside(region))
    }

    fn tile_boxes(&self, region: &ArrayBox) -> Vec<ArrayBox> {
        let boxes = self.inner.tile_boxes(&self.inside(region));
        boxes.iter().map(|own| self.orientation.shown(own, &self.inner.info().shape)).collect()
    }

    fn is_reversed(&self, axis: usize) -> bool {
        self.orientation.reversed[axis] != self.inner.is_reversed(self.orientation.axes[axis])
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        self.inner.bytes_to_load(&self.inside(region))
    }

    fn bytes_to_load_with(&self, region: &ArrayBox, staging: usize) -> Result<u64> {
        self.inner.bytes_to_load_with(&self.inside(region), staging)
    }

    fn cuts(&self, region: &ArrayBox, staging: usize) -> Option<Cuts> {
        self.inner.cuts(&self.inside(region), staging)
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        self.inner.load(mover, &self.canvas(canvas))
    }

    fn load_beside(&self, mover: &mut Mover, canvas: &Canvas, edges: &mut Edges) -> Result<()> {
        self.inner.load_beside(mover, &self.canvas(canvas), edges)
    }
}
