//! The groups that an array stands in, and their consolidated metadata, which must never describe another array than
//! is there: readers believe it, and would find no chunks where they look for them.
//!
//! Around the moment in which an array takes its place:
//! 1. consolidated metadata of every group above is taken away, durably. Without it, readers look at the arrays;
//! 2. the array takes its place;
//! 3. the metadata comes back, with what is there now.
//!
//! A run that is killed in between leaves groups without consolidated metadata, which are slower to open and right.
//! Locks on the groups' directories keep two writers from bringing back what the other one has made stale.

use super::claim::{holder, try_lock};
use crate::error::{Error, Result};
use crate::format::zarr::consolidated::{Entry, is_consolidated, removed, renewed, renewed_v2};
use crate::format::zarr::{METADATA_FILE, V2_ATTRIBUTES_FILE, V2_METADATA_FILE};
use crate::io::disk::{Disk, parent_of};
use rustix::fs::{Access, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The consolidated metadata of a group of version 2.
const CONSOLIDATED_V2: &str = ".zmetadata";

/// What says that a directory is a group of version 2.
const GROUP_V2: &str = ".zgroup";

/// How long another writer is waited for, which has a group for a moment only.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most bytes of metadata, of all groups above an array together, that are renewed. Besides them there is what is
/// made of one of them, so that memory holds twice as much for a moment.
const MOST: u64 = 64 << 20;

/// A group above an array that has consolidated metadata, or what a run that was killed has left of it.
struct Group {
    dir: PathBuf,
    /// The array's path in it, with `/` between names.
    key: String,
    /// Its `zarr.json`, where that is consolidated.
    v3: Option<Vec<u8>>,
    /// Its `.zmetadata`.
    v2: Option<Vec<u8>>,
}

/// What is at a path, if it is a file: consolidated metadata that is a link is nobody's to renew.
///
/// # Errors
/// [`Error::Unsupported`] for more than `most` bytes: left as it is, it could describe what is not there. The operating
/// system's.
fn content(path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    let fail = |e| Error::io(path, "read the file", e);
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => {}
        _ => return Ok(None),
    }
    // What stands there may be something else by now, which would be waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) => return Ok(None),
        opened => File::from(opened.map_err(|e| fail(e.into()))?),
    };
    let found = file.metadata().map_err(fail)?;
    if !found.is_file() {
        return Ok(None);
    }
    let mut text = Vec::with_capacity(found.len().min(most) as usize);
    (&file).take(most).read_to_end(&mut text).map_err(fail)?;
    if (&file).read(&mut [0]).map_err(fail)? > 0 {
        return Err(Error::unsupported(
            path,
            format!(
                "the metadata of groups that would have to be renewed has more than {} MiB; save the array outside \
                 of the group, or remove the consolidated metadata first",
                MOST >> 20
            ),
        ));
    }
    Ok(Some(text))
}

/// The groups above an array that stands, or will, at `target`, the outermost first.
fn groups_above(target: &Path) -> Result<Vec<Group>> {
    let parent = parent_of(target);
    let real = match parent.canonicalize() {
        Ok(real) => real,
        // There will be no array there, which is for others to say.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(parent, "find the directory", e)),
    };
    let mut key = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (mut found, mut room) = (Vec::new(), MOST);
    for dir in real.ancestors() {
        let (v3, v2) = (dir.join(METADATA_FILE), dir.join(CONSOLIDATED_V2));
        let is_group = v3.is_file() || dir.join(GROUP_V2).is_file() || v2.is_file();
        if !is_group {
            break;
        }
        let mut read = |path: &Path| -> Result<Option<Vec<u8>>> {
            let text =
                content(path, room)?.filter(|text| path.ends_with(CONSOLIDATED_V2) || is_consolidated(text));
            room -= text.as_ref().map_or(0, |text| text.len() as u64);
            Ok(text)
        };
        let (v3, v2) = (read(&v3)?, read(&v2)?);
        let is_left = || [METADATA_FILE, CONSOLIDATED_V2].iter().any(|name| left_behind(dir, name).exists());
        if v3.is_some() || v2.is_some() || is_left() {
            found.push(Group { dir: dir.into(), key: key.clone(), v3, v2 });
        }
        let Some(name) = dir.file_name() else { break };
        key = format!("{}/{key}", name.to_string_lossy());
    }
    found.reverse();
    Ok(found)
}

/// Where a group's file is written before it takes its place.
fn left_behind(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.new"))
}

