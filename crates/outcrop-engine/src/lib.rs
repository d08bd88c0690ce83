//! Running work on arrays inside a memory budget.
//!
//! - [`program`]: what is to be computed, as steps on tiles. [`schedule`]: a program with its loads, stores and drops.
//! - [`plan`]: the best schedule for the memory there is, how long it takes, and how fast the machine is.
//! - [`execute`]: running it.
//! - [`runtime`]: what work on arrays shares: disk, budget, resident tiles, scratch space, and one run at a time.
//! - [`stream`]: pieces of work that flow from loads to stores, both at once.
//! - [`watch`]: who looks on. [`report`]: what a run cost.

pub mod execute;
pub mod plan;
pub mod program;
pub mod report;
pub mod runtime;
pub mod schedule;
pub mod stream;
pub mod watch;

pub use report::Report;
pub use runtime::{Runtime, Settings};
pub use stream::Job;
pub use watch::{Unwatched, Watch};
