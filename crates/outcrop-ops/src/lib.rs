//! What is done with arrays.
//!
//! - [`arrays`]: what is stored, and what is made, as arrays of a program.
//! - [`access`]: boxes to memory and back.
//! - [`reader`]: boxes one after the other, ahead of whoever consumes them.
//! - [`copy`]: from one array to another, whatever their formats and tiles.
//! - [`fill`]: an array from a function of its boxes.
//! - [`native`]: steps that functions do which were compiled elsewhere.
//! - [`tape`]: what steps of array expressions do.
//! - [`verify`]: everything that can be checked about a stored array.

pub mod access;
pub mod arrays;
pub mod copy;
pub mod fill;
pub mod kernels;
pub mod linalg;
mod movement;
pub mod native;
pub mod reader;
pub mod tape;
pub mod verify;
