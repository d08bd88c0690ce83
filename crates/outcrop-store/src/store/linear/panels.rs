//! An array's elements in its file, panel by panel.

use super::{LinearArray, traffic};
use crate::error::{Error, Result};
use crate::layout::{AxisOrder, Layout, LinearLayout};
use crate::shape::{ArrayBox, BoxIndices, TileGrid};
use crate::store::transfer::canvas::Canvas;
use crate::store::transfer::seams::Waiting;
use crate::store::{Extents, Finding, Info, Mover, Staging, Store};
use std::sync::Arc;

/// The elements of an array that is being made, in another order: panel after panel, each as dense as the whole,
/// and inside each with the axes in an order of their own.
///
/// What is moved in two passes waits in this order between them, in the very file that it is going to:
/// a panel that is a contiguous part of the file is loaded, and stored again, with its elements in their final
/// order, over itself.
pub struct Panels {
    /// `None` where the array is only planned.
    array: Option<Arc<LinearArray>>,
    info: Info,
    places: Places,
}

/// Where panels lie.
struct Places {
    grid: TileGrid,
    axes: AxisOrder,
    layout: LinearLayout,
}

impl Places {
    /// The layout inside the panel at these coordinates, with its box in the array.
    fn panel(&self, coords: &[u64]) -> (ArrayBox, LinearLayout) {
        let panel = self.grid.tile_box(coords);
        // Elements in front: whole slabs, whole rows of panels of the last slab, and so on.
        let mut before = 0;
        for (i, &axis) in self.layout.axes.iter().enumerate() {
            let slower: u64 = self.layout.axes[..i].iter().map(|&a| panel.shape[a]).product();
            let faster: u64 = self.layout.axes[i + 1..].iter().map(|&a| self.layout.shape[a]).product();
            before += slower * panel.start[axis] * faster;
        }
        let itemsize = self.layout.itemsize;
        let layout = LinearLayout {
            shape: panel.shape.clone(),
            itemsize,
            axes: self.axes.clone(),
            offset: self.layout.offset + before * itemsize as u64,
        };
        (panel, layout)
    }

    /// The parts of a box in each panel: in the array, in the panel, and the panel's layout.
    fn parts<'a>(
        &'a self,
        region: &'a ArrayBox,
    ) -> impl Iterator<Item = (ArrayBox, ArrayBox, LinearLayout)> + 'a {
        let coords: BoxIndices = self.grid.tiles_of(region);
        coords.filter_map(move |coords| {
            let (panel, layout) = self.panel(&coords);
            let mut common = panel.intersect(region)?;
            common.start.iter_mut().zip(&panel.start).for_each(|(s, p)| *s -= p);
            Some((panel, common, layout))
        })
    }

    fn end(&self) -> u64 {
        self.layout.end()
    }

    fn to_load(&self, region: &ArrayBox, room: usize) -> u64 {
        self.parts(region).map(|(_, part, layout)| traffic::to_load(&layout, self.end(), &part, room)).sum()
    }

    fn to_store(&self, region: &ArrayBox) -> u64 {
        self.parts(region).map(|(_, part, layout)| traffic::to_store(&layout, self.end(), &part)).sum()
    }
}

impl Panels {
    /// Panels of this shape of an array, each with the axes in this order, slowest first.
    ///
    /// # Errors
    /// [`Error::Invalid`] where an extent is 0.
    pub(super) fn new(array: Arc<LinearArray>, tile: &[u64], axes: &[usize]) -> Result<Panels> {
        let (info, layout) = (array.info.clone(), array.layout.clone());
        Ok(Panels { array: Some(array), ..Panels::sketched(info, layout, tile, axes)? })
    }

    /// The same of an array that is only planned. Nothing can be moved.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn sketched(info: Info, layout: LinearLayout, tile: &[u64], axes: &[usize]) -> Result<Panels> {
        let grid = TileGrid::new(&info.shape, tile)?;
        let info = Info { tile: tile.into(), layout: Layout::Tiled, ..info };
        Ok(Panels { array: None, info, places: Places { grid, axes: axes.into(), layout } })
    }

    fn array(&self) -> Result<&LinearArray> {
        self.array.as_deref().ok_or_else(|| Error::invalid("the array is only planned"))
    }
}

impl Store for Panels {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        super::staging()
    }

    fn file_axes(&self) -> Option<AxisOrder> {
        Some(self.places.axes.clone())
    }

    fn extents(&self, region: &ArrayBox) -> Extents {
        // All panels are like the first one, but for those at the array's end.
        let Some((_, part, layout)) = self.places.parts(region).next() else {
            return Extents { count: 0, bytes: 0 };
        };
        let runs = layout.runs(&part);
        let panels = self.places.grid.tiles_of(region).count() as u64;
        Extents { count: panels * runs.count(), bytes: runs.run_bytes }
    }

    fn phase(&self, region: &ArrayBox) -> usize {
        self.places.parts(region).next().map_or(0, |(_, part, layout)| traffic::phase(&layout, &part))
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        Ok(self.places.to_load(region, usize::MAX >> 1))
    }

    fn bytes_to_load_with(&self, region: &ArrayBox, staging: usize) -> Result<u64> {
        Ok(self.places.to_load(region, staging))
    }

    fn bytes_to_store(&self, region: &ArrayBox) -> Result<u64> {
        Ok(self.places.to_store(region))
    }

    /// What waits to be whole is left out: it belongs to the array in its final order.
    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        let array = self.array()?;
        for (panel, part, layout) in self.places.parts(canvas.region()) {
            let canvas = canvas.within(&panel);
            array.load_box(&layout, mover, &canvas.part(&part), &Waiting::default())?;
        }
        array.shared.file.drop_cache();
        Ok(())
    }

    fn store(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        let parts = self.places.parts(canvas.region());
        let boxes = parts.map(|(panel, part, layout)| (layout, canvas.within(&panel).part(&part)));
        self.array()?.store_by(mover, boxes)
    }

    fn commit_staging(&self) -> usize {
        super::LEAST_STAGING
    }

    fn settle(&self, mover: &mut Mover) -> Result<()> {
        let array = self.array()?;
        array.flush_seams(mover)?;
        array.begin();
        Ok(())
    }

    fn commit(&self, _mover: &mut Mover) -> Result<()> {
        Err(Error::invalid("what is between two passes is not committed"))
    }

    fn abort(&self) {
        self.array.as_ref().inspect(|array| array.abort());
    }

    fn is_pending(&self) -> bool {
        self.array.as_ref().is_some_and(|array| array.is_pending())
    }

    fn stored_bytes(&self) -> Result<u64> {
        self.array()?.stored_bytes()
    }

    fn units(&self) -> u64 {
        0
    }

    fn check(&self, _mover: &mut Mover, _unit: u64) -> Result<Finding> {
        Ok(Finding::Sound)
    }
}
