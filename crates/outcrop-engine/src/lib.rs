//! Running work on arrays inside a memory budget.
//!
//! - [`runtime`]: the process's disk, budget and resident tiles.
//! - [`stream`]: pieces of work that flow from loads to stores, both at once.
//! - [`resident`]: tiles that stay in memory between small reads and writes.
//! - [`memory`]: how much the process may have.
//! - [`report`]: what a run cost.

pub mod memory;
pub mod report;
pub mod resident;
pub mod runtime;
pub mod stream;

pub use report::Report;
pub use runtime::{Runtime, Settings};
pub use stream::{Job, Watch};
