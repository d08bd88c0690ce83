//! How what is written becomes visible, all of it at once.
//!
//! - [`claim`]: the right to write a new array, and the moment it takes its place.
//! - `update`: changing tiles of an array that is there already.
//! - `group`: consolidated metadata of the groups above meanwhile.

pub mod claim;
pub(super) mod group;
pub(super) mod update;
