//! How an array that is written is cut into groups: boxes that memory holds at once.

use super::pass::PART;
use crate::boxes::movement::part_shape;
use outcrop_store::layout::{AxisOrder, Layout};
use outcrop_store::store::Store;
use outcrop_store::{ArrayBox, Dims, Result, TileGrid};
use smallvec::SmallVec;

/// Groups, in the order in which they are moved.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// The groups, as a tiling of the target.
    pub grid: TileGrid,
    pub cut: Cut,
    /// The order of elements in blocks, and in the frame of a group: the target's, slowest axis first.
    pub order: AxisOrder,
    /// The order in which groups follow one another: axes, slowest first, and those along which they come from the
    /// end on. It is that of the source's elements on disk.
    nesting: AxisOrder,
    backwards: SmallVec<[bool; 4]>,
}

/// How groups are cut into frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// The target's tiles.
    Target,
    /// The source's tiles.
    Source,
    /// Each group has one frame, in the order of both arrays.
    Group,
    /// Blocks, for arrays in which other axes are fastest: a load unit fills its part of many, and one or many make
    /// up a store unit. They come and go one by one, so that a group is loaded into the memory that the one
    /// before leaves.
    Blocks(Blocks),
    /// The same where the whole group is one block, a run of the target.
    Run(Blocks),
}

impl Cut {
    /// The shapes of load and store units, where arrays have other axes as their fastest.
    pub(super) fn units(&self) -> Option<&Blocks> {
        match self {
            Cut::Blocks(blocks) | Cut::Run(blocks) => Some(blocks),
            _ => None,
        }
    }
}

/// The shapes into which a group is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Blocks {
    /// Of a load unit.
    pub load: Dims,
    /// Of a store unit.
    pub store: Dims,
    /// Of a frame: a part of a store unit.
    pub block: Dims,
    /// Whether each is one run of the target, which is written from where it is. It takes parts of all load units: what
    /// the group before leaves is only of use when all of that has been stored.
    pub are_runs: bool,
}

/// Load units, and store units, of a group, roughly: enough that memory comes back in small parts.
const UNITS: u64 = 48;
/// Bytes of them, at least, where the group is large enough: requests of this size are fast. (Measured, reading
/// and writing at once, 35 to 64 MiB of memory: 1.6 GB/s with units of 1 MiB, 2.4 GB/s with these.)
const LEAST: u64 = 11 << 18;
/// Frames along one axis of a group, at most. There is a limit to how many mappings a process may have.
const FRAMES: u64 = 64;

impl Groups {
    /// Groups of the shape `group` of the target: with frames that are runs of it, where there can be such and
    /// `in_runs` asks for them.
    pub(super) fn new(
        source: &dyn Store,
        target: &dyn Store,
        group: &[u64],
        in_runs: bool,
    ) -> Result<Groups> {
        let shape = &target.info().shape;
        let ndim = shape.len();
        let natural = || (0..ndim).collect::<AxisOrder>();
        let (from, to) = (source.file_axes(), target.file_axes());
        let reversed: SmallVec<[bool; 4]> = (0..ndim).map(|a| source.is_reversed(a)).collect();
        let cut = match (&from, &to) {
            (_, None) => Cut::Target,
            (None, _) => Cut::Source,
            (Some(from), Some(to))
                if is_linear(source) && is_linear(target) && is_same_order(shape, from, to, &reversed) =>
            {
                Cut::Group
            }
            (Some(from), Some(to)) => {
                let blocks = blocks(source, target, from, to, group, in_runs);
                if blocks.are_runs && is_linear(target) { Cut::Run(blocks) } else { Cut::Blocks(blocks) }
            }
        };
        let grid = TileGrid::new(shape, group)?;
        // Otherwise the target's order: what is stored comes in the order of its places.
        let (nesting, backwards) = match &from {
            Some(from) if cut.units().is_some() => (from.clone(), reversed),
            _ => (to.clone().unwrap_or_else(natural), SmallVec::from_elem(false, ndim)),
        };
        Ok(Groups { grid, cut, order: to.unwrap_or_else(natural), nesting, backwards })
    }

