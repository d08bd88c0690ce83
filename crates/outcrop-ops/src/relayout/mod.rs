//! From one array to another, whatever their formats, tiles and orientation.
//!
//! The target is cut into *groups*: boxes that the budget holds. In one pass, each group is loaded and stored.
//! Where the source is fast along one axis and the target along another, groups that fit small budgets are many
//! short pieces of one of the files. Then two passes may be faster: the first one leaves *panels*, each a
//! contiguous part of the target with its elements in the source's order, and the second one puts the elements
//! of each panel in order. Where memory holds a good part of all, the first one can keep panels there
//! ([`keeping`]). All are planned, and what is predicted to take the least time is taken.

mod choose;
mod fold;
mod groups;
mod keeping;
mod pass;
mod rates;

use choose::{Expected, Task};
use fold::Folded;
use groups::Cut;
use keeping::Keeping;
use outcrop_engine::Runtime;
use outcrop_engine::Watch;
use outcrop_engine::plan::device::Device;
use outcrop_engine::report::Report;
use outcrop_engine::runtime::scratch::ScratchDir;
use outcrop_engine::runtime::{beside_callbacks, left_to_callbacks};
use outcrop_store::io::Cancel;
use outcrop_store::io::disk::{device_of, parent_of};
use outcrop_store::layout::Layout;
use outcrop_store::store::adapters::oriented::{Orientation, OrientedArray};
use outcrop_store::store::open::{NewFormat, create};
use outcrop_store::store::sketch::Sketch;
use outcrop_store::store::{Info, Store};
use outcrop_store::{ArrayBox, Dims, Error, Result, TileGrid};
use pass::Pass;
use std::sync::Arc;

/// A movement that is planned.
pub struct Movement {
    target: Arc<dyn Store>,
    way: Way,
    commit: u64,
    measured: bool,
    others: Vec<(String, f64)>,
}

/// How everything is moved.
enum Way {
    /// In passes, one after the other.
    Passes {
        passes: Vec<Expected>,
        /// Where elements wait between two of them, if not in the target's own file.
        scratch: Option<Between>,
    },
    /// In two, the first of which keeps a part in memory.
    Keeping(Box<Keeping>),
}

impl Way {
    /// In these passes, of which the last one is over when all is durable.
    fn through(mut passes: Vec<Expected>, scratch: Option<Between>, job: &Task<'_>) -> Way {
        if let Some((last, before)) = passes.split_last_mut() {
            let before: f64 = before.iter().map(|p| p.seconds).sum();
            let (first, end) = (before + last.first, before + last.seconds);
            last.seconds = job.devices.1.durable(job.target.info().nbytes(), first, end) - before;
        }
        Way::Passes { passes, scratch }
    }

    fn seconds(&self) -> f64 {
        match self {
            // The sum of no numbers is -0.
            Way::Passes { passes, .. } => passes.iter().map(|p| p.seconds).fold(0.0, |sum, s| sum + s),
            Way::Keeping(keeping) => keeping.seconds(),
        }
    }

    /// Seconds, as many times as a pass reads all there is: where one takes blocks of the disk again and again, it takes
    /// the disk from others.
    fn weight(&self) -> f64 {
        let times_read = match self {
            Way::Passes { passes, .. } => passes.iter().map(|p| p.times_read).fold(1.0, f64::max),
            Way::Keeping(_) => 1.0,
        };
        self.seconds() * times_read
    }

    fn peak(&self) -> usize {
        match self {
            Way::Passes { passes, .. } => passes.iter().map(|p| p.peak).max().unwrap_or(0),
            Way::Keeping(keeping) => keeping.peak(),
        }
    }

    fn facts(&self) -> Result<Vec<PassFacts>> {
        let facts = |expected: &Expected| {
            let (bytes_read, bytes_written) = expected.pass.bytes()?;
            let remark = remark(&expected.pass);
            Ok(PassFacts { remark, bytes_read, bytes_written, seconds: expected.seconds })
        };
        match self {
            Way::Passes { passes, .. } => passes.iter().map(facts).collect(),
            Way::Keeping(keeping) => keeping.facts(),
        }
    }

