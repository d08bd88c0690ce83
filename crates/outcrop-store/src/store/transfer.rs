//! What a movement has besides the store.
//!
//! - [`canvas`]: the memory side.
//! - [`Mover`]: what one thread needs.
//! - [`edges`]: what loads leave of blocks for other loads. `seams`: blocks that wait to be whole before they are
//!   written.

pub mod canvas;
pub mod edges;
mod mover;
pub(super) mod seams;

pub use mover::Mover;
