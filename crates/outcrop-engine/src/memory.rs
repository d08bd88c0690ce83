//! How much memory the process may have.

use std::fs::read_to_string;
use std::path::PathBuf;

/// Bytes of memory that the process could get now, limits of its control groups included.
pub fn available() -> u64 {
    let info = read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse().ok());
    let system = kib.map_or(1 << 30, |kib| kib * 1024);
    group_limit().map_or(system, |limit| limit.min(system))
}

/// The smallest limit among the process's control groups and those above them, in bytes.
fn group_limit() -> Option<u64> {
    let mut limits = Vec::new();
    for line in read_to_string("/proc/self/cgroup").ok()?.lines() {
        // 0::/user.slice (version 2), or 7:memory:/user.slice (version 1)
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut group = PathBuf::from(path.trim_start_matches('/'));
        loop {
            let text = read_to_string(PathBuf::from(root).join(&group).join(file)).unwrap_or_default();
            limits.extend(text.trim().parse::<u64>().ok());
            if !group.pop() {
                break;
            }
        }
    }
    limits.into_iter().min()
}