    /// For people.
    fn describe(&self) -> String {
        match self {
            Way::Passes { passes, .. } => {
                let remarks: Vec<String> = passes.iter().map(|p| remark(&p.pass)).collect();
                let count = if passes.len() == 1 { "one pass" } else { "two passes" };
                format!("{count}: {}", remarks.join("; "))
            }
            Way::Keeping(keeping) => format!("two passes: {}", keeping.remarks().join("; ")),
        }
    }
}

/// How elements wait between two passes.
struct Between {
    shape: Dims,
    panel: Dims,
    axes: Vec<usize>,
}

/// What is expected of a pass.
#[derive(Clone, Debug)]
pub struct PassFacts {
    /// How it moves, for people.
    pub remark: String,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// How long it takes.
    pub seconds: f64,
}

impl Movement {
    /// The passes, in order. Every piece is looked at to count its bytes.
    ///
    /// # Errors
    /// Those of the stores, where stored sizes have to be looked up.
    pub fn passes(&self) -> Result<Vec<PassFacts>> {
        self.way.facts()
    }

    /// Bytes written at the end beside those of the passes.
    pub fn commit_bytes(&self) -> u64 {
        self.commit
    }

    /// Bytes of the budget in use at once, at most.
    pub fn peak_bytes(&self) -> usize {
        self.way.peak()
    }

    /// Bytes of scratch space.
    pub fn scratch_bytes(&self) -> u64 {
        match &self.way {
            Way::Passes { scratch: Some(_), .. } => self.target.info().nbytes(),
            _ => 0,
        }
    }

    /// Whether the speed of the devices was measured.
    pub fn is_measured(&self) -> bool {
        self.measured
    }

    /// How long it takes.
    pub fn seconds(&self) -> f64 {
        self.way.seconds()
    }

    /// What was not chosen: how it would move, and seconds.
    pub fn others(&self) -> &[(String, f64)] {
        &self.others
    }

    /// Moves. The target is not committed.
    fn run(self, runtime: &Runtime, watch: &mut dyn Watch) -> Result<Report> {
        let (mut passes, between) = match self.way {
            Way::Passes { passes, scratch } => (passes, scratch),
            Way::Keeping(keeping) => return keeping.run(runtime, watch),
        };
        let mut scratch = None;
        if let Some(between) = &between {
            let dir = ScratchDir::new(&runtime.scratch_dir())?;
            let format = NewFormat::Raw { column_major: false };
            let dtype = self.target.info().dtype;
            let path = dir.path().join("between");
            let file = create(runtime.disk(), &path, &between.shape, dtype, format, false)?;
            let panels = Arc::clone(&file).panels(&between.panel, &between.axes).expect("it is one file");
            passes[0].pass.target = Arc::clone(&panels);
            passes[1].pass.source = panels;
            scratch = Some((file, dir));
        }
        let count = passes.len() as u64;
        let mut sum = Report::default();
        let moved = (|| {
            for (i, Expected { pass, .. }) in passes.iter().enumerate() {
                let done = i as u64;
                let mut part = |now: u64, total: u64| watch.tick(done * total + now, count * total);
                let report = pass.run(runtime, &mut part)?;
                sum.operation = report.operation;
                sum.add(&report);
                if done + 1 < count {
                    let staging = pass.target.commit_staging();
                    pass.target.settle(&mut runtime.mover(staging, pass.operation, &Cancel::default())?)?;
                }
            }
            Ok(sum)
        })();
        // Files first, then the directory in which they are.
        if let Some((file, dir)) = scratch {
            file.abort();
            drop((passes, file, dir));
        }
        moved
    }
}

/// How a pass moves, for people.
fn remark(pass: &Pass) -> String {
    let group = &pass.groups.grid.tile;
    let n = pass.groups.pieces();
    if n == 0 {
        return "nothing to move".into();
    }
    let region = pass.groups.group(n / 2);
    let mut in_source = region.clone();
    in_source.start.iter_mut().zip(&pass.origin).for_each(|(s, o)| *s += o);
    let (read, written) = (pass.source.extents(&in_source), pass.target.extents(&region));
    format!(
        "{n} group{} of {}, read in pieces of {}, written in pieces of {}",
        if n == 1 { "" } else { "s" },
        shape_of(group),
        size(read.bytes),
        size(written.bytes)
    )
}

/// A shape, for people.
fn shape_of(extents: &[u64]) -> String {
    extents.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ")
}

