//! Arrays that are only planned.

use super::linear::{Panels, staging, traffic};
use super::tiled::Prospect;
use super::transfer::canvas::Canvas;
use super::{Finding, Info, Mover, Staging, Store};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::format::zarr::{Encoding, Labels};
use crate::frame::charged;
use crate::layout::{Layout, LinearLayout};
use crate::shape::{ArrayBox, Dims, default_tile};
use std::collections::HashSet;
use std::sync::Arc;

/// An array that does not exist yet: it tells what moving its boxes will take, for plans, and moves nothing.
pub struct Sketch {
    info: Info,
    kind: Kind,
}

enum Kind {
    InMemory,
    InOneFile(LinearLayout),
    /// With the numbers of the tiles that will be stored, where some are not: those hold zeros, and cost nothing.
    Tiled(Prospect, Option<HashSet<u64>>),
}

impl Sketch {
    /// An array in one file that will be as `info` says, with its first element at `offset`.
    pub fn in_one_file(info: Info, offset: u64) -> Sketch {
        let layout = LinearLayout { offset, ..info.linear() };
        Sketch { info, kind: Kind::InOneFile(layout) }
    }

    /// An array in memory.
    pub fn in_memory(shape: &[u64], dtype: DType) -> Sketch {
        let info = Info {
            path: "memory".into(),
            shape: shape.into(),
            dtype,
            tile: default_tile(shape, dtype.size()),
            layout: Layout::RowMajor,
            format: "memory",
            codecs: "none".into(),
            attributes: "{}".into(),
            writable: false,
        };
        Sketch { info, kind: Kind::InMemory }
    }

    /// A Zarr array of our own that will be as `info` says, with tiles that are so encoded.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there can be no such array.
    pub fn tiled(info: Info, encoding: Encoding, labels: &Labels) -> Result<Sketch> {
        let prospect = Prospect::new(&info.shape, info.dtype, &info.tile, encoding, labels)?;
        Ok(Sketch { info, kind: Kind::Tiled(prospect, None) })
    }
}

impl Sketch {
    /// The same array where, of its tiles, only those with these numbers will be stored.
    pub fn of_some(mut self, numbers: HashSet<u64>) -> Sketch {
        if let Kind::Tiled(_, stored) = &mut self.kind {
            *stored = Some(numbers);
        }
        self
    }
}

fn planned<T>() -> Result<T> {
    Err(Error::invalid("the array is only planned"))
}

impl Store for Sketch {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, exact: bool) -> Staging {
        let tile = |least| Staging { least, wanted: least };
        match &self.kind {
            Kind::InMemory => tile(0),
            Kind::InOneFile(_) => staging(),
            Kind::Tiled(prospect, _) => {
                let grid = &prospect.grid;
                let whole = grid.shape.iter().zip(&grid.tile).all(|(n, t)| n.is_multiple_of(*t));
                tile(if exact && whole { prospect.staging } else { prospect.frame.max(prospect.staging) })
            }
        }
    }

    fn tile_frame(&self) -> usize {
        match &self.kind {
            Kind::InMemory | Kind::InOneFile(_) => charged(self.info.box_bytes(&self.info.tile) as usize),
            Kind::Tiled(prospect, _) => prospect.frame,
        }
    }

    fn thickness(&self) -> Option<u64> {
        match &self.kind {
            Kind::Tiled(prospect, _) => prospect.encoding.thickness(),
            Kind::InMemory | Kind::InOneFile(_) => None,
        }
    }

    fn phase(&self, region: &ArrayBox) -> usize {
        match &self.kind {
            Kind::InOneFile(layout) => traffic::phase(layout, region),
            Kind::InMemory | Kind::Tiled(..) => 0,
        }
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        Ok(match &self.kind {
            Kind::InMemory => 0,
            Kind::InOneFile(layout) => traffic::to_load(layout, layout.end(), region, usize::MAX >> 1),
            Kind::Tiled(Prospect { grid, tile, .. }, stored) => {
                let is_stored = |coords: &Dims| {
                    stored.as_ref().is_none_or(|stored| stored.contains(&grid.linear_index(coords)))
                };
                grid.tiles_of(region).filter(is_stored).count() as u64 * tile
            }
        })
    }

    fn bytes_to_store(&self, region: &ArrayBox) -> Result<u64> {
        Ok(match &self.kind {
            Kind::InMemory => 0,
            Kind::InOneFile(layout) => traffic::to_store(layout, layout.end(), region),
            Kind::Tiled(prospect, _) => prospect.grid.tiles_of(region).count() as u64 * prospect.tile,
        })
    }

    fn bytes_to_commit(&self) -> u64 {
        match &self.kind {
            Kind::InMemory | Kind::InOneFile(_) => 0,
            Kind::Tiled(prospect, _) => prospect.commit,
        }
    }

    fn panels(self: Arc<Self>, tile: &[u64], axes: &[usize]) -> Option<Arc<dyn Store>> {
        let Kind::InOneFile(layout) = &self.kind else { return None };
        Some(Arc::new(Panels::sketched(self.info.clone(), layout.clone(), tile, axes).ok()?))
    }

    fn folded(self: Arc<Self>, shape: &[u64]) -> Option<Arc<dyn Store>> {
        let Kind::InOneFile(layout) = &self.kind else { return None };
        let info = Info { shape: shape.into(), layout: Layout::RowMajor, ..self.info.clone() };
        Some(Arc::new(Sketch::in_one_file(info, layout.offset)))
    }

    fn load(&self, _mover: &mut Mover, _canvas: &Canvas) -> Result<()> {
        planned()
    }

    fn store(&self, _mover: &mut Mover, _canvas: &Canvas) -> Result<()> {
        planned()
    }

    fn commit(&self, _mover: &mut Mover) -> Result<()> {
        planned()
    }

    fn abort(&self) {}

    fn is_pending(&self) -> bool {
        false
    }

    fn stored_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    fn units(&self) -> u64 {
        0
    }

    fn check(&self, _mover: &mut Mover, _unit: u64) -> Result<Finding> {
        planned()
    }
}