    pub(super) fn pieces(&self) -> u64 {
        self.grid.tiles()
    }

    /// The box of a group.
    pub(super) fn group(&self, mut piece: u64) -> ArrayBox {
        let counts = self.grid.counts();
        let mut coords = counts.clone();
        for &axis in self.nesting.iter().rev() {
            let i = piece % counts[axis];
            piece /= counts[axis];
            coords[axis] = if self.backwards[axis] { counts[axis] - 1 - i } else { i };
        }
        self.grid.tile_box(&coords)
    }

    /// Whether a group lies beside the one before it, along the source's fastest axis.
    pub(super) fn follows(&self, piece: u64) -> bool {
        !piece.is_multiple_of(self.in_row())
    }

    /// Whether frames are runs of the target, for arrays in which other axes are fastest.
    pub(super) fn are_in_runs(&self) -> bool {
        self.cut.units().is_some_and(|blocks| blocks.are_runs)
    }

    /// How many groups there are along the source's fastest axis.
    pub(super) fn in_row(&self) -> u64 {
        self.nesting.last().map_or(1, |&axis| self.grid.counts()[axis])
    }

    /// Of groups with so many runs in the target each, the runs that end before those that follow them come.
    pub(super) fn waiting(&self, runs: u64) -> u64 {
        let counts = self.grid.counts();
        let Some(cut) = self.order.iter().rev().copied().find(|&axis| counts[axis] > 1) else { return 0 };
        // All groups along the axes that come first.
        let faster = self.nesting.iter().rev().take_while(|&&axis| axis != cut);
        if runs == 1 { 0 } else { runs * faster.map(|&axis| counts[axis]).product::<u64>() }
    }

    /// Whether groups lie beside one another, their load units whole along the source's fastest axis.
    pub(super) fn are_beside(&self) -> bool {
        let Some(blocks) = self.cut.units() else { return false };
        self.nesting
            .last()
            .is_some_and(|&axis| self.grid.counts()[axis] > 1 && blocks.load[axis] == self.grid.tile[axis])
    }
}

impl Blocks {
    /// A shape no larger than a box.
    pub(super) fn clipped(shape: &[u64], region: &ArrayBox) -> Dims {
        shape.iter().zip(&region.shape).map(|(&s, &n)| s.min(n).max(1)).collect()
    }

    /// The store units of a group, from its start on.
    pub(super) fn stores(&self, group: &ArrayBox) -> TileGrid {
        grid(&group.shape, &Self::clipped(&self.store, group))
    }

    /// How many blocks each of its store units has, at most. Of runs, one that is cut short has fewer; others are so along
    /// other axes than those along which blocks are cut.
    pub(super) fn in_store(&self, group: &ArrayBox) -> usize {
        let unit = self.stores(group).tile_box(&Dims::from_elem(0, group.ndim()));
        grid(&unit.shape, &Self::clipped(&self.block, &unit)).tiles() as usize
    }

    /// The box of a block, by the place of its frame: one store unit's after the other's.
    pub(super) fn frame_box(&self, group: &ArrayBox, frame: usize) -> ArrayBox {
        let (stores, each) = (self.stores(group), self.in_store(group));
        let unit = stores.tile_box(&stores.coords((frame / each) as u64));
        let blocks = grid(&unit.shape, &Self::clipped(&self.block, &unit));
        let mut found = blocks.tile_box(&blocks.coords((frame % each) as u64));
        for (a, start) in found.start.iter_mut().enumerate() {
            *start += unit.start[a] + group.start[a];
        }
        found
    }

