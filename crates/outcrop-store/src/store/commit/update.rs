//! Changing tiles of an array that is there already, all at once.
//!
//! A writer holds a lock on the array's directory from its opening on; the kernel releases it
//! however the process ends. New tiles are written beside the array's own, in `.outcrop-update/`,
//! under the same names, with the new index and metadata. A file `commit` there, made durable after
//! everything else, is the decision: it lists what is replaced (see [`crate::format::update`]). From then
//! on the array is what it says, and files are renamed one after the other:
//!
//! | what is found | what it means | a reader | the next writer |
//! |---|---|---|---|
//! | no directory | nothing | | |
//! | the array is locked | a writer at work | | is refused |
//! | directory without `commit` | a writer that died | reads the array | removes it |
//! | directory with `commit` | a decided change, under way or cut short | reads what is listed there first, then in the array | carries it out |
//! | anything else of that name | not ours | see below | is refused |
//!
//! A reader changes nothing. What is listed has either been renamed already or not: looked for there
//! first and in the array second, it is found.
//!
//! An update is ours where its directory is one, belongs to whoever owns the array or to this user, and
//! its record is whole and fits the array: of one with an index it lists the index and the metadata, too,
//! which every change of tiles changes. What is not ours is never carried out and never removed. An
//! array with an index is read as it lies then, since the index tells its tiles from others; of one
//! without, nobody could say which tiles are old and which new, and it is refused.

use super::claim::{OLD, holder, try_lock};
use crate::error::{Error, Result};
use crate::format::index::INDEX_FILE;
use crate::format::update::UpdateRecord;
use crate::format::zarr::METADATA_FILE;
use crate::io::Access;
use crate::io::disk::{Disk, DiskDir, DiskFile, remove_tree};
use crate::shape::TileGrid;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

const DIRECTORY: &str = ".outcrop-update";
const DECISION: &str = "commit";
/// The directory that tiles are in, where they are in one.
const TILES: &str = "c";

