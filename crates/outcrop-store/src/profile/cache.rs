//! Profiles kept in the user's cache directory, one file per device.
//!
//! A cache is a convenience: what is wrong in it is ignored, and what cannot be put into it is not
//! missed. Only a directory that cannot be inspected itself is an error.

use super::{Device, Profile};
use crate::error::Result;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that names another cache directory.
const OVERRIDE: &str = "OUTCROP_CACHE";

/// A stored profile is a few kilobytes; whatever is larger is none.
const LARGEST: u64 = 1 << 20;

/// The stored profile of the device that a directory lies on.
///
/// None where there is none, or none that this version and this build's engines can use.
///
/// # Errors
/// The operating system's, where the directory cannot be inspected.
pub fn load(dir: &Path) -> Result<Option<Profile>> {
    let device = Device::of(dir)?;
    Ok(cache_dir().and_then(|cache| load_from(&cache, &device)))
}

/// Stores a profile for its device, in place of an older one. Failure is no error.
pub fn save(profile: &Profile) {
    match cache_dir() {
        Some(cache) => save_to(&cache, profile),
        None => log::debug!("there is no cache directory; the device profile is not kept"),
    }
}

/// Where profiles are kept, in a folder of their own; none where the system has no such place.
pub(super) fn cache_dir() -> Option<PathBuf> {
    match std::env::var_os(OVERRIDE) {
        Some(dir) if !dir.is_empty() => Some(dir.into()),
        _ => Some(dirs::cache_dir()?.join("outcrop")),
    }
}

/// Different devices may come to share a name, which is why a profile that is read must be of the
/// device that was asked for.
fn file_of(cache: &Path, device: &Device) -> PathBuf {
    let plain = |text: &str| -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
        // The end tells more: of a network path, the share rather than the server's domain.
        let skip = text.chars().count().saturating_sub(100);
        text.chars().skip(skip).map(safe).collect()
    };
    let name = format!("{}-{}-{}.json", plain(&device.source), plain(&device.file_system), device.number);
    cache.join("profiles").join(name)
}

/// As [`load`], from this cache.
pub(super) fn load_from(cache: &Path, device: &Device) -> Option<Profile> {
    let file = file_of(cache, device);
    let profile = match read(&file) {
        Ok(profile) => profile,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                log::debug!("{}: ignored: {error}", file.display());
            }
            return None;
        }
    };
    let known = matches!(profile.engine.as_str(), "uring" | "threads");
    if !profile.is_sound() || !known || profile.device != *device {
        log::debug!("{}: ignored: of another version, engine or device", file.display());
        return None;
    }
    Some(profile)
}

fn read(file: &Path) -> io::Result<Profile> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// As [`save`], into this cache.
pub(super) fn save_to(cache: &Path, profile: &Profile) {
    /// Two threads that save at once must not write into one temporary file.
    static SAVED: AtomicU64 = AtomicU64::new(0);
    let file = file_of(cache, &profile.device);
    let number = SAVED.fetch_add(1, Ordering::Relaxed);
    let temporary = file.with_extension(format!("{}-{number}.new", std::process::id()));
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(file.parent().unwrap_or(cache))?;
        std::fs::write(&temporary, serde_json::to_vec_pretty(profile)?)?;
        std::fs::rename(&temporary, &file)
    };
    if let Err(error) = write() {
        log::debug!("{}: the device profile is not kept: {error}", file.display());
        let _ = std::fs::remove_file(&temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lasting;
    use super::super::tests::made_up;
    use super::*;

    #[test]
    fn what_is_saved_is_loaded() {
        let cache = tempfile::tempdir().unwrap();
        let profile = made_up();
        assert_eq!(load_from(cache.path(), &profile.device), None);
        save_to(cache.path(), &profile);
        assert_eq!(load_from(cache.path(), &profile.device), Some(profile.clone()));
        let newer =
            Profile { date: 1, both: Lasting { bytes_per_second: 1.0 / 3.0, keeping: 0.0 }, ..profile };
        save_to(cache.path(), &newer);
        assert_eq!(load_from(cache.path(), &newer.device), Some(newer));
        assert_eq!(std::fs::read_dir(cache.path().join("profiles")).unwrap().count(), 1);
    }

    #[test]
    fn what_is_damaged_old_or_foreign_is_ignored() {
        let cache = tempfile::tempdir().unwrap();
        let profile = made_up();
        let file = file_of(cache.path(), &profile.device);
        save_to(cache.path(), &profile);
        let whole = std::fs::read(&file).unwrap();
        for damaged in [&b""[..], b"{}", b"\xff\xfe", b"[1,2", &whole[..whole.len() / 2]] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(load_from(cache.path(), &profile.device), None);
        }
        let spoil = |change: &dyn Fn(&mut Profile)| {
            let mut other = profile.clone();
            change(&mut other);
            std::fs::write(&file, serde_json::to_vec(&other).unwrap()).unwrap();
            assert_eq!(load_from(cache.path(), &profile.device), None);
        };
        spoil(&|p| p.version = 0);
        spoil(&|p| p.engine = "kqueue".into());
        spoil(&|p| p.device.source = "/dev/other".into());
        spoil(&|p| p.reads.clear());
        spoil(&|p| p.writes[0].bytes_per_second = -1.0);
        spoil(&|p| p.reads.swap(0, 1));
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_no_error() {
        let cache = tempfile::tempdir().unwrap();
        std::fs::write(cache.path().join("profiles"), "in the way").unwrap();
        save_to(cache.path(), &made_up());
        assert_eq!(load_from(cache.path(), &made_up().device), None);
    }

    #[test]
    fn file_names_are_plain_and_short() {
        let source = format!("server:/../{}/é share", "x".repeat(300));
        let device = Device { source, file_system: "fuse.sshfs/..".into(), number: 3 };
        let file = file_of(Path::new("cache"), &device);
        let name = file.file_name().unwrap().to_str().unwrap();
        assert_eq!(file.parent(), Some(Path::new("cache/profiles")));
        assert!(name.len() < 255 && name.ends_with("___share-fuse.sshfs_..-3.json"), "{name}");
    }
}