    /// The places of the frames whose blocks a box touches.
    pub(super) fn touched(&self, group: &ArrayBox, region: &ArrayBox) -> Vec<usize> {
        let inside = |region: &ArrayBox, of: &ArrayBox| {
            let mut moved = region.clone();
            moved.start.iter_mut().zip(&of.start).for_each(|(s, o)| *s -= o);
            moved
        };
        let (stores, each) = (self.stores(group), self.in_store(group));
        let region = inside(region, group);
        let mut found = Vec::new();
        for unit in stores.tiles_of(&region) {
            let own = stores.tile_box(&unit);
            let blocks = grid(&own.shape, &Self::clipped(&self.block, &own));
            let first = stores.linear_index(&unit) as usize * each;
            let common = own.intersect(&region).expect("the units of a box touch it");
            let places = blocks.tiles_of(&inside(&common, &own));
            found.extend(places.map(|b| first + blocks.linear_index(&b) as usize));
        }
        found
    }
}

fn grid(shape: &[u64], tile: &[u64]) -> TileGrid {
    TileGrid::new(shape, tile).expect("no extent is 0")
}

/// Whether an array is one run of elements, not one of panels.
fn is_linear(store: &dyn Store) -> bool {
    store.info().layout != Layout::Tiled
}

/// Whether a box of this shape is one run of an array, of panels one that begins where one of these does.
fn is_run(store: &dyn Store, shape: &[u64]) -> bool {
    store.extents(&ArrayBox::whole(shape)).count == 1
}

/// Whether elements follow one another in the same order in two arrays of this shape.
fn is_same_order(shape: &[u64], from: &[usize], to: &[usize], reversed: &[bool]) -> bool {
    let long = |order: &[usize]| order.iter().copied().filter(|&a| shape[a] > 1).collect::<AxisOrder>();
    long(from) == long(to) && !(0..shape.len()).any(|a| reversed[a] && shape[a] > 1)
}

fn blocks(
    source: &dyn Store,
    target: &dyn Store,
    from: &[usize],
    to: &[usize],
    group: &[u64],
    in_runs: bool,
) -> Blocks {
    let itemsize = target.info().dtype.size() as u64;
    let bytes = target.info().box_bytes(group);
    let unit = (bytes / UNITS).max(LEAST.min(bytes / 9)).max(itemsize);
    let whole = ArrayBox::whole(group);
    // Runs that are apart take up more staging memory than they have bytes, and fit it whole.
    let extents = source.extents(&whole);
    let overhead = if extents.count > 1 { extents.bytes as f64 / (extents.bytes + 8192) as f64 } else { 1.0 };
    let load = part_shape(from, group, itemsize, unit.min(((2 * PART) as f64 * overhead) as u64));
    let mut store = part_shape(to, group, itemsize, unit.min(4 * PART));
    if is_linear(target) {
        if in_runs && is_run(target, group) {
            return Blocks { load, store, block: group.into(), are_runs: true };
        }
    } else {
        // Panels are stored whole.
        store = group.into();
        let tile = &target.info().tile;
        let mut parts = bytes.div_ceil(unit);
        for axis in (0..group.len()).filter(|&a| tile[a] < group[a]) {
            let panels = group[axis].div_ceil(tile[axis]);
            let here = parts.clamp(1, panels);
            store[axis] = (panels.div_ceil(here) * tile[axis]).min(group[axis]);
            parts = parts.div_ceil(here);
        }
        let block: Dims = (0..group.len()).map(|a| tile[a].min(group[a])).collect();
        if in_runs && is_run(target, &block) && grid(group, &block).tiles() <= FRAMES * FRAMES {
            return Blocks { load, store, block, are_runs: true };
        }
    }
    let mut block: Dims = (0..group.len())
        .map(|a| {
            if store[a] < group[a] || load[a] >= group[a] {
                return store[a];
            }
            // Several load units to a block, where there are very many.
            load[a] * (group[a].div_ceil(load[a])).div_ceil(FRAMES)
        })
        .collect();
    let along = |block: &Dims, a: usize| group[a].div_ceil(block[a].max(1));
    while (0..group.len()).map(|a| along(&block, a)).product::<u64>() > FRAMES * FRAMES {
        let cut = (0..group.len()).filter(|&a| store[a] >= group[a] && block[a] < group[a]);
        let Some(axis) = cut.max_by_key(|&a| along(&block, a)) else { break };
        block[axis] = (block[axis] * 2).min(group[axis]);
    }
    Blocks { load, store, block, are_runs: false }
}
