//! Sections of arrays: some of their axes at one index.

use crate::error::{Error, Result};
use crate::layout::AxisOrder;
use crate::shape::{ArrayBox, Dims};
use crate::store::transfer::canvas::Canvas;
use crate::store::transfer::edges::{Cuts, Edges};
use crate::store::{Extents, Info, Mover, Staging, Store};
use std::sync::Arc;

/// Another array without some of its axes, at one index along each of them.
pub struct SectionArray {
    inner: Arc<dyn Store>,
    /// The axes that are left, as the array counts them.
    axes: AxisOrder,
    /// Where the section is: the index along each other axis, 0 along those that are left.
    at: Dims,
    info: Info,
}

impl SectionArray {
    /// The section of an array at indices along axes; as it is where there are none.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is no such axis or index, or an axis is there twice.
    pub fn of(inner: &Arc<dyn Store>, fixed: &[(usize, u64)]) -> Result<Arc<dyn Store>> {
        let own = inner.info();
        let mut axes: AxisOrder = (0..own.shape.len()).collect();
        let mut at = Dims::from_elem(0, own.shape.len());
        for &(axis, index) in fixed {
            if !axes.contains(&axis) || index >= own.shape[axis] {
                return Err(Error::invalid(format!(
                    "an array of shape {:?} has no section at {fixed:?}",
                    own.shape
                )));
            }
            axes.retain(|&mut left| left != axis);
            at[axis] = index;
        }
        if fixed.is_empty() {
            return Ok(Arc::clone(inner));
        }
        let of = |dims: &[u64]| axes.iter().map(|&axis| dims[axis]).collect();
        let info = Info { shape: of(&own.shape), tile: of(&own.tile), writable: false, ..own.clone() };
        Ok(Arc::new(SectionArray { inner: Arc::clone(inner), axes, at, info }))
    }

    /// The box of the array that a box of the section is.
    fn inside(&self, region: &ArrayBox) -> ArrayBox {
        let mut inside = ArrayBox { start: self.at.clone(), shape: Dims::from_elem(1, self.at.len()) };
        for (a, &own) in self.axes.iter().enumerate() {
            inside.start[own] = region.start[a];
            inside.shape[own] = region.shape[a];
        }
        inside
    }
}

impl Store for SectionArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        self.inner.staging(false)
    }

    fn staging_of(&self, shape: &[u64]) -> usize {
        let start = Dims::from_elem(0, shape.len());
        self.inner.staging_of(&self.inside(&ArrayBox { start, shape: shape.into() }).shape)
    }

    fn origin(&self) -> Option<&Arc<dyn Store>> {
        Some(&self.inner)
    }

    fn calls_back(&self) -> bool {
        self.inner.calls_back()
    }

    fn file_axes(&self) -> Option<AxisOrder> {
        let left = |own: usize| self.axes.iter().position(|&axis| axis == own);
        Some(self.inner.file_axes()?.into_iter().filter_map(left).collect())
    }

    fn extents(&self, region: &ArrayBox) -> Extents {
        self.inner.extents(&self.inside(region))
    }

    fn phase(&self, region: &ArrayBox) -> usize {
        self.inner.phase(&self.inside(region))
    }

    fn tile_boxes(&self, region: &ArrayBox) -> Vec<ArrayBox> {
        let of = |dims: &[u64]| self.axes.iter().map(|&axis| dims[axis]).collect();
        let boxes = self.inner.tile_boxes(&self.inside(region));
        boxes.iter().map(|own| ArrayBox { start: of(&own.start), shape: of(&own.shape) }).collect()
    }

    fn is_reversed(&self, axis: usize) -> bool {
        self.inner.is_reversed(self.axes[axis])
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
        self.inner.load(mover, &canvas.as_section(&self.axes, &self.at))
    }

    fn load_beside(&self, mover: &mut Mover, canvas: &Canvas, edges: &mut Edges) -> Result<()> {
        self.inner.load_beside(mover, &canvas.as_section(&self.axes, &self.at), edges)
    }
}
