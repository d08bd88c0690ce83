//! Stored arrays, results and temporaries as arrays of a program.

use outcrop_engine::plan::Plan;
use outcrop_engine::program::{ArrayId, Cost, Declaration, Program, Role, beyond};
use outcrop_engine::schedule::Action;
use outcrop_store::format::zarr::{Encoding, Labels};
use outcrop_store::frame::charged;
use outcrop_store::layout::Layout;
use outcrop_store::store::sketch::Sketch;
use outcrop_store::store::tiled::Prospect;
use outcrop_store::store::{Info, Store};
use outcrop_store::{ArrayBox, DType, Dims, Result, TileGrid};
use std::path::Path;
use std::sync::Arc;

/// What a result is made of, or will be.
#[derive(Clone)]
pub enum Target {
    /// A new Zarr array of our own, with these tiles, or the program's.
    New {
        /// Shape of a tile.
        tile: Option<Dims>,
        /// What goes with its elements.
        labels: Box<Labels>,
    },
    /// An array that is there.
    Store(Arc<dyn Store>),
    /// A part of one, from here on; in an array of tiles, of whole tiles.
    Part(Arc<dyn Store>, Dims),
}

impl Target {
    /// Tile extents that the result asks for.
    pub fn tile(&self) -> Option<Dims> {
        match self {
            Target::New { tile, .. } => tile.clone(),
            Target::Store(store) | Target::Part(store, _) => {
                let info = store.info();
                (info.layout == Layout::Tiled).then(|| info.tile.clone())
            }
        }
    }
}

/// Declares a box of a stored array, cut into tiles of this shape, each of which reaches so far into those that follow.
/// Where tiles pass through staging memory, they do in as long pieces as the store would like, if those have at most
/// `room` bytes.
///
/// # Errors
/// Those of the store.
pub fn input(
    program: &mut Program,
    name: &str,
    store: &Arc<dyn Store>,
    region: &ArrayBox,
    tile: &[u64],
    overlap: &[u64],
    room: usize,
) -> Result<ArrayId> {
    let info = store.info();
    let own = &info.tile;
    // Tiles that are made of whole ones of the store's.
    let whole = overlap.iter().all(|&n| n == 0)
        && (0..tile.len()).all(|a| tile[a].is_multiple_of(own[a]) && region.start[a].is_multiple_of(own[a]))
        // A box that ends inside a tile is not what the tile holds.
        && (0..tile.len()).all(|a| region.end(a).is_multiple_of(own[a]) || region.end(a) == info.shape[a]);
    let exact = store.moves_whole_tiles() && whole && own.as_slice() == tile;
    let inner: Dims = region.shape.iter().zip(overlap).map(|(n, more)| n.saturating_sub(*more)).collect();
    let grid = TileGrid::new(&inner, tile)?;
    let in_store = |i: u64| {
        let mut found = grid.tile_box(&grid.coords(i));
        found.shape = beyond(&found.shape, overlap);
        found.start.iter_mut().zip(&region.start).for_each(|(s, o)| *s += o);
        found
    };
    let straight = grid.tiles() > 0 && store.loads_straight(&in_store(0));
    let skew =
        if straight { (0..grid.tiles()).map(|i| store.phase(&in_store(i))).max().unwrap_or(0) } else { 0 };
    let tile = beyond(tile, overlap);
    let bytes = info.box_bytes(&tile) as usize;
    let liked = if straight { 0 } else { store.staging(false).wanted.min(room) };
    let staging = match store.staging_of_whole(&tile) {
        _ if exact => 0,
        Some(staging) if whole => staging,
        _ => store.staging_of(&tile).max(liked),
    };
    let declaration = Declaration {
        name,
        role: Role::Input,
        dtype: info.dtype,
        overlap: overlap.into(),
        origin: region.start.to_vec(),
        initial: None,
        frame: if exact { store.tile_frame() } else { bytes + skew },
        skewed: skew > 0,
        staging,
        pieces: if grid.tiles() > 0 { store.extents(&in_store(0)).count } else { 0 },
        commit: 0,
        grid: grid.clone(),
    };
    program.calls_back |= store.calls_back();
    let room = charged(staging);
    program.array(declaration, |region| Ok(Cost { load: store.bytes_to_load_with(region, room)?, store: 0 }))
}

/// What a result, or a temporary, is declared with.
pub struct New<'a> {
    /// For people.
    pub name: &'a str,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: &'a [u64],
    /// Those of a tile.
    pub tile: &'a [u64],
    /// What its tiles hold at first.
    pub initial: Option<ArrayId>,
}

