//! How much memory the process may have.

use std::fs::read_to_string;
use std::path::PathBuf;

/// Bytes of memory that the process could get now, limits of its control groups included.
pub fn available() -> u64 {
    let system = of_system("MemAvailable:").unwrap_or(1 << 30);
    group_limit().map_or(system, |limit| limit.min(system))
}

/// Bytes of memory that the process could ever get: those of the machine, or of its control groups; `None` where the
/// system does not say.
pub fn total() -> Option<u64> {
    let system = of_system("MemTotal:")?;
    Some(group_limit().map_or(system, |limit| limit.min(system)))
}

/// What the system says of its memory, in bytes.
fn of_system(name: &str) -> Option<u64> {
    let info = read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
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
