//! Which device a directory lies on.

use crate::error::{Error, Result};
use crate::io::disk::device_of;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The device that a directory lies on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What is mounted, such as `/dev/nvme0n1p2`; empty where the system does not tell.
    pub source: String,
    /// The type of its file system, such as `ext4`; empty where the system does not tell.
    pub file_system: String,
    /// The device number.
    pub number: u64,
}

impl Device {
    /// The device of a directory.
    ///
    /// # Errors
    /// The operating system's, where the directory cannot be inspected.
    pub fn of(dir: &Path) -> Result<Device> {
        let number = device_of(dir)?;
        let path = dir.canonicalize().map_err(|e| Error::io(dir, "inspect", e))?;
        // Mount sources are bytes of any kind; what is not text only has to be told apart.
        let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let (source, file_system) =
            find_mount(&String::from_utf8_lossy(&table), mount_id(&path), &path).unwrap_or_default();
        Ok(Device { source, file_system, number })
    }
}

/// The kernel's number of the mount that a path lies on (Linux 5.8 and later).
fn mount_id(path: &Path) -> Option<u64> {
    let stat = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

/// Source and type of a path's mount: the one with this number, or else the last of those mounted
/// deepest on the way to the path.
fn find_mount(table: &str, id: Option<u64>, path: &Path) -> Option<(String, String)> {
    let mut found = None;
    let mut deepest = 0;
    for line in table.lines() {
        // `36 35 98:0 /root /mount/point options [optional fields] - type source super-options`
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let mut left = left.split(' ');
        let (number, point) = (left.next().and_then(|n| n.parse().ok()), left.nth(3).map(unescape));
        let mut right = right.split(' ');
        let (Some(point), Some(kind), Some(source)) = (point, right.next(), right.next()) else { continue };
        let mount = (unescape(source), unescape(kind));
        if id.is_some() && number == id {
            return Some(mount);
        }
        let depth = Path::new(&point).components().count();
        if path.starts_with(&point) && depth >= deepest {
            (deepest, found) = (depth, Some(mount));
        }
    }
    found
}

/// Undoes the kernel's `\040` for a space, and the like.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 27 8:1 / /data rw shared:1 master:2 - xfs /dev/sda1 rw
41 40 0:50 / /data/with\\040space rw - nfs4 server:/a\\040b rw
42 27 8:2 / /data rw - ext4 /dev/over rw
a line that makes no sense
43 27 8:3 / /short - ext4
";

    #[test]
    fn the_mount_is_found_by_number_and_by_path() {
        let find = |id, path: &str| find_mount(TABLE, id, Path::new(path)).unwrap();
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(find(Some(40), "/data/x"), pair("/dev/sda1", "xfs"));
        assert_eq!(find(None, "/data/x"), pair("/dev/over", "ext4"));
        assert_eq!(find(Some(99), "/data/with space/y"), pair("server:/a b", "nfs4"));
        assert_eq!(find(None, "/database"), pair("/dev/vda", "ext4"));
        assert_eq!(find_mount("", Some(1), Path::new("/")), None);
    }

    #[test]
    fn this_directory_has_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let device = Device::of(dir.path()).unwrap();
        assert_eq!(device.number, device_of(dir.path()).unwrap());
        assert!(cfg!(not(target_os = "linux")) || !device.file_system.is_empty());
        assert!(matches!(Device::of(&dir.path().join("missing")), Err(Error::Io { .. })));
    }
}
