//! Boxes of arrays: to memory and back, one after the other, made by a function, checked.
//!
//! - [`access`]: boxes to memory and back.
//! - [`reader`]: boxes one after the other, ahead of whoever consumes them.
//! - [`fill`]: an array from a function of its boxes.
//! - [`overlay`]: a box of an array that is there gets other elements.
//! - [`verify`]: everything that can be checked about a stored array.
//! - `movement`: into which parts what is moved is cut.

pub mod access;
pub mod fill;
pub(crate) mod movement;
pub mod overlay;
pub mod reader;
pub mod verify;
