//! Loss of power: whatever of what was not made durable is there or missing afterwards, the old array or
//! the new one is, whole.
//!
//! Every step of a commit is a moment at which the power may go. What the medium may hold then is made,
//! several times, and opened as a user would.

mod medium;

use medium::{Chance, Left, Medium};
use outcrop_store::format::zarr::Labels;
use outcrop_store::frame::Budget;
use outcrop_store::io::Cancel;
use outcrop_store::io::disk::{Disk, EngineChoice};
use outcrop_store::io::fault::{Faults, Operation, Step};
use outcrop_store::store::open::{As, NewFormat, create, open};
use outcrop_store::store::{Canvas, Mover, Patch, Store};
use outcrop_store::{ArrayBox, DType, Error};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const SHAPE: [u64; 2] = [6, 8];
const TILE: [u64; 2] = [3, 3];
const OLD: f64 = 1.0;
const NEW: f64 = 100.0;

fn seed() -> u64 {
    let given = std::env::var("OUTCROP_SEED").ok().and_then(|s| s.parse().ok());
    given.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    })
}

/// A directory in memory where there is one: a sync costs nothing there.
fn quick_dir() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// Elements that tell every place from every other.
fn values(from: f64) -> Vec<f64> {
    (0..SHAPE[0] * SHAPE[1]).map(|i| from + i as f64).collect()
}

struct Bench {
    disk: Arc<Disk>,
    budget: Arc<Budget>,
}

impl Bench {
    fn new() -> Bench {
        Bench { disk: Disk::new(EngineChoice::Threads).unwrap(), budget: Budget::new(64 << 20) }
    }

    fn mover(&self, store: &dyn Store) -> Mover<'_> {
        let staging = store.staging(false).wanted.max(store.commit_staging());
        Mover::new(&self.disk, &self.budget, staging, &Cancel::default()).unwrap()
    }

    fn load(&self, store: &dyn Store) -> Result<Vec<f64>, Error> {
        let whole = ArrayBox::whole(&SHAPE);
        let mut values = values(-1e9);
        let patch = Patch::dense(whole.clone(), values.as_mut_ptr().cast(), 0, 8);
        // SAFETY: as many values as the box has elements, which nobody else knows.
        store.load(&mut self.mover(store), &unsafe { Canvas::new(whole, 8, [patch]) })?;
        Ok(values)
    }

    /// Stores some rows of values.
    fn store(&self, store: &dyn Store, from: f64, rows: u64) -> Result<(), Error> {
        let region = ArrayBox::new([0, 0], [rows, SHAPE[1]]);
        let mut values = values(from);
        let patch = Patch::dense(region.clone(), values.as_mut_ptr().cast(), 0, 8);
        // SAFETY: as above.
        store.store(&mut self.mover(store), &unsafe { Canvas::new(region, 8, [patch]) })
    }

    fn make(&self, path: &Path, kind: Kind, from: f64, overwrite: bool) -> Result<(), Error> {
        let store = create(&self.disk, path, &SHAPE, DType::F64, kind.format(), overwrite)?;
        self.store(&*store, from, SHAPE[0])?;
        store.commit(&mut self.mover(&*store))
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Tiled,
    Foreign(u8),
    Npy,
}

impl Kind {
    fn format(self) -> NewFormat {
        let labels = Labels::default();
        match self {
            Kind::Tiled => {
                NewFormat::Zarr { tile: Some((&TILE[..]).into()), encoding: Default::default(), labels }
            }
            Kind::Foreign(zarr_format) => NewFormat::Foreign {
                zarr_format,
                codecs: if zarr_format == 2 {
                    r#"[{"id":"zlib","level":1}]"#
                } else {
                    r#"[{"name":"crc32c"}]"#
                }
                .into(),
                tile: Some((&TILE[..]).into()),
                labels,
            },
            Kind::Npy => NewFormat::Npy { column_major: false },
        }
    }

    fn name(self) -> &'static str {
        if matches!(self, Kind::Npy) { "a.npy" } else { "a.zarr" }
    }
}

/// Files with their bytes, and directories, by name.
fn listing(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let bytes = if path.is_dir() { None } else { Some(std::fs::read(&path).unwrap()) };
            if bytes.is_none() {
                open.push(path.clone());
            }
            found.insert(path, bytes);
        }
    }
    found
}

