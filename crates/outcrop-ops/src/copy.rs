//! From one array to another, whatever their formats and tiles.
//!
//! The target is cut into *groups*: boxes that fit the budget at least once, better twice, so that
//! one is stored while the next is loaded. A group consists of whole tiles of a tiled target. Among
//! the possible groups, the one with the least estimated cost is taken: long runs in row-major and
//! column-major files, few source tiles that several groups need.

use crate::movement::{threads_beside, units};
use outcrop_engine::Runtime;
use outcrop_engine::report::Report;
use outcrop_engine::stream::{self, Frames, Job, Threads, Watch};
use outcrop_store::frame::charged;
use outcrop_store::layout::{Layout, LinearLayout};
use outcrop_store::store::{Canvas, Info, Mover, Patch, Store};
use outcrop_store::{ArrayBox, Dims, Error, Result, TileGrid};
use std::sync::Arc;

/// Bytes of the parts in which threads take on a row-major or column-major box.
const PART: u64 = 4 << 20;
/// What a request costs beside its bytes, in bytes that could be moved in the time.
const REQUEST: f64 = 16384.0;
/// Extents of a group that are tried along one axis, at most.
const TRIED: usize = 40;

/// A copy that is planned.
struct Plan<'a> {
    source: &'a dyn Store,
    target: &'a dyn Store,
    /// First index in the source of the box that is copied.
    origin: Dims,
    itemsize: usize,
    /// The groups, as a tiling of the target.
    groups: TileGrid,
    /// Boxes with a frame each, as a tiling of the target in which groups are whole.
    frames: Cut,
}

/// How groups are cut into frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// The target's tiles.
    Target,
    /// The source's tiles.
    Source,
    /// Each group has one frame.
    Group,
}

impl Plan<'_> {
    fn group(&self, piece: u64) -> ArrayBox {
        self.groups.tile_box(&self.groups.coords(piece))
    }

    /// A box of the target, in the source's coordinates.
    fn in_source(&self, region: &ArrayBox) -> ArrayBox {
        let mut moved = region.clone();
        moved.start.iter_mut().zip(&self.origin).for_each(|(s, o)| *s += o);
        moved
    }

    fn in_target(&self, region: &ArrayBox) -> ArrayBox {
        let mut moved = region.clone();
        moved.start.iter_mut().zip(&self.origin).for_each(|(s, o)| *s -= o);
        moved
    }

    /// The boxes of a group that have a frame each, in the target's coordinates.
    fn parts(&self, group: &ArrayBox) -> Vec<ArrayBox> {
        match self.frames {
            Cut::Group => vec![group.clone()],
            Cut::Target => units(self.target, group, PART),
            Cut::Source => {
                let tiles = units(self.source, &self.in_source(group), PART);
                tiles.iter().map(|tile| self.in_target(tile)).collect()
            }
        }
    }

    fn frame_bytes(&self, part: &ArrayBox) -> usize {
        let source = crate::access::frame_bytes(self.source, part);
        source.max(crate::access::frame_bytes(self.target, part))
    }

    /// The memory of a group, seen from the target, and moved for the source.
    fn canvas(&self, group: &ArrayBox, frames: &Frames, place: impl Fn(&ArrayBox) -> ArrayBox) -> Canvas {
        let parts = self.parts(group);
        let patches = parts.iter().enumerate().filter_map(|(i, part)| {
            let frame = frames.get(i)?;
            Some(Patch::dense(place(part), frame.as_ptr(), frame.len(), self.itemsize))
        });
        // SAFETY: the parts cover the group, each has a frame of its own that lives until its store
        // unit is done, and units touch disjoint boxes.
        unsafe { Canvas::new(place(group), self.itemsize, patches) }
    }
}

