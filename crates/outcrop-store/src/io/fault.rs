//! The `fault` engine: wraps another and fails, shortens, delays or reorders chosen operations.
//!
//! A specification is a list of rules, `operation:nth:action:times`, separated by `;`:
//! - operation: `read`, `write`, `open`, `create`, `allocate`, `sync`, `rename`, `remove`, or `any` of these; or
//!   `memory` (frames, stacks of threads, the room of codecs) and `heap` (everything small, too), which are of the
//!   whole process, and which `any` does not count;
//! - nth: which operation of that kind, counted from 1 since the rules were set;
//! - action: an error (`eio`, `enospc`, `edquot`, `efbig`, `eintr`, `eagain`, `einval`, `eperm`,
//!   `emfile`, `enomem`; of `memory` and `heap`, `enomem` only), `short=BYTES`, `zero`, `delay=MILLISECONDS`, `reorder=OPERATIONS` or
//!   `kill` (the process ends as by `SIGKILL`);
//! - times: `once`, or `always` for that operation and every later one of its kind.

use super::{Completion, IoEngine, Request};
use crate::frame::refusals;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The kinds of operations that rules count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operation {
    Read,
    Write,
    Open,
    Create,
    Allocate,
    Sync,
    Rename,
    Remove,
    Memory,
    Heap,
}

const OPERATIONS: [(&str, Operation); 10] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("open", Operation::Open),
    ("create", Operation::Create),
    ("allocate", Operation::Allocate),
    ("sync", Operation::Sync),
    ("rename", Operation::Rename),
    ("remove", Operation::Remove),
    ("memory", Operation::Memory),
    ("heap", Operation::Heap),
];

const ERRORS: [(&str, i32); 10] = [
    ("eio", libc::EIO),
    ("enospc", libc::ENOSPC),
    ("edquot", libc::EDQUOT),
    ("efbig", libc::EFBIG),
    ("eintr", libc::EINTR),
    ("eagain", libc::EAGAIN),
    ("einval", libc::EINVAL),
    ("eperm", libc::EPERM),
    ("emfile", libc::EMFILE),
    ("enomem", libc::ENOMEM),
];

/// What happens to a chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It fails with this `errno`.
    Fail(i32),
    /// It moves at most so many bytes.
    Short(u32),
    /// It moves nothing, and says so.
    Zero,
    /// It starts later.
    Delay(Duration),
    /// It starts after so many later ones.
    Reorder(u32),
    /// The process dies.
    Kill,
}

#[derive(Clone, Debug)]
struct Rule {
    operation: Option<Operation>,
    nth: u64,
    action: Action,
    always: bool,
}

/// What is about to happen, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file or directory is made durable.
    Sync {
        /// Its number on the file system.
        inode: u64,
    },
    /// A whole file system is made durable.
    SyncAll,
    /// Something else.
    Other(Operation),
}

