//! What can go wrong with an array on disk.

use std::io;
use std::path::{Path, PathBuf};

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong with an array on disk. Every message names the array or file and the cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A fault of this library.
    #[error("a fault in outcrop itself, which is to be reported: {0}")]
    Internal(String),
    /// The operating system refused an operation on a file.
    #[error("{path}: cannot {action}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was being done, such as `read 8192 bytes at 4096`.
        action: String,
        /// The cause.
        source: io::Error,
    },
    /// Nothing is stored under this name.
    #[error("{}: there is no array here{hint}", path.display())]
    NotFound {
        /// The array.
        path: PathBuf,
        /// What may help, with its own punctuation, or nothing.
        hint: String,
    },
    /// An array or file stands where a new one was to be made.
    #[error("{}: exists already; pass overwrite=True (--overwrite) to replace it", path.display())]
    Exists {
        /// The array.
        path: PathBuf,
    },
    /// Another writer has the array.
    #[error("{}: is being written by {holder}", path.display())]
    Busy {
        /// The array.
        path: PathBuf,
        /// Who, such as `process 4711`.
        holder: String,
    },
    /// Stored data is not what was written.
    #[error("{}: {what}", path.display())]
    Corrupt {
        /// The array.
        path: PathBuf,
        /// The tile and what is wrong with it, or the same of metadata.
        what: String,
    },
    /// An array has been changed by another program since it was opened, so that what is stored is not what was
    /// opened.
    #[error("{}: the array was {how} by another program since it was opened; open it again", path.display())]
    Changed {
        /// The array.
        path: PathBuf,
        /// What happened to it.
        how: &'static str,
    },
    /// Stored data is sound, but of a kind that this version cannot work with.
    #[error("{}: {what}", path.display())]
    Unsupported {
        /// The array.
        path: PathBuf,
        /// What is not supported.
        what: String,
    },
    /// The device has too little room.
    #[error("{}: no space: {needed} bytes are needed, {free} are free{}", path.display(), beside_others(beside))]
    NoSpace {
        /// The directory or file.
        path: PathBuf,
        /// Bytes that were to be written.
        needed: u64,
        /// Bytes that the file system has left for us.
        free: u64,
        /// What else is to take space of this file system at the same time, and bytes in all.
        beside: Vec<(PathBuf, u64)>,
    },
    /// The budget is too small.
    #[error(
        "{purpose} needs {needed} bytes of memory, and the budget is {budget} bytes; the least that works is {needed} bytes (oc.config(memory=...), OUTCROP_MEMORY or --memory)"
    )]
    Budget {
        /// What the memory was for.
        purpose: String,
        /// The least budget with which it would work.
        needed: u64,
        /// The budget.
        budget: u64,
    },
    /// The system gave no memory, although the budget allowed it.
    #[error("the system has no {bytes} bytes of memory left: {source}")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// The cause.
        source: io::Error,
    },
    /// An argument makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// What was written since the last commit is incomplete.
    #[error(
        "{}: an assignment failed or was interrupted; nothing that was written since the last commit is kept",
        path.display()
    )]
    Incomplete {
        /// The array.
        path: PathBuf,
    },
    /// A computation failed because of the numbers it was given.
    #[error("{what}")]
    Numerical {
        /// What happened, with the index.
        what: String,
        /// How.
        failure: Failure,
        /// Where, as LAPACK counts: the first row is 1.
        index: u64,
    },
    /// The operation was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// An object made before a fork is used in the child.
    #[error("this array was opened before a fork; open it again in the child process")]
    Forked,
}

/// How a computation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A leading minor of a matrix is not positive definite.
    NotPositiveDefinite,
    /// An element on a diagonal is exactly zero.
    Singular,
    /// There is NaN or infinity.
    NotFinite,
}

impl Error {
    /// An [`Error::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid(message.into())
    }

    /// An [`Error::Corrupt`] of the array at `path`.
    pub fn corrupt(path: &Path, what: impl Into<String>) -> Error {
        Error::Corrupt { path: path.into(), what: what.into() }
    }

    /// An [`Error::Unsupported`] of the array at `path`.
    pub fn unsupported(path: &Path, what: impl Into<String>) -> Error {
        Error::Unsupported { path: path.into(), what: what.into() }
    }

    /// Wraps an operating system error.
    pub fn io(path: &Path, action: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::Io { path: path.into(), action: action.into(), source: source.into() }
    }
}

/// What else takes space of a file system, for people.
fn beside_others(others: &[(PathBuf, u64)]) -> String {
    let one = |(path, bytes): &(PathBuf, u64)| format!("{} ({bytes} bytes)", path.display());
    match others {
        [] => String::new(),
        others => {
            let named: Vec<String> = others.iter().map(one).collect();
            format!(", beside {} on the same file system", named.join(" and "))
        }
    }
}
