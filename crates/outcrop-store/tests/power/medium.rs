//! A model of the medium: what a loss of power may leave of a directory.
//!
//! The directory is looked at before every step that [`Disk`](outcrop_store::io::Disk) does, and the
//! difference to the time before is what the step before has done. Of that, what was made durable stays:
//! by `syncfs` everything, by `fsync` the bytes of a file, or the names in a directory. Of the rest any
//! part may be there and any part missing, in any order, with two exceptions that file systems promise: a
//! renaming is there in whole or not at all, and bytes of a file that were not made durable are old, new,
//! zeros or nothing.

use outcrop_store::io::fault::Step;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The names in directories, and the bytes of files, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tree {
    names: BTreeMap<(u64, OsString), u64>,
    bytes: BTreeMap<u64, Vec<u8>>,
    dirs: BTreeSet<u64>,
}

/// Names that change together.
#[derive(Clone, Debug)]
struct Change(Vec<((u64, OsString), Option<u64>)>);

/// What is certain, and what is not, of a directory.
pub struct Medium {
    place: PathBuf,
    root: u64,
    durable: Tree,
    now: Tree,
    /// Changes of names since, in order.
    pending: Vec<Change>,
    /// Everything that was ever there, so that no number is used again.
    held: HashMap<u64, File>,
}

/// How much of what is not certain a loss of power leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    Everything,
    /// Names, not the bytes that belong to them.
    Names,
    /// Bytes, not the names that they belong to.
    Bytes,
    /// Whatever chance decides.
    Some,
}

/// Chance, from a seed.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % n
    }
}

impl Medium {
    /// Everything that is in a directory now is durable.
    pub fn new(place: &Path) -> Medium {
        let root = place.metadata().unwrap().ino();
        let mut medium = Medium {
            place: place.into(),
            root,
            durable: Tree::default(),
            now: Tree::default(),
            pending: Vec::new(),
            held: HashMap::new(),
        };
        medium.look();
        medium.sync_all();
        medium
    }

    /// Takes note of what a step makes certain.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::SyncAll => self.sync_all(),
            Step::Sync { inode } => self.sync(inode),
            Step::Other(_) => {}
        }
    }

    fn sync_all(&mut self) {
        self.durable = self.now.clone();
        self.pending.clear();
    }

    fn sync(&mut self, inode: u64) {
        if let Some(bytes) = self.now.bytes.get(&inode) {
            self.durable.bytes.insert(inode, bytes.clone());
        }
        let (certain, rest): (Vec<Change>, Vec<Change>) =
            self.pending.drain(..).partition(|c| c.0.iter().any(|((dir, _), _)| *dir == inode));
        self.pending = rest;
        for change in certain {
            // What went before it at the same names went before it on the medium, too.
            for earlier in &mut self.pending {
                earlier.0.retain(|(name, _)| change.0.iter().all(|(n, _)| n != name));
            }
            self.durable.apply(&change);
        }
    }

    /// Takes note of what is there.
    pub fn look(&mut self) {
        let mut now = Tree::default();
        let mut open = vec![(self.place.clone(), self.root)];
        while let Some((path, number)) = open.pop() {
            now.dirs.insert(number);
            for entry in path.read_dir().unwrap() {
                let entry = entry.unwrap();
                let meta = entry.metadata().unwrap();
                self.held.entry(meta.ino()).or_insert_with(|| File::open(entry.path()).unwrap());
                now.names.insert((number, entry.file_name()), meta.ino());
                if meta.is_dir() {
                    open.push((entry.path(), meta.ino()));
                } else {
                    now.bytes.insert(meta.ino(), std::fs::read(entry.path()).unwrap());
                }
            }
        }
        self.pending.extend(changes(&self.now, &now));
        // Files that have no name any more keep what is known of them.
        for (number, bytes) in std::mem::take(&mut self.now.bytes) {
            now.bytes.entry(number).or_insert(bytes);
        }
        now.dirs.append(&mut self.now.dirs);
        self.now = now;
    }

    /// Makes a directory of what a loss of power leaves.
    pub fn leave(&self, left: Left, chance: &mut Chance, target: &Path) {
        let mut tree = self.durable.clone();
        tree.dirs.clone_from(&self.now.dirs);
        for change in &self.pending {
            let kept = match left {
                Left::Nothing | Left::Bytes => false,
                Left::Everything | Left::Names => true,
                Left::Some => chance.below(2) == 0,
            };
            if kept {
                tree.apply(change);
            }
        }
        for (number, new) in &self.now.bytes {
            let old = self.durable.bytes.get(number);
            if old == Some(new) {
                continue;
            }
            let nothing = || old.cloned().unwrap_or_default();
            let bytes = match left {
                Left::Everything | Left::Bytes => new.clone(),
                Left::Nothing | Left::Names => nothing(),
                Left::Some => match chance.below(4) {
                    0 => new.clone(),
                    1 => nothing(),
                    2 => vec![0; new.len()],
                    _ => {
                        let mut torn = new.clone();
                        let from = chance.below(new.len() as u64 + 1) as usize;
                        torn[from..].fill(0);
                        torn
                    }
                },
            };
            tree.bytes.insert(*number, bytes);
        }
        tree.make(self.root, target);
    }
}

/// What has changed between two looks, in parts that are done at once each: names that the same files
/// come from and go to belong together, as one renaming or exchange.
fn changes(before: &Tree, after: &Tree) -> Vec<Change> {
    let all: BTreeSet<&(u64, OsString)> = before.names.keys().chain(after.names.keys()).collect();
    let mut groups: Vec<(BTreeSet<u64>, Change)> = Vec::new();
    for name in all {
        let (old, new) = (before.names.get(name), after.names.get(name));
        if old == new {
            continue;
        }
        let mut files: BTreeSet<u64> = old.into_iter().chain(new).copied().collect();
        let mut change = Change(vec![(name.clone(), new.copied())]);
        let (joined, rest): (Vec<_>, Vec<_>) =
            groups.drain(..).partition(|(others, _)| !others.is_disjoint(&files));
        groups = rest;
        for (others, more) in joined {
            files.extend(others);
            change.0.extend(more.0);
        }
        groups.push((files, change));
    }
    groups.into_iter().map(|(_, change)| change).collect()
}

impl Tree {
    fn apply(&mut self, change: &Change) {
        for (name, file) in &change.0 {
            match file {
                Some(file) => self.names.insert(name.clone(), *file),
                None => self.names.remove(name),
            };
        }
    }

    fn make(&self, dir: u64, target: &Path) {
        std::fs::create_dir_all(target).unwrap();
        for ((_, name), file) in self.names.iter().filter(|((parent, _), _)| *parent == dir) {
            let path = target.join(name);
            if self.dirs.contains(file) {
                self.make(*file, &path);
            } else {
                std::fs::write(path, self.bytes.get(file).map_or(&[][..], Vec::as_slice)).unwrap();
            }
        }
    }
}
