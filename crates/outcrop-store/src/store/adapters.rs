//! Stores that show another one's elements, which they do not hold themselves.
//!
//! - [`cast`]: as another type, or conjugated.
//! - [`frontier`]: only what is at the edges of its tiles.
//! - [`merged`]: the elements of sorted runs, in order.
//! - [`oriented`]: with the axes in another order, or backwards.
//! - [`sampled`]: every so many indices along an axis.
//! - [`section`]: without some of the axes.

pub mod cast;
pub mod frontier;
pub mod merged;
pub mod oriented;
pub mod sampled;
pub mod section;