impl Job for Plan<'_> {
    fn operation(&self) -> &'static str {
        "copy"
    }
    fn pieces(&self) -> u64 {
        self.groups.tiles()
    }
    fn frames(&self, piece: u64) -> Vec<usize> {
        self.parts(&self.group(piece)).iter().map(|part| self.frame_bytes(part)).collect()
    }
    fn load_units(&self, piece: u64) -> u64 {
        units(self.source, &self.in_source(&self.group(piece)), PART).len() as u64
    }
    fn store_units(&self, piece: u64) -> u64 {
        units(self.target, &self.group(piece), PART).len() as u64
    }
    fn load(&self, mover: &mut Mover, piece: u64, unit: u64, frames: &Frames) -> Result<()> {
        let group = self.group(piece);
        let unit = &units(self.source, &self.in_source(&group), PART)[unit as usize];
        let canvas = self.canvas(&group, frames, |part| self.in_source(part));
        self.source.load(mover, &canvas.part(unit))
    }
    fn store(&self, mover: &mut Mover, piece: u64, unit: u64, frames: &Frames) -> Result<()> {
        let group = self.group(piece);
        let unit = &units(self.target, &group, PART)[unit as usize];
        let canvas = self.canvas(&group, frames, ArrayBox::clone);
        self.target.store(mover, &canvas.part(unit))
    }
    fn frame_per_unit(&self) -> bool {
        self.frames == Cut::Target
    }
    fn progress(&self, piece: u64) -> u64 {
        self.target.info().box_bytes(&self.group(piece).shape)
    }
}

/// Copies a box of `source` to the whole of `target`, which has the box's shape and the source's
/// element type.
///
/// # Errors
/// Those of the stores; [`Error::Invalid`] where shapes or types differ, or both are one array;
/// [`Error::Budget`]; [`Error::Interrupted`] where the watch says so.
pub fn copy(
    runtime: &Runtime,
    source: &Arc<dyn Store>,
    region: &ArrayBox,
    target: &Arc<dyn Store>,
    watch: &mut dyn Watch,
) -> Result<Report> {
    region.check_inside(&source.info().shape)?;
    check_pair(source.info(), region, target.info())?;
    if Arc::ptr_eq(source, target) {
        return Err(Error::invalid(format!(
            "{}: source and target are one array",
            source.info().path.display()
        )));
    }
    let _turn = runtime.turn(watch)?;
    crate::access::flush(runtime, source)?;
    runtime.resident().forget(target, &ArrayBox::whole(&target.info().shape));
    let bytes = target.info().nbytes();
    runtime.tune(&source.info().path, bytes);
    runtime.tune(&target.info().path, bytes);
    let (plan, threads) = plan(runtime, source.as_ref(), region, target.as_ref())?;
    log::debug!("copy in groups of {:?}, frames by {:?}", plan.groups.tile, plan.frames);
    stream::run(runtime, &plan, threads, watch)
}

fn check_pair(source: &Info, region: &ArrayBox, target: &Info) -> Result<()> {
    if region.shape != target.shape {
        return Err(Error::invalid(format!(
            "a box {region} does not fill an array of shape {:?}",
            target.shape
        )));
    }
    if source.dtype != target.dtype {
        return Err(Error::invalid(format!("{} cannot be copied to {}", source.dtype, target.dtype)));
    }
    if source.path != target.path && source.path.starts_with(&target.path) {
        return Err(Error::invalid(format!(
            "{}: lies inside the target, which would replace it",
            source.path.display()
        )));
    }
    Ok(())
}

