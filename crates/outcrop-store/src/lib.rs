//! Arrays on disk: what they are made of, where their bytes lie, and how those bytes move.
//!
//! From the bottom up:
//! - [`dtype`], [`shape`]: element types, shapes, boxes, tile grids.
//! - [`strided`]: copying between strided n-dimensional blocks of memory.
//! - [`frame`]: aligned memory inside a budget. [`thread`]: threads, and what they begin with.
//! - [`io`]: the I/O engines and the files they work on.
//! - [`layout`]: from a box of an array to extents of a file.
//! - [`mod@format`]: metadata of Zarr, `.npy` and raw files, as pure functions of bytes.
//! - [`store`]: arrays that can be loaded from, stored to and committed.
//! - [`profile`]: the measured speed of a directory's device.

pub mod dtype;
pub mod error;
pub mod format;
pub mod frame;
pub mod io;
pub mod layout;
pub mod profile;
pub mod shape;
pub mod store;
pub mod strided;
pub mod thread;

pub use dtype::{ByteOrder, DType};
pub use error::{Error, Failure, Result};
pub use shape::{ArrayBox, Dims, TileGrid};