/// The right to change an array: a lock on its directory.
pub(in crate::store) struct Writer(#[allow(dead_code, reason = "held for its lock")] OwnedFd);

impl Writer {
    /// Keeps a lock that a claim had.
    pub(in crate::store) fn of_claim(lock: OwnedFd) -> Writer {
        Writer(lock)
    }

    /// Locks an array's directory.
    ///
    /// # Errors
    /// [`Error::Busy`] where another writer has it; the operating system's.
    pub(in crate::store) fn enter(disk: &Disk, dir: &DiskDir, array: &Path) -> Result<Writer> {
        check_writable(disk, dir)?;
        // A lock of its own: that of `dir` would be shared with whoever duplicates it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, ".", flags, Mode::empty())
            .map_err(|e| Error::io(array, "open the directory", e))?;
        if try_lock(&fd, array)? {
            Ok(Writer(fd))
        } else {
            Err(Error::Busy { path: array.into(), holder: holder(dir.path()) })
        }
    }
}

/// What is found of an update of an array.
pub(in crate::store) enum Found {
    Nothing,
    /// Begun by a writer that is at work, or has died.
    Undecided,
    Decided(Decided),
    /// Something else stands in its place, and why it is not taken for an update.
    NotOurs(String),
}

/// A decided change of an array that is not carried out yet, or not in whole.
pub(in crate::store) struct Decided {
    dir: DiskDir,
    record: UpdateRecord,
}

impl Found {
    /// Looks for an update of the array in a directory, which is cut like this, and has an index or not.
    ///
    /// # Errors
    /// The operating system's.
    pub(in crate::store) fn look(
        disk: &Disk,
        array: &DiskDir,
        grid: &TileGrid,
        indexed: bool,
    ) -> Result<Found> {
        let Some(found) = disk.look_beneath(array, DIRECTORY)? else { return Ok(Found::Nothing) };
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            return Ok(Found::NotOurs("it is no directory".into()));
        }
        let owner = rustix::fs::fstat(array).map_err(|e| Error::io(array.path(), "inspect", e))?.st_uid;
        if found.st_uid != owner && found.st_uid != rustix::process::geteuid().as_raw() {
            return Ok(Found::NotOurs(format!("it belongs to user {}", found.st_uid)));
        }
        let dir = match disk.dir_beneath(array, DIRECTORY) {
            Err(error) if is_missing(&error) => return Ok(Found::Nothing),
            other => other?,
        };
        let bytes = match disk.read_small_beneath(&dir, DECISION, UpdateRecord::most_bytes(grid)) {
            Ok(bytes) => bytes,
            Err(error) if is_missing(&error) => return Ok(Found::Undecided),
            Err(Error::Corrupt { what, .. }) => return Ok(Found::NotOurs(format!("its record {what}"))),
            Err(Error::Io { source, .. })
                if matches!(source.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory) =>
            {
                return Ok(Found::NotOurs("its record is no file".into()));
            }
            Err(other) => return Err(other),
        };
        Ok(match UpdateRecord::decode(&bytes, grid) {
            // Tiles that the index does not know would be taken for damaged ones.
            Ok(record) if indexed && !(record.index && record.metadata) => {
                Found::NotOurs(format!("its record leaves out {INDEX_FILE} or {METADATA_FILE}"))
            }
            Ok(record) => Found::Decided(Decided { dir, record }),
            Err(error) => Found::NotOurs(error.to_string()),
        })
    }

    /// What a reader has to look at besides the array, which has an index or not.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where nobody can say what the array's tiles are.
    pub(in crate::store) fn for_reading(self, array: &Path, indexed: bool) -> Result<Option<Decided>> {
        match self {
            Found::Decided(decided) => Ok(Some(decided)),
            Found::NotOurs(why) if !indexed => Err(not_ours(array, &why)),
            Found::Nothing | Found::Undecided | Found::NotOurs(_) => Ok(None),
        }
    }

    /// Finishes or removes what a writer left behind, as the array's only writer. `key`: the name of the
    /// tile at a position.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where it is not ours, or not all there; the operating system's.
    pub(in crate::store) fn settle(
        self,
        disk: &Disk,
        array: &DiskDir,
        key: &dyn Fn(u64) -> String,
    ) -> Result<()> {
        match self {
            Found::Nothing => {}
            Found::Undecided => disk.remove_beneath(array, DIRECTORY)?,
            Found::Decided(decided) => {
                decided.check(disk, array, key)?;
                carry_out(disk, array, &decided.dir, &decided.record, key)?;
            }
            Found::NotOurs(why) => return Err(not_ours(array.path(), &why)),
        }
        // What a replaced array has left behind where names cannot be exchanged.
        if disk.look_beneath(array, OLD)?.is_some() {
            disk.remove_beneath(array, OLD)?;
        }
        Ok(())
    }
}

impl Decided {
    /// Opens a tile's file, there or in the array.
    ///
    /// # Errors
    /// The operating system's.
    fn open(&self, disk: &Disk, array: &DiskDir, position: u64, key: &str) -> Result<DiskFile> {
        if self.record.has(position) {
            match disk.open_beneath(&self.dir, key, Access::Read) {
                // Renamed by now.
                Err(error) if is_missing(&error) => {}
                other => return other,
            }
        }
        disk.open_beneath(array, key, Access::Read)
    }

    /// Reads the index or the metadata, there or in the array.
    ///
    /// # Errors
    /// As for [`Disk::read_small_beneath`].
    pub(in crate::store) fn read(
        &self,
        disk: &Disk,
        array: &DiskDir,
        name: &str,
        limit: u64,
    ) -> Result<Vec<u8>> {
        if self.lists(name) {
            match disk.read_small_beneath(&self.dir, name, limit) {
                Err(error) if is_missing(&error) => {}
                other => return other,
            }
        }
        disk.read_small_beneath(array, name, limit)
    }

    /// Whether a tile is replaced.
    pub(in crate::store) fn has(&self, position: u64) -> bool {
        self.record.has(position)
    }

    fn lists(&self, name: &str) -> bool {
        (self.record.index && name == INDEX_FILE) || (self.record.metadata && name == METADATA_FILE)
    }

    /// That everything listed is there, or in the array already, before any of it is renamed.
    fn check(&self, disk: &Disk, array: &DiskDir, key: &dyn Fn(u64) -> String) -> Result<()> {
        let is_file = |s: &Stat| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile;
        for name in listed(&self.record, key) {
            let found = match disk.look_beneath(&self.dir, &name)? {
                None => disk.look_beneath(array, &name)?,
                found => found,
            };
            if !found.as_ref().is_some_and(is_file) {
                let how = if found.is_some() { "is no file" } else { "is missing" };
                return Err(not_ours(array.path(), &format!("{name}, which it lists, {how}")));
            }
        }
        Ok(())
    }
}