/// Checks what a loss of power has left: `old`, where there was one, or `new`, which it has to be once
/// the work is `done`.
fn check(kind: Kind, place: &Path, old: Option<&[f64]>, new: &[f64], done: bool, story: &str) {
    let bench = Bench::new();
    let path = place.join(kind.name());
    let is_lawful = |found: &[f64]| found == new || (!done && Some(found) == old);
    let before = listing(place);
    match open(&bench.disk, &path, &As::Found, false) {
        Ok(store) => {
            let found = bench.load(&*store).unwrap_or_else(|e| panic!("{story}: cannot be read: {e}"));
            assert!(is_lawful(&found), "{story}: holds {found:?}");
        }
        Err(Error::NotFound { .. }) => assert!(old.is_none() && !done, "{story}: is gone"),
        Err(error) => panic!("{story}: cannot be opened: {error}"),
    }
    assert!(listing(place) == before, "{story}: reading has changed what is there");
    if !matches!(kind, Kind::Npy) {
        match open(&bench.disk, &path, &As::Found, true) {
            Ok(store) => {
                let found = bench.load(&*store).unwrap();
                assert!(is_lawful(&found), "{story}: holds {found:?} for a writer");
            }
            Err(Error::NotFound { .. }) => assert!(old.is_none() && !done, "{story}: is gone for a writer"),
            Err(error) => panic!("{story}: cannot be opened for writing: {error}"),
        }
    }
    bench.make(&path, kind, 7.0, true).unwrap_or_else(|e| panic!("{story}: the next run fails: {e}"));
    let leftovers: Vec<PathBuf> = listing(place)
        .into_keys()
        .filter(|p| p.to_string_lossy().contains(".outcrop-") && !p.ends_with(".outcrop-index"))
        .collect();
    assert!(leftovers.is_empty(), "{story}: the next run leaves {leftovers:?}");
    let store = open(&bench.disk, &path, &As::Found, false).unwrap();
    assert_eq!(bench.load(&*store).unwrap(), values(7.0), "{story}: after the next run");
}

/// Does `work` on an old array, if there is one, and takes the power away at each of its steps.
fn lose_power(
    kind: Kind,
    has_old: bool,
    new: &[f64],
    rules: &str,
    work: impl Fn(&Bench, &Path) -> Result<(), Error>,
) {
    let seed = seed();
    println!("OUTCROP_SEED={seed}");
    let place = quick_dir();
    let path = place.path().join(kind.name());
    let bench = Bench::new();
    if has_old {
        bench.make(&path, kind, OLD, false).unwrap();
    }
    let old = has_old.then(|| values(OLD));
    let medium = Arc::new(Mutex::new(Medium::new(place.path())));
    let after = quick_dir();
    let lost = {
        let (medium, after, new) = (Arc::clone(&medium), after.path().to_path_buf(), new.to_vec());
        let mut chance = Chance(seed);
        let mut count = 0;
        move |step: Option<Step>| {
            let mut medium = medium.lock().unwrap();
            medium.look();
            // The power goes before the step, when everything before it has been done.
            let lefts = [Left::Nothing, Left::Everything, Left::Names, Left::Bytes];
            for left in lefts.into_iter().chain([Left::Some; 6]) {
                count += 1;
                let target = after.join(count.to_string());
                medium.leave(left, &mut chance, &target);
                let story = format!("{kind:?}, state {count}, before {step:?}, {left:?} left, seed {seed}");
                check(kind, &target, old.as_deref(), &new, step.is_none(), &story);
                std::fs::remove_dir_all(target).unwrap();
            }
            if let Some(step) = step {
                medium.step(step);
            }
            count
        }
    };
    let lost = Arc::new(Mutex::new(lost));
    let faults: Faults = rules.parse().unwrap();
    let watcher = Arc::clone(&lost);
    let watched = faults.watched(move |step| {
        if !matches!(step, Step::Other(Operation::Read | Operation::Open)) {
            watcher.lock().unwrap()(Some(step));
        }
    });
    bench.disk.set_faults(Some(Arc::new(watched)));
    work(&bench, &path).unwrap();
    bench.disk.set_faults(None);
    let states = lost.lock().unwrap()(None);
    assert!(states > 50, "only {states} states");
}

fn overwrite(kind: Kind) -> impl Fn(&Bench, &Path) -> Result<(), Error> {
    move |bench, path| bench.make(path, kind, NEW, true)
}

/// Three rows of new values: of a tiled array, some tiles of it.
fn update(bench: &Bench, path: &Path) -> Result<(), Error> {
    let store = open(&bench.disk, path, &As::Found, true)?;
    bench.store(&*store, NEW, 3)?;
    store.commit(&mut bench.mover(&*store))
}

fn updated() -> Vec<f64> {
    let (old, mut new) = (values(OLD), values(NEW));
    new[24..].copy_from_slice(&old[24..]);
    new
}

#[test]
fn a_new_array_of_tiles() {
    lose_power(Kind::Tiled, false, &values(NEW), "", overwrite(Kind::Tiled));
}

#[test]
fn a_new_array_of_foreign_chunks() {
    for version in [2, 3] {
        lose_power(Kind::Foreign(version), false, &values(NEW), "", overwrite(Kind::Foreign(version)));
    }
}

#[test]
fn a_new_file() {
    lose_power(Kind::Npy, false, &values(NEW), "", overwrite(Kind::Npy));
}

#[test]
fn an_array_that_is_replaced() {
    for kind in [Kind::Tiled, Kind::Foreign(3), Kind::Npy] {
        lose_power(kind, true, &values(NEW), "", overwrite(kind));
    }
}

/// The exchange of names is the third renaming of an array of tiles (the index and `zarr.json` come
/// first), and the first of a file.
#[test]
fn an_array_that_is_replaced_where_names_cannot_be_exchanged() {
    lose_power(Kind::Tiled, true, &values(NEW), "rename:3:einval:once", overwrite(Kind::Tiled));
    lose_power(Kind::Npy, true, &values(NEW), "rename:1:einval:once", overwrite(Kind::Npy));
}

#[test]
fn an_array_whose_tiles_are_changed() {
    for kind in [Kind::Tiled, Kind::Foreign(2), Kind::Foreign(3)] {
        lose_power(kind, true, &updated(), "", update);
    }
}
