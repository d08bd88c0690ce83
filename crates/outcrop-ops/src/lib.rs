//! What is done with arrays.
//!
//! - [`arrays`]: what is stored, and what is made, as arrays of a program.
//! - [`builder`]: programs being made, by any front end.
//! - [`boxes`]: boxes of arrays, to memory and back, ahead of whoever consumes them, made by functions, checked.
//! - [`relayout`]: from one array to another, whatever their formats, tiles and orientation.
//! - [`linalg`]: programs of linear algebra. [`kernels`]: what its steps do with blocks in memory.
//! - [`native`]: steps that functions do which were compiled elsewhere.
//! - [`tape`]: what steps of array expressions do.

pub mod arrays;
pub mod boxes;
pub mod builder;
pub mod kernels;
pub mod linalg;
pub mod native;
pub mod relayout;
pub mod tape;
