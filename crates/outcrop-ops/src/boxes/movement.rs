//! How many threads move boxes, and with how much staging memory.

use outcrop_engine::Runtime;
use outcrop_engine::stream::{Loaders, Threads};
use outcrop_store::store::{Staging, Store};
use outcrop_store::{ArrayBox, Dims, TileGrid};

/// Threads in each direction, where the budget allows. Each keeps a tile's worth of requests in
/// flight, so that four reach the depth at which devices are fast.
const MOVERS: usize = 4;

/// No staging memory.
pub(crate) const NONE: Staging = Staging { least: 0, wanted: 0 };

/// Threads for loads and stores with these needs: as many as leave three quarters of the budget for
/// frames, at least one each.
pub(crate) fn threads(runtime: &Runtime, load: Staging, store: Option<Staging>) -> Threads {
    threads_beside(runtime.limit(), 0, load, store)
}

/// The same for `limit` bytes of memory, also leaving at least so many bytes for frames. What the least budget
/// has to hold must not grow with the budget.
pub(crate) fn threads_beside(limit: usize, frames: usize, load: Staging, store: Option<Staging>) -> Threads {
    let storers = |n: usize| if store.is_some() { n } else { 0 };
    let store = store.unwrap_or(NONE);
    let mut choice = Threads {
        loaders: Loaders::Threads(1),
        storers: storers(1),
        load_staging: load.least,
        store_staging: store.least,
        room: limit,
    };
    for movers in 1..=MOVERS {
        for (load_staging, store_staging) in [(load.least, store.least), (load.wanted, store.wanted)] {
            let loaders = Loaders::Threads(movers);
            let more =
                Threads { loaders, storers: storers(movers), load_staging, store_staging, room: limit };
            // However many threads move small pieces, two that have what they want move more.
            let is_worse = choice.loaders != Loaders::Threads(1)
                && (load_staging < choice.load_staging || store_staging < choice.store_staging);
            if !is_worse && more.staging() <= (limit / 4).min(limit.saturating_sub(frames)) {
                choice = more;
            }
        }
    }
    choice
}

/// Boxes in which a box of an array is best moved by several threads: its tiles, or parts of about
/// `bytes` bytes of an array that is not tiled, in file order.
pub(crate) fn units(store: &dyn Store, region: &ArrayBox, bytes: u64) -> Vec<ArrayBox> {
    let info = store.info();
    if region.is_empty() {
        return Vec::new();
    }
    let Some(axes) = store.file_axes() else { return store.tile_boxes(region) };
    parts(region, &part_shape(&axes, &region.shape, info.dtype.size() as u64, bytes))
}

/// A box cut into parts of this shape.
pub(crate) fn parts(region: &ArrayBox, shape: &[u64]) -> Vec<ArrayBox> {
    let grid = TileGrid::new(&region.shape, shape).expect("extents of a box that is not empty");
    (0..grid.tiles())
        .map(|i| {
            let mut part = grid.tile_box(&grid.coords(i));
            part.start.iter_mut().zip(&region.start).for_each(|(s, r)| *s += r);
            part
        })
        .collect()
}

/// The shape of the parts of about `bytes` bytes into which a box is cut along the slowest of its axes in file
/// order.
pub(crate) fn part_shape(axes: &[usize], shape: &[u64], itemsize: u64, bytes: u64) -> Dims {
    // Each part is one index of the slowest axes, a range of one, all of the rest.
    let mut inner = itemsize;
    let mut cut = axes.len();
    while cut > 0 && inner < bytes {
        cut -= 1;
        inner *= shape[axes[cut]];
    }
    let mut part: Dims = shape.into();
    if inner <= bytes || cut == axes.len() {
        return part;
    }
    let axis = axes[cut];
    let per_index = inner / shape[axis];
    axes[..cut].iter().for_each(|&slower| part[slower] = 1);
    part[axis] = shape[axis].div_ceil(inner.div_ceil(bytes));
    // Parts that begin at the edge of a block share none.
    if part[axis] < shape[axis] && per_index < 4096 && 4096 % per_index == 0 {
        part[axis] = part[axis].next_multiple_of(4096 / per_index).min(shape[axis]);
    }
    part
}

/// The largest box inside `region` that consists of whole tiles.
pub(crate) fn whole_tiles(grid: &TileGrid, region: &ArrayBox) -> Option<ArrayBox> {
    let mut inner = region.clone();
    for axis in 0..region.ndim() {
        let tile = grid.tile[axis];
        let from = region.start[axis].next_multiple_of(tile);
        let end = region.end(axis);
        let to = if end == grid.shape[axis] { end } else { end / tile * tile };
        if from >= to {
            return None;
        }
        inner.start[axis] = from;
        inner.shape[axis] = to - from;
    }
    Some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_threads_have_what_they_want_where_more_would_not() {
        let load = Staging { least: 64 << 10, wanted: 4 << 20 };
        let store = Staging { least: 2 << 20, wanted: 2 << 20 };
        let chosen = |room: usize| {
            let threads = threads_beside(256 << 20, (256 << 20) - room, load, Some(store));
            assert!(threads.staging() <= room);
            (threads.storers, threads.load_staging)
        };
        assert_eq!(chosen(64 << 20), (4, 4 << 20));
        assert_eq!(chosen(20 << 20), (3, 4 << 20));
        assert_eq!(chosen(14 << 20), (2, 4 << 20));
        // One thread waits for the disk.
        assert_eq!(chosen(9 << 20), (4, 64 << 10));
    }
}