/// Opens a tile's file in an array, of which a change may be decided.
///
/// # Errors
/// The operating system's.
pub(in crate::store) fn open_tile(
    disk: &Disk,
    array: &DiskDir,
    decided: Option<&Decided>,
    position: u64,
    key: &str,
) -> Result<DiskFile> {
    match decided {
        Some(decided) => decided.open(disk, array, position, key),
        None => disk.open_beneath(array, key, Access::Read),
    }
}

/// Makes sure that changes can be committed before there are any: tiles are made, and renamed, in the array's
/// directory and in those below it.
fn check_writable(disk: &Disk, dir: &DiskDir) -> Result<()> {
    const ACTION: &str = "change the array (mode=\"r+\")";
    disk.check_writable(dir, Path::new("."), ACTION)?;
    // Of an array without axes, this is its only tile.
    disk.check_writable(dir, Path::new(TILES), ACTION)
}

/// Whether a change is being carried out that was decided after the array was opened, when `known` was.
fn is_news(disk: &Disk, array: &DiskDir, known: Option<&Decided>) -> Result<bool> {
    if disk.look_beneath(array, &format!("{DIRECTORY}/{DECISION}"))?.is_none() {
        return Ok(false);
    }
    let (Some(known), Some(now)) = (known, disk.look_beneath(array, DIRECTORY)?) else { return Ok(true) };
    let then = rustix::fs::fstat(&known.dir).map_err(|e| Error::io(known.dir.path(), "inspect", e))?;
    Ok((then.st_dev, then.st_ino) != (now.st_dev, now.st_ino))
}

/// What tells whether tiles of an array that has no index have changed, and when they did last, in nanoseconds: what
/// there is to say of their files, looked for as [`open_tile`] does.
///
/// # Errors
/// [`Error::Changed`] where a change has been decided since the array was opened, so that it has to be opened anew; the
/// operating system's.
pub(in crate::store) fn stamp_of_tiles(
    disk: &Disk,
    array: &DiskDir,
    decided: Option<&Decided>,
    tiles: impl Iterator<Item = (u64, String)>,
) -> Result<(u64, i64)> {
    if is_news(disk, array, decided)? {
        return Err(Error::Changed { path: array.path().into(), how: "changed" });
    }
    let (mut seen, mut newest) = (DefaultHasher::new(), 0);
    for (position, key) in tiles {
        let apart = decided.filter(|decided| decided.has(position));
        let found = match apart.map(|decided| disk.look_beneath(&decided.dir, &key)).transpose()?.flatten() {
            None => disk.look_beneath(array, &key)?,
            found => found,
        };
        let facts = found.map(|at| {
            let times = [(at.st_mtime, at.st_mtime_nsec), (at.st_ctime, at.st_ctime_nsec)]
                .map(|(seconds, rest)| seconds * 1_000_000_000 + rest as i64);
            newest = times.into_iter().fold(newest, i64::max);
            (at.st_ino, at.st_size, times)
        });
        facts.hash(&mut seen);
    }
    Ok((seen.finish(), newest))
}

/// Whether a change of an array with an index is being carried out that was decided after the array was opened, when
/// `known` was. What is no change of this array never is.
pub(in crate::store) fn is_under_way(
    disk: &Disk,
    array: &DiskDir,
    grid: &TileGrid,
    known: Option<&Decided>,
) -> bool {
    is_news(disk, array, known).unwrap_or(false)
        && Found::look(disk, array, grid, true).is_ok_and(|found| matches!(found, Found::Decided(_)))
}

/// Whether an error says that nothing has the name.
pub(in crate::store) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

fn not_ours(array: &Path, why: &str) -> Error {
    Error::corrupt(
        array,
        format!(
            "{DIRECTORY} in it is not an update of this array that can be carried out: {why}; \
             nothing was changed (if the array is known to be whole, remove {DIRECTORY})"
        ),
    )
}

