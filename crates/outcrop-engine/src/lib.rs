//! Running work on arrays inside a memory budget.
//!
//! - [`program`]: what is to be computed, as steps on tiles. [`schedule`]: a program with its loads,
//!   stores and drops. [`predict`]: how long that takes. [`plan`]: the best of several programs.
//!   [`execute`]: running it. [`scratch`]: where temporaries go that memory has no room for.
//! - [`runtime`]: the process's disk, budget and resident tiles.
//! - [`run_queue`]: one run at a time. [`watch`]: who looks on. [`speeds`]: how fast it goes.
//! - [`stream`]: pieces of work that flow from loads to stores, both at once.
//! - [`resident`]: tiles that stay in memory between small reads and writes.
//! - [`memory`]: how much the process may have. [`measured`]: numbers that it measures once.
//! - [`report`]: what a run cost.

pub mod device;
pub mod execute;
pub mod measured;
pub mod memory;
pub mod plan;
pub mod predict;
pub mod program;
pub mod report;
pub mod resident;
pub mod run_queue;
pub mod runtime;
pub mod schedule;
pub mod scratch;
pub mod speeds;
pub mod stream;
pub mod watch;

pub use report::Report;
pub use runtime::{Runtime, Settings};
pub use stream::Job;
pub use watch::{Unwatched, Watch};