impl New<'_> {
    /// Declares a result.
    ///
    /// # Errors
    /// Those of the store; [`outcrop_store::Error::Invalid`] where there can be no such array.
    pub fn output(self, program: &mut Program, target: &Target) -> Result<ArrayId> {
        let New { name, dtype, shape, tile, initial } = self;
        let grid = TileGrid::new(shape, tile)?;
        let origin = if let Target::Part(_, start) = target { start.to_vec() } else { Vec::new() };
        let declaration = |frame, staging, pieces, commit| Declaration {
            name,
            role: Role::Output,
            dtype,
            grid: grid.clone(),
            overlap: Dims::new(),
            origin: origin.clone(),
            initial,
            frame,
            skewed: false,
            staging,
            pieces,
            commit,
        };
        match target {
            Target::New { tile: own, labels } => {
                let own = own.clone().unwrap_or_else(|| tile.into());
                let prospect = Prospect::new(shape, dtype, &own, Encoding::default(), labels)?;
                let exact = own.as_slice() == tile;
                let (frame, staging) = if exact { (prospect.frame, 0) } else { (0, prospect.frame) };
                program.array(declaration(frame, staging, 1, prospect.commit), |region| {
                    let bytes = prospect.grid.tiles_of(region).count() as u64 * prospect.tile;
                    Ok(Cost { load: bytes, store: bytes })
                })
            }
            Target::Store(store) | Target::Part(store, _) => {
                let exact = store.moves_whole_tiles() && store.info().tile.as_slice() == tile;
                let (frame, staging) =
                    if exact { (store.tile_frame(), 0) } else { (0, store.staging_of(tile)) };
                let pieces = if grid.tiles() > 0 {
                    store.extents(&grid.tile_box(&Dims::from_elem(0, shape.len()))).count
                } else {
                    0
                };
                program.array(declaration(frame, staging, pieces, store.bytes_to_commit()), |region| {
                    let stored = store.bytes_to_store(region)?;
                    // It is not there yet, and what is not there costs nothing: what it will cost is
                    // what storing it does.
                    let load = if store.info().layout == Layout::Tiled {
                        stored
                    } else {
                        store.bytes_to_load(region)?
                    };
                    Ok(Cost { load, store: stored })
                })
            }
        }
    }

    /// Declares a temporary.
    ///
    /// # Errors
    /// [`outcrop_store::Error::Invalid`] where there are too many tiles.
    pub fn temporary(self, program: &mut Program) -> Result<ArrayId> {
        let New { name, dtype, shape, tile, initial } = self;
        let grid = TileGrid::new(shape, tile)?;
        let bytes = charged(grid.tile_elements() as usize * dtype.size()) as u64;
        let declaration = Declaration {
            name,
            role: Role::Temporary,
            dtype,
            grid,
            overlap: Dims::new(),
            origin: Vec::new(),
            initial,
            frame: 0,
            skewed: false,
            staging: 0,
            pieces: 1,
            commit: 0,
        };
        program.array(declaration, |_| Ok(Cost { load: bytes, store: bytes }))
    }
}

/// A result of a plan as a Zarr array at a path, of which nothing is made: what moving it will take, once it is there.
/// Its tiles are those of the program, or others that divide them. Tiles that no step writes are not in it.
///
/// # Errors
/// [`outcrop_store::Error::Invalid`] where there can be no such array.
pub fn sketch(plan: &Plan, array: ArrayId, tile: Option<&[u64]>, path: &Path) -> Result<Sketch> {
    let (program, declared) = (&plan.program, plan.program.array_at(array));
    let grid = TileGrid::new(&declared.shape(), tile.unwrap_or(&declared.grid.tile))?;
    let stored = plan.schedule.actions().filter_map(|action| match action {
        Action::Store(tile) if program.array_of(tile) == array => Some(program.region(tile)),
        _ => None,
    });
    let numbers = stored.flat_map(|region| {
        grid.tiles_of(&region).map(|coords| grid.linear_index(&coords)).collect::<Vec<_>>()
    });
    let numbers = numbers.collect();
    let info = Info {
        path: path.into(),
        shape: declared.shape(),
        dtype: declared.dtype,
        tile: grid.tile.clone(),
        layout: Layout::Tiled,
        format: "zarr",
        codecs: String::new(),
        attributes: "{}".into(),
        writable: false,
    };
    Ok(Sketch::tiled(info, Encoding::default(), &Labels::default())?.of_some(numbers))
}