/// Bytes, for people.
fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if value < 10.0 && unit != "B" { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Copies a box of `source` to the whole of `target`, which has the source's element type, and the box's shape in
/// the orientation that is asked for.
///
/// # Errors
/// Those of the stores; [`Error::Invalid`] where shapes or types differ, or both are one array;
/// [`Error::Budget`]; [`Error::Interrupted`] where the watch says so.
pub fn copy(
    runtime: &Runtime,
    source: &Arc<dyn Store>,
    region: &ArrayBox,
    orientation: Option<&Orientation>,
    target: &Arc<dyn Store>,
    watch: &mut dyn Watch,
) -> Result<Report> {
    let _operation = runtime.operation(watch)?;
    crate::boxes::access::flush(runtime, source)?;
    runtime.resident().forget(target, &ArrayBox::whole(&target.info().shape));
    plan(runtime, source, region, orientation, target)?.run(runtime, watch)
}

/// Plans a movement, as [`copy`] would carry it out now. The target may be a [`Sketch`].
///
/// # Errors
/// As for [`copy`].
pub fn plan(
    runtime: &Runtime,
    source: &Arc<dyn Store>,
    region: &ArrayBox,
    orientation: Option<&Orientation>,
    target: &Arc<dyn Store>,
) -> Result<Movement> {
    region.check_inside(&source.info().shape)?;
    let plain = Orientation::plain(region.ndim());
    let orientation = orientation.unwrap_or(&plain);
    let shown = OrientedArray::of(source, orientation.clone())?;
    check_pair(source, shown.info(), &orientation.shown(region, &source.info().shape), target)?;
    let operation = if orientation.is_plain() { "copy" } else { "transpose" };
    match fold::folded(source, region, orientation, target) {
        Some(Folded { source, region, orientation, target }) => {
            plan_as_it_is(runtime, operation, &source, &region, &orientation, &target)
        }
        None => plan_as_it_is(runtime, operation, source, region, orientation, target),
    }
}

fn plan_as_it_is(
    runtime: &Runtime,
    operation: &'static str,
    source: &Arc<dyn Store>,
    region: &ArrayBox,
    orientation: &Orientation,
    target: &Arc<dyn Store>,
) -> Result<Movement> {
    let shown = OrientedArray::of(source, orientation.clone())?;
    let region = orientation.shown(region, &source.info().shape);
    let bytes = target.info().nbytes();
    let commit = target.bytes_to_commit();
    if bytes == 0 {
        let target = Arc::clone(target);
        return Ok(Movement {
            target,
            way: Way::Passes { passes: Vec::new(), scratch: None },
            commit,
            measured: true,
            others: Vec::new(),
        });
    }
    let mut job = task(runtime, operation, &shown, region.start.clone(), target);
    let ndim = region.ndim();
    let tiles = |store: &Arc<dyn Store>| store.file_axes().is_none().then(|| store.info().tile.clone());
    let unit = tiles(target).or_else(|| tiles(&shown)).unwrap_or_else(|| Dims::from_elem(1, ndim));
    let one = job.best(&unit);
    let mut ways = Vec::new();
    if is_worth_two(&job, &one) {
        ways.extend(two_passes(&job).map(|(passes, scratch)| Way::through(passes, scratch, &job)));
        ways.extend(Keeping::best(&job).map(|keeping| Way::Keeping(Box::new(keeping))));
    }
    match one {
        // Where they take the same time, the first of them is taken.
        Ok(one) => ways.insert(0, Way::through(vec![one], None, &job)),
        Err(error) if ways.is_empty() => return Err(least(&mut job, error)),
        Err(_) => {}
    }
    ways.sort_by(|a, b| a.weight().total_cmp(&b.weight()));
    let mut ways = ways.into_iter();
    let way = ways.next().expect("there is one");
    // What nobody would do is not worth a line.
    let others = ways.filter(|other| other.seconds() < 50.0 * way.seconds());
    Ok(Movement {
        target: Arc::clone(target),
        commit,
        measured: job.devices.0.is_measured() && job.devices.1.is_measured(),
        others: others.map(|other| (other.describe(), other.seconds())).collect(),
        way,
    })
}

fn task<'a>(
    runtime: &'a Runtime,
    operation: &'static str,
    source: &Arc<dyn Store>,
    origin: Dims,
    target: &Arc<dyn Store>,
) -> Task<'a> {
    let device = |store: &Arc<dyn Store>| runtime.device(&store.info().path, target.info().nbytes());
    let elsewhere = runtime.used_elsewhere();
    let limit = runtime.limit().saturating_sub(elsewhere);
    let left = if source.calls_back() { left_to_callbacks(limit) } else { 0 };
    Task {
        runtime,
        operation,
        devices: (device(source), device(target)),
        same_device: is_same_device(source, target),
        source: Arc::clone(source),
        origin,
        target: Arc::clone(target),
        again: false,
        limit: limit - left,
        elsewhere,
        used: 0,
    }
}

