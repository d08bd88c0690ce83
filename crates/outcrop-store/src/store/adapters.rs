//! Stores that show another one's elements, which they do not hold themselves.
//!
//! - [`cast`]: as another type, or conjugated.
//! - [`oriented`]: with the axes in another order, or backwards.

pub mod cast;
pub mod oriented;
