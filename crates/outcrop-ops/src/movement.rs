//! How many threads move boxes, and with how much staging memory.

use outcrop_engine::Runtime;
use outcrop_engine::stream::{Loaders, Threads};
use outcrop_store::layout::Layout;
use outcrop_store::store::{Staging, Store};
use outcrop_store::{ArrayBox, TileGrid};

/// Threads in each direction, where the budget allows. Each keeps a tile's worth of requests in
/// flight, so that four reach the depth at which devices are fast.
const MOVERS: usize = 4;

/// No staging memory.
pub(crate) const NONE: Staging = Staging { least: 0, wanted: 0 };

/// Threads for loads and stores with these needs: as many as leave three quarters of the budget for
/// frames, at least one each.
pub(crate) fn threads(runtime: &Runtime, load: Staging, store: Option<Staging>) -> Threads {
    threads_beside(runtime, 0, load, store)
}

/// The same, also leaving at least so many bytes for frames. What the least budget has to hold must
/// not grow with the budget.
pub(crate) fn threads_beside(
    runtime: &Runtime,
    frames: usize,
    load: Staging,
    store: Option<Staging>,
) -> Threads {
    let limit = runtime.budget().limit();
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
            if more.staging() <= (limit / 4).min(limit.saturating_sub(frames)) {
                choice = more;
            }
        }
    }
    choice
}

/// Boxes in which a box of an array is best moved by several threads: its tiles, or parts of about
/// `bytes` bytes of a row-major or column-major array, in file order.
pub(crate) fn units(store: &dyn Store, region: &ArrayBox, bytes: u64) -> Vec<ArrayBox> {
    let info = store.info();
    if region.is_empty() {
        return Vec::new();
    }
    if info.layout == Layout::Tiled {
        let grid = TileGrid::new(&info.shape, &info.tile).expect("a stored array has a grid");
        return grid.tiles_of(region).filter_map(|c| grid.tile_box(&c).intersect(region)).collect();
    }
    // Slowest axes first; each part is one index of the axes before, a range of one, all of the rest.
    let ndim = region.ndim();
    let file_axis = |i: usize| if info.layout == Layout::ColumnMajor { ndim - 1 - i } else { i };
    let itemsize = info.dtype.size() as u64;
    let mut inner = itemsize;
    let mut cut = ndim;
    while cut > 0 && inner < bytes {
        cut -= 1;
        inner *= region.shape[file_axis(cut)];
    }
    if inner <= bytes || cut == ndim {
        return vec![region.clone()];
    }
    let axis = file_axis(cut);
    let per_index = inner / region.shape[axis];
    let mut tile: Vec<u64> = region.shape.to_vec();
    (0..cut).for_each(|i| tile[file_axis(i)] = 1);
    let parts = inner.div_ceil(bytes);
    tile[axis] = region.shape[axis].div_ceil(parts);
    // Parts that begin at the edge of a block share none.
    if tile[axis] < region.shape[axis] && per_index < 4096 && 4096 % per_index == 0 {
        tile[axis] = tile[axis].next_multiple_of(4096 / per_index);
    }
    let grid = TileGrid::new(&region.shape, &tile).expect("extents of a box that is not empty");
    (0..grid.tiles())
        .map(|i| {
            let mut part = grid.tile_box(&grid.coords(i));
            part.start.iter_mut().zip(&region.start).for_each(|(s, r)| *s += r);
            part
        })
        .collect()
}