/// Memory sizes that are tried for naming the least.
const LEAST_TRIED: usize = 14;

/// The error of a budget in which there is no way to move, with the least in which there is one: `error` names
/// what a single pass takes by itself, and two may take less.
fn least(job: &mut Task<'_>, error: Error) -> Error {
    let Error::Budget { purpose, needed, budget } = error else { return error };
    let (mut too_little, mut enough) = (job.limit, needed as usize);
    for _ in 0..LEAST_TRIED {
        let between = (too_little + enough.saturating_sub(too_little) / 2).next_multiple_of(4096);
        if between >= enough {
            break;
        }
        job.limit = between;
        let works = rooms(job).any(|room| through_panels(job, room).is_some());
        *if works { &mut enough } else { &mut too_little } = between;
    }
    let enough = if job.source.calls_back() { beside_callbacks(enough) } else { enough };
    Error::Budget { purpose, needed: (enough + job.elsewhere) as u64, budget }
}

fn is_same_device(one: &Arc<dyn Store>, other: &Arc<dyn Store>) -> bool {
    let device = |store: &Arc<dyn Store>| device_of(parent_of(&store.info().path)).ok();
    device(one) == device(other)
}

/// How much longer than moving all bytes once a single pass may take before two are considered.
const WORTH_TWO: f64 = 1.15;

/// Bytes that are moved in one pass where memory holds all of them. For more, it may take longer to use so much memory for
/// the first time.
const ALL_AT_ONCE: u64 = 64 << 20;

/// Whether more than one pass may be worth it.
fn is_worth_two(job: &Task<'_>, one: &Result<Expected>) -> bool {
    let bytes = job.target.info().nbytes();
    let Ok(one) = one else { return true };
    // What is all in memory at once is moved in the longest pieces there are.
    if one.pass.groups.pieces() == 1 && bytes <= ALL_AT_ONCE {
        return false;
    }
    let least = job.devices.0.read(bytes, 1).max(job.devices.1.write(bytes, 1, false));
    one.pass.groups.cut != Cut::Group
        && one.seconds >= WORTH_TWO * least.max(job.devices.1.both(bytes, bytes, false))
}

/// The best two plain passes, where there are such.
fn two_passes(job: &Task<'_>) -> Option<(Vec<Expected>, Option<Between>)> {
    let mut best: Option<(f64, Vec<Expected>, Option<Between>)> = None;
    for room in rooms(job) {
        let Some(found) = through_panels(job, room) else { continue };
        let seconds = found.0.iter().map(|e| e.seconds).sum();
        if best.as_ref().is_none_or(|(least, ..)| seconds < *least) {
            best = Some((seconds, found.0, found.1));
        }
    }
    best.map(|(_, passes, scratch)| (passes, scratch))
}

/// Bytes of panels that are tried.
fn rooms(job: &Task<'_>) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(job.limit as u64 * 4 / 5), |room| Some(room * 4 / 5)).take(12)
}