fn plan<'a>(
    runtime: &Runtime,
    source: &'a dyn Store,
    region: &ArrayBox,
    target: &'a dyn Store,
) -> Result<(Plan<'a>, Threads)> {
    let (s, t) = (source.info(), target.info());
    let frames = match (s.layout, t.layout) {
        (_, Layout::Tiled) => Cut::Target,
        (Layout::Tiled, _) => Cut::Source,
        _ => Cut::Group,
    };
    let ndim = region.ndim();
    // A box of whole tiles, or one that ends where the array does.
    let edge = |end: u64, a: usize| end.is_multiple_of(s.tile[a]) || end == s.shape[a];
    let aligned = s.layout == Layout::Tiled
        && (0..ndim).all(|a| region.start[a].is_multiple_of(s.tile[a]) && edge(region.end(a), a));
    let exact = aligned && (frames == Cut::Source || s.tile == t.tile);
    // The unit that groups are made of.
    let unit: Dims = match frames {
        Cut::Target => t.tile.clone(),
        Cut::Source => s.tile.clone(),
        Cut::Group => Dims::from_elem(1, ndim),
    };
    let mut plan = Plan {
        source,
        target,
        origin: region.start.clone(),
        itemsize: s.dtype.size(),
        groups: TileGrid::new(&t.shape, &unit)?,
        frames,
    };
    let memory = |plan: &Plan| -> usize {
        if plan.groups.tiles() == 0 {
            return 0;
        }
        // The group at the origin is as large as any.
        plan.parts(&plan.group(0)).iter().map(|part| charged(plan.frame_bytes(part))).sum()
    };
    let least = memory(&plan);
    let threads = threads_beside(runtime, least, source.staging(exact), Some(target.staging(true)));
    let limit = runtime.budget().limit();
    let room = limit.saturating_sub(threads.staging());
    if least > room {
        return Err(Error::Budget {
            purpose: "copying between these tiles".into(),
            needed: (threads.staging() + least) as u64,
            budget: limit as u64,
        });
    }
    let mut best = (cost(&plan), least, unit.clone());
    let mut candidates = Vec::new();
    let whole: Dims = (0..ndim).map(|a| t.shape[a].div_ceil(unit[a]).max(1)).collect();
    let bytes = (t.dtype.size() as u64) * unit.iter().product::<u64>();
    // Where tiles are free as soon as each is stored, the next group comes in while the last goes out,
    // and nearly two of them need not fit.
    let most = if frames == Cut::Target { room / 5 * 3 } else { room / 2 };
    extents(&whole, 0, &mut Dims::new(), bytes, most as u64, &mut candidates);
    for multiples in candidates {
        let group: Dims = (0..ndim).map(|a| (unit[a] * multiples[a]).min(t.shape[a].max(1))).collect();
        plan.groups = TileGrid::new(&t.shape, &group)?;
        let memory = memory(&plan);
        if memory > most {
            continue;
        }
        let cost = cost(&plan);
        // A smaller group of nearly the same cost leaves more room for overlapping.
        if cost < best.0 * 0.98 || (cost <= best.0 * 1.001 && memory < best.1) {
            best = (cost, memory, group);
        }
    }
    plan.groups = TileGrid::new(&t.shape, &best.2)?;
    Ok((plan, threads))
}

/// Multiples of the unit along each axis whose product stays in the room.
fn extents(whole: &[u64], axis: usize, chosen: &mut Dims, bytes: u64, room: u64, found: &mut Vec<Dims>) {
    if axis == whole.len() {
        found.push(chosen.clone());
        return;
    }
    let mut n = 1;
    for _ in 0..TRIED {
        if bytes.saturating_mul(n) > room && n > 1 {
            break;
        }
        chosen.push(n);
        extents(whole, axis + 1, chosen, bytes.saturating_mul(n), room, found);
        chosen.pop();
        if n == whole[axis] {
            break;
        }
        // Small steps first, then halves of powers of two, and the whole.
        n = if n < 4 { n + 1 } else { n + (1 << (n.ilog2() - 1)) }.min(whole[axis]);
    }
}

/// What copying by these groups costs, in bytes and their equivalents.
fn cost(plan: &Plan) -> f64 {
    let groups = plan.groups.tiles() as f64;
    if groups == 0.0 {
        return 0.0;
    }
    // A group in the middle is typical: its edges fall on any tiles, as most groups' do.
    let middle: Dims = plan.groups.counts().iter().map(|n| n / 2).collect();
    let group = plan.groups.tile_box(&middle);
    let ends: ArrayBox = plan.group(0);
    let full = ends.elements() as f64 / group.elements().max(1) as f64;
    let one = side(plan.source.info(), &plan.in_source(&group)) + side(plan.target.info(), &group);
    one * full * groups
}

/// What moving a box from or to an array costs.
fn side(info: &Info, region: &ArrayBox) -> f64 {
    let itemsize = info.dtype.size();
    if info.layout == Layout::Tiled {
        let grid = TileGrid::new(&info.shape, &info.tile).expect("a stored array has a grid");
        let tile_bytes = info.box_bytes(&info.tile) as f64;
        return grid.tiles_of(region).count() as f64 * (tile_bytes + REQUEST);
    }
    let layout = LinearLayout {
        shape: info.shape.clone(),
        itemsize,
        column_major: info.layout == Layout::ColumnMajor,
        offset: 0,
    };
    let runs = layout.runs(region);
    // A run touches a block at each end that it may share with the next group.
    let requests = runs.count() as f64 * (runs.run_bytes as f64 / (1 << 20) as f64).ceil();
    runs.count() as f64 * (runs.run_bytes as f64 + 4096.0) + requests * REQUEST
}