/// Is told of every step before it is done. A model of the medium sees from it what a loss of power
/// could leave.
pub struct Watcher(Box<dyn Fn(Step) + Send + Sync>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// A set of rules with its counters, shared by everything that works on one disk.
#[derive(Debug)]
pub struct Faults {
    rules: Vec<Rule>,
    watcher: Option<Watcher>,
    counts: [AtomicU64; OPERATIONS.len()],
    total: AtomicU64,
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Faults, String> {
        let rules =
            text.split(';').filter(|r| !r.trim().is_empty()).map(parse_rule).collect::<Result<_, _>>()?;
        Ok(Faults { rules, watcher: None, counts: Default::default(), total: AtomicU64::new(0) })
    }
}

fn parse_rule(text: &str) -> Result<Rule, String> {
    let parts: Vec<&str> = text.trim().split(':').collect();
    let [operation, nth, action, times] = parts[..] else {
        return Err(format!("fault rule {text:?} is not operation:nth:action:times"));
    };
    let operation = match operation {
        "any" => None,
        name => Some(
            OPERATIONS
                .iter()
                .find(|(n, _)| *n == name)
                .ok_or_else(|| format!("unknown operation {name:?}"))?
                .1,
        ),
    };
    let nth = nth.parse().map_err(|_| format!("bad count {nth:?}"))?;
    let (name, value) = action.split_once('=').unwrap_or((action, "0"));
    let number: u32 = value.parse().map_err(|_| format!("bad number {value:?}"))?;
    let action = match name {
        "short" => Action::Short(number),
        "zero" => Action::Zero,
        "delay" => Action::Delay(Duration::from_millis(number.into())),
        "reorder" => Action::Reorder(number),
        "kill" => Action::Kill,
        _ => Action::Fail(
            ERRORS.iter().find(|(n, _)| *n == name).ok_or_else(|| format!("unknown action {name:?}"))?.1,
        ),
    };
    let of_memory = matches!(operation, Some(Operation::Memory | Operation::Heap));
    if of_memory && action != Action::Fail(libc::ENOMEM) {
        return Err(format!("fault rule {text:?}: memory can only be refused, with enomem"));
    }
    let always = match times {
        "once" => false,
        "always" => true,
        _ => return Err(format!("{times:?} is neither once nor always")),
    };
    Ok(Rule { operation, nth, action, always })
}

impl Faults {
    /// The same rules, with somebody who is told of every step before it is done.
    #[must_use]
    pub fn watched(self, watcher: impl Fn(Step) + Send + Sync + 'static) -> Faults {
        Faults { watcher: Some(Watcher(Box::new(watcher))), ..self }
    }

    /// Tells whoever watches of a step.
    pub(super) fn watch(&self, step: Step) {
        if let Some(Watcher(watcher)) = &self.watcher {
            watcher(step);
        }
    }

    /// Has memory refused in this process as the rules say; without any, refuses none.
    pub fn refuse_memory(faults: Option<&Faults>) {
        for (operation, refusals) in
            [(Operation::Memory, &refusals::MEMORY), (Operation::Heap, &refusals::HEAP)]
        {
            let rules = faults.map_or(&[][..], |faults| &faults.rules);
            let rule = rules.iter().find(|rule| rule.operation == Some(operation));
            refusals.set(rule.map(|rule| (rule.nth, rule.always)));
        }
    }

    /// Operations seen so far, of all kinds: tests run a workload once to learn how many there are.
    pub fn seen(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts an operation, and says what is to happen to it.
    pub fn next(&self, operation: Operation) -> Option<Action> {
        if operation != Operation::Sync {
            self.watch(Step::Other(operation));
        }
        let of_all = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let of_kind = self.counts[operation as usize].fetch_add(1, Ordering::Relaxed) + 1;
        let action = self.rules.iter().find_map(|rule| {
            let count = match rule.operation {
                None => of_all,
                Some(kind) if kind == operation => of_kind,
                Some(_) => return None,
            };
            (count == rule.nth || rule.always && count > rule.nth).then_some(rule.action)
        });
        if action == Some(Action::Kill) {
            // SAFETY: raising a signal has no memory effects.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        action
    }

    /// The same for operations on names and metadata, which can only fail or come late.
    ///
    /// # Errors
    /// The error that the rule names.
    pub fn check(&self, operation: Operation) -> io::Result<()> {
        self.check_moving(operation, 0).map(drop)
    }

    /// The same for operations that move `len` bytes without an engine: how many they are to move.
    ///
    /// # Errors
    /// The error that the rule names.
    pub fn check_moving(&self, operation: Operation, len: usize) -> io::Result<usize> {
        match self.next(operation) {
            Some(Action::Fail(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Action::Delay(time)) => {
                std::thread::sleep(time);
                Ok(len)
            }
            Some(Action::Short(bytes)) => Ok(len.min(bytes.max(1) as usize)),
            Some(Action::Zero) => Ok(0),
            Some(Action::Reorder(_) | Action::Kill) | None => Ok(len),
        }
    }
}

struct Held {
    request: Request,
    until: Instant,
    /// Submissions that go first.
    behind: u32,
}

/// Wraps an engine.
pub struct FaultEngine {
    inner: Box<dyn IoEngine>,
    faults: Arc<Faults>,
    held: Vec<Held>,
    invented: Vec<Completion>,
    inside: usize,
}

impl FaultEngine {
    /// Spoils what the rules choose of `inner`'s operations.
    pub fn new(inner: Box<dyn IoEngine>, faults: Arc<Faults>) -> FaultEngine {
        FaultEngine { inner, faults, held: Vec::new(), invented: Vec::new(), inside: 0 }
    }

    fn release(&mut self, all: bool) -> io::Result<()> {
        let now = Instant::now();
        let mut index = 0;
        while index < self.held.len() {
            if all || (self.held[index].behind == 0 && self.held[index].until <= now) {
                let held = self.held.swap_remove(index);
                // SAFETY: the promise made when the request was submitted to this engine lasts until
                // it completes, which it has not.
                unsafe { self.inner.submit(held.request)? };
                self.inside += 1;
            } else {
                index += 1;
            }
        }
        Ok(())
    }
}

impl IoEngine for FaultEngine {
    fn name(&self) -> &'static str {
        "fault"
    }

    fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    // SAFETY: what the caller promises is said at `IoEngine::submit`.
    unsafe fn submit(&mut self, mut request: Request) -> io::Result<()> {
        let operation = match request.direction {
            super::Direction::Read => Operation::Read,
            super::Direction::Write => Operation::Write,
        };
        for held in &mut self.held {
            held.behind = held.behind.saturating_sub(1);
        }
        let now = Instant::now();
        match self.faults.next(operation) {
            Some(Action::Fail(errno)) => {
                let result = Err(io::Error::from_raw_os_error(errno));
                self.invented.push(Completion { id: request.id, result });
                return Ok(());
            }
            Some(Action::Zero) => {
                self.invented.push(Completion { id: request.id, result: Ok(0) });
                return Ok(());
            }
            Some(Action::Delay(time)) => {
                self.held.push(Held { request, until: now + time, behind: 0 });
                return Ok(());
            }
            Some(Action::Reorder(behind)) => {
                self.held.push(Held { request, until: now, behind });
                return Ok(());
            }
            Some(Action::Short(bytes)) => request.len = request.len.min(bytes.max(1)),
            Some(Action::Kill) | None => {}
        }
        // SAFETY: passed on from the caller.
        unsafe { self.inner.submit(request)? };
        self.inside += 1;
        Ok(())
    }

    fn reap(&mut self, wait: bool, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.release(false)?;
        let before = completions.len();
        completions.append(&mut self.invented);
        if wait && completions.len() == before && self.inside == 0 && !self.held.is_empty() {
            // Nothing else is in flight: what waits for others to pass can wait no longer.
            let until = self.held.iter().map(|h| h.until).min().unwrap_or_else(Instant::now);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            self.release(true)?;
        }
        let from_inner = completions.len();
        self.inner.reap(wait && from_inner == before && self.inside > 0, completions)?;
        self.inside -= completions.len() - from_inner;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_count_their_own_kind() {
        let faults: Faults = "read:2:eio:once;write:1:enospc:always".parse().unwrap();
        assert_eq!(faults.next(Operation::Read), None);
        assert_eq!(faults.next(Operation::Read), Some(Action::Fail(libc::EIO)));
        assert_eq!(faults.next(Operation::Read), None);
        assert_eq!(faults.next(Operation::Write), Some(Action::Fail(libc::ENOSPC)));
        assert_eq!(faults.next(Operation::Write), Some(Action::Fail(libc::ENOSPC)));
        assert_eq!(faults.seen(), 5);
        assert!("read:x:eio:once".parse::<Faults>().is_err());
        assert!("read:1:what:once".parse::<Faults>().is_err());
    }
}