/// Two passes with panels of at most `room` bytes between them.
fn through_panels(job: &Task<'_>, room: u64) -> Option<(Vec<Expected>, Option<Between>)> {
    let target = job.target.info();
    let ndim = target.shape.len();
    let (panel, between, panels) = match job.target.file_axes() {
        Some(axes) => {
            let panel = contiguous(&axes, &target.shape, target.dtype.size() as u64, room)?;
            let inside = inside_panels(job, &panel);
            let panels = Arc::clone(&job.target).panels(&panel, &inside)?;
            (panel, None, panels)
        }
        None => {
            job.runtime.disk().require_space(&job.runtime.scratch_dir(), target.nbytes()).ok()?;
            // Rows of tiles.
            let grid = TileGrid::new(&target.shape, &target.tile).ok()?;
            let axes: Vec<usize> = (0..ndim).collect();
            let tile = target.box_bytes(&target.tile);
            let counts = contiguous(&axes, &grid.counts(), tile, room)?;
            let panel: Dims = (0..ndim).map(|a| (counts[a] * target.tile[a]).min(target.shape[a])).collect();
            let inside = inside_panels(job, &panel);
            let info = Info {
                path: job.runtime.scratch_dir().join("between"),
                layout: Layout::RowMajor,
                ..target.clone()
            };
            let panels = Arc::new(Sketch::in_one_file(info, 0)).panels(&panel, &inside)?;
            let between = Between { shape: target.shape.clone(), panel: panel.clone(), axes: inside };
            (panel, Some(between), panels)
        }
    };
    let device: Device = match &between {
        Some(_) => job.runtime.device(&panels.info().path, target.nbytes()),
        None => job.devices.1.clone(),
    };
    // Groups of the first pass consist of whole panels where those are cut, and of anything along other axes.
    let unit: Dims = match job.source.file_axes() {
        Some(_) => (0..ndim).map(|a| if panel[a] < target.shape[a] { panel[a] } else { 1 }).collect(),
        None => job.source.info().tile.clone(),
    };
    let near = |store: &Arc<dyn Store>| is_same_device(store, &panels);
    let same_device = (near(&job.source), near(&job.target));
    let first = Task {
        same_device: same_device.0,
        target: Arc::clone(&panels),
        source: Arc::clone(&job.source),
        origin: job.origin.clone(),
        devices: (job.devices.0.clone(), device.clone()),
        ..*job
    };
    let devices = (device, job.devices.1.clone());
    let first = first.best(&unit).ok()?;
    let second =
        turning(job, panels, devices, same_device.1, between.is_none(), first.peak).exactly(&panel)?;
    Some((vec![first, second], between))
}

/// The order of the axes inside panels, in which elements wait as they come. Those of tiles come in long pieces where
/// the axis along which panels are short is the fastest.
fn inside_panels(job: &Task<'_>, panel: &[u64]) -> Vec<usize> {
    let ndim = panel.len();
    match (job.source.file_axes(), job.target.file_axes()) {
        (Some(axes), _) => axes.to_vec(),
        (None, axes) => {
            let mut axes = axes.map_or_else(|| (0..ndim).collect(), |a| a.to_vec());
            // Along those before it, they have one index.
            let short = axes.iter().position(|&axis| panel[axis] > 1).unwrap_or(0);
            axes.rotate_left((short + 1).min(ndim));
            axes
        }
    }
}

/// Putting the elements of each panel in order: `again` where that is written over the panel. Before it, the run has
/// `used` so much memory.
fn turning<'a>(
    job: &Task<'a>,
    panels: Arc<dyn Store>,
    devices: (Device, Device),
    same_device: bool,
    again: bool,
    used: usize,
) -> Task<'a> {
    Task {
        same_device,
        origin: Dims::from_elem(0, panels.info().shape.len()),
        source: panels,
        target: Arc::clone(&job.target),
        devices,
        again,
        used,
        ..*job
    }
}

/// The largest box that is contiguous in an array with its axes in this order, and has at most `room` bytes; `None`
/// where it is the whole array, or there is none.
fn contiguous(axes: &[usize], shape: &[u64], itemsize: u64, room: u64) -> Option<Dims> {
    let mut panel: Dims = shape.into();
    let mut bytes = itemsize * shape.iter().product::<u64>();
    for &axis in axes {
        if bytes <= room {
            break;
        }
        // As few as fit, all nearly alike.
        bytes /= shape[axis];
        let most = (room / bytes).clamp(1, shape[axis]);
        panel[axis] = shape[axis].div_ceil(shape[axis].div_ceil(most));
        bytes *= panel[axis];
    }
    (bytes <= room && panel.as_slice() != shape).then_some(panel)
}

fn check_pair(stored: &Arc<dyn Store>, source: &Info, region: &ArrayBox, to: &Arc<dyn Store>) -> Result<()> {
    let target = to.info();
    if Arc::ptr_eq(stored, to) {
        return Err(Error::invalid(format!("{}: source and target are one array", source.path.display())));
    }
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