/// What a commit replaces besides tiles: files by name, in the order in which they are written.
pub(in crate::store) type Files = Vec<(&'static str, Vec<u8>)>;

/// An update being prepared, by the array's only writer.
pub(in crate::store) struct Update {
    disk: Arc<Disk>,
    /// Present until drop.
    dir: Option<Arc<DiskDir>>,
    finished: bool,
    pid: u32,
}

impl Update {
    /// Starts an update of an array.
    ///
    /// # Errors
    /// The operating system's.
    pub(in crate::store) fn begin(disk: &Arc<Disk>, array: &DiskDir) -> Result<Update> {
        disk.make_dir_beneath(array, DIRECTORY)?;
        match disk.dir_beneath(array, DIRECTORY) {
            Ok(dir) => Ok(Update {
                disk: Arc::clone(disk),
                dir: Some(Arc::new(dir)),
                finished: false,
                pid: std::process::id(),
            }),
            Err(error) => {
                let _ = disk.remove_beneath(array, DIRECTORY);
                Err(error)
            }
        }
    }

    /// Where the new tiles go.
    pub(in crate::store) fn dir(&self) -> &Arc<DiskDir> {
        self.dir.as_ref().expect("present until drop")
    }

    /// Carries the update of these tiles out. `metadata`: further files.
    ///
    /// # Errors
    /// The operating system's. Before the decision nothing has changed; after it, the next writer
    /// finishes what is left.
    pub(in crate::store) fn commit(
        &mut self,
        array: &DiskDir,
        grid: &TileGrid,
        tiles: impl IntoIterator<Item = u64>,
        metadata: &Files,
        key: &dyn Fn(u64) -> String,
    ) -> Result<()> {
        let (disk, dir) = (Arc::clone(&self.disk), Arc::clone(self.dir()));
        let has = |name| metadata.iter().any(|&(n, _)| n == name);
        let record = UpdateRecord::new(grid, tiles, has(INDEX_FILE), has(METADATA_FILE))
            .map_err(|e| e.at(array.path()))?;
        for (name, bytes) in metadata {
            disk.write_small_beneath(&dir, name, bytes)?;
        }
        // Files and their names, before the decision that speaks of them.
        disk.sync_file_system(dir.as_fd(), dir.path())?;
        disk.write_small_beneath(&dir, DECISION, &record.encode())?;
        disk.sync(dir.as_fd(), dir.path())?;
        self.finished = true;
        carry_out(&disk, array, &dir, &record, key)
    }
}

impl Drop for Update {
    fn drop(&mut self) {
        if self.finished || self.pid != std::process::id() {
            return;
        }
        let Some(dir) = self.dir.take() else { return };
        let path = dir.path().to_path_buf();
        // First, and durably, so that an end in between leaves no decision about tiles that are gone.
        let decided = self.disk.look_beneath(&dir, DECISION).is_ok_and(|found| found.is_some());
        if decided {
            let undone =
                self.disk.remove_beneath(&dir, DECISION).and_then(|()| self.disk.sync(dir.as_fd(), &path));
            if undone.is_err() {
                return;
            }
        }
        // Closed before, so that a process without descriptors can do this.
        drop(dir);
        let _ = remove_tree(&path);
    }
}

/// The names of what a record lists: tiles first, then the index, then zarr.json, so that the metadata
/// never describes what is not there.
fn listed<'a>(record: &'a UpdateRecord, key: &'a dyn Fn(u64) -> String) -> impl Iterator<Item = String> + 'a {
    let metadata = [(record.index, INDEX_FILE), (record.metadata, METADATA_FILE)];
    let metadata = metadata.into_iter().filter(|(listed, _)| *listed).map(|(_, name)| name.to_string());
    record.tiles().map(key).chain(metadata)
}

fn carry_out(
    disk: &Disk,
    array: &DiskDir,
    update: &DiskDir,
    record: &UpdateRecord,
    key: &dyn Fn(u64) -> String,
) -> Result<()> {
    for name in listed(record, key) {
        match disk.rename_beneath(update, array, &name) {
            // Done before the writer that began this was cut short.
            Err(error) if is_missing(&error) => {}
            other => other?,
        }
    }
    disk.sync_file_system(array, array.path())?;
    disk.remove_beneath(array, DIRECTORY)
}
