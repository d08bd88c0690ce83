//! From a box of an array to extents of a file.
//!
//! A tiled array keeps every tile in a file of its own, so that its extents are whole files, found
//! through [`crate::shape::TileGrid`]; or parts of them, where tiles have [`frontier`]s. Row-major and
//! column-major arrays are [`linear`].

pub mod frontier;
pub mod linear;

pub use frontier::Frontiers;
pub use linear::{AxisOrder, LinearLayout, Runs};

/// The order of an array's elements on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Tile after tile, each contiguous.
    Tiled,
    /// The last index runs fastest (C order).
    RowMajor,
    /// The first index runs fastest (Fortran order).
    ColumnMajor,
}

impl Layout {
    /// The name users see.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Tiled => "tiled",
            Layout::RowMajor => "row-major",
            Layout::ColumnMajor => "column-major",
        }
    }
}