impl Group {
    /// Its metadata files with what an array's files say; `None` where the metadata cannot be made sense of.
    fn renewed(&self, array: &[(&str, Vec<u8>)]) -> [(&'static str, Option<Vec<u8>>); 2] {
        let json = |file: &str| array.iter().find(|(name, _)| *name == file).map(|(_, json)| json.as_slice());
        let entries_v2: Vec<Entry> = [V2_METADATA_FILE, V2_ATTRIBUTES_FILE]
            .map(|file| (format!("{}/{file}", self.key), json(file)))
            .into();
        let entries = [(self.key.clone(), json(METADATA_FILE))];
        let between: Vec<String> =
            self.key.match_indices('/').map(|(end, _)| self.key[..end].into()).collect();
        let between_v2: Vec<String> = between.iter().map(|group| format!("{group}/{GROUP_V2}")).collect();
        [
            (METADATA_FILE, self.v3.as_ref().and_then(|text| renewed(text, &entries, &between))),
            (CONSOLIDATED_V2, self.v2.as_ref().and_then(|text| renewed_v2(text, &entries_v2, &between_v2))),
        ]
    }
}

/// Bytes that [`Renewal`] writes for an array with these metadata files.
///
/// # Errors
/// The operating system's.
pub(in crate::store) fn bytes_to_renew(target: &Path, array: &[(&str, Vec<u8>)]) -> Result<u64> {
    let pages = |text: &[u8]| (text.len() as u64).next_multiple_of(4096);
    let groups = groups_above(target)?;
    Ok(groups
        .iter()
        .map(|group| {
            let taken = group.v3.as_deref().and_then(removed).map_or(0, |text| pages(&text));
            taken
                + group.renewed(array).iter().filter_map(|(_, text)| text.as_deref().map(pages)).sum::<u64>()
        })
        .sum())
}

/// An error where metadata above an array could not be renewed.
///
/// # Errors
/// [`Error::Io`] of a group that may not be written.
pub(in crate::store) fn check(target: &Path) -> Result<()> {
    for group in groups_above(target)? {
        rustix::fs::access(&group.dir, Access::WRITE_OK)
            .map_err(|e| Error::io(&group.dir, "renew the consolidated metadata in the group", e))?;
    }
    Ok(())
}

/// Consolidated metadata that has been taken away.
pub(in crate::store) struct Renewal {
    disk: Arc<Disk>,
    groups: Vec<Group>,
    /// On the groups' directories.
    _locks: Vec<OwnedFd>,
}

impl Renewal {
    /// Takes the consolidated metadata above an array away, durably.
    ///
    /// # Errors
    /// The operating system's; [`Error::Busy`] where another writer keeps a group. What was taken away is back then.
    pub(in crate::store) fn begin(disk: &Arc<Disk>, target: &Path) -> Result<Renewal> {
        let locks = groups_above(target)?.iter().map(|group| lock(&group.dir)).collect::<Result<Vec<_>>>()?;
        // Another writer may have been at work until now.
        let groups = if locks.is_empty() { Vec::new() } else { groups_above(target)? };
        let renewal = Renewal { disk: Arc::clone(disk), groups, _locks: locks };
        for group in &renewal.groups {
            // Nobody else is at work: left by a run that was killed.
            for name in [METADATA_FILE, CONSOLIDATED_V2] {
                disk.remove(&left_behind(&group.dir, name))?;
            }
            if let Some(bare) = group.v3.as_deref().and_then(removed) {
                replace(disk, &group.dir.join(METADATA_FILE), &bare)?;
            }
            if group.v2.is_some() {
                disk.remove(&group.dir.join(CONSOLIDATED_V2))?;
            }
            disk.sync_parent(&group.dir.join(METADATA_FILE))?;
        }
        Ok(renewal)
    }

    /// Brings it back, for the array that stands there now. Where that fails, groups stay without.
    pub(in crate::store) fn finish(mut self, target: &Path) {
        let groups = std::mem::take(&mut self.groups);
        if groups.is_empty() {
            return;
        }
        let mut array = Vec::new();
        for name in [METADATA_FILE, V2_METADATA_FILE, V2_ATTRIBUTES_FILE] {
            match content(&target.join(name), MOST) {
                Ok(Some(json)) => array.push((name, json)),
                Ok(None) => {}
                Err(_) => return,
            }
        }
        for group in groups {
            put_back(&self.disk, &group.dir, &group.renewed(&array));
        }
    }
}

impl Drop for Renewal {
    /// The array did not take its place: what was there is still right.
    fn drop(&mut self) {
        for group in std::mem::take(&mut self.groups) {
            put_back(&self.disk, &group.dir, &[(METADATA_FILE, group.v3), (CONSOLIDATED_V2, group.v2)]);
        }
    }
}

fn put_back(disk: &Disk, dir: &Path, files: &[(&str, Option<Vec<u8>>)]) {
    for (name, text) in files {
        let path = dir.join(name);
        if let Some(text) = text
            && let Err(error) = replace(disk, &path, text)
        {
            log::warn!("{}: consolidated metadata could not be renewed: {error}", path.display());
        }
    }
}

/// Writes a group's file anew, with the permissions that it has.
fn replace(disk: &Disk, path: &Path, text: &[u8]) -> Result<()> {
    let (dir, name) = (parent_of(path), path.file_name().unwrap_or_default().to_string_lossy());
    let like = path.metadata().or_else(|_| dir.join(GROUP_V2).metadata()).ok();
    disk.write_small_beneath(&disk.open_dir(dir)?, &name, text)?;
    if let Some(found) = like {
        let mode = std::fs::Permissions::from_mode(found.permissions().mode() & 0o7777);
        std::fs::set_permissions(path, mode).map_err(|e| Error::io(path, "set the permissions of", e))?;
    }
    disk.sync_parent(path)
}

/// Locks a group's directory, as soon as whoever has it lets go.
fn lock(dir: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd =
        rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| Error::io(dir, "open the directory", e))?;
    let begin = Instant::now();
    while !try_lock(&fd, dir)? {
        if begin.elapsed() > PATIENCE {
            return Err(Error::Busy { path: dir.into(), holder: holder(dir) });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(fd)
}
