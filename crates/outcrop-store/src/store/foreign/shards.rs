//! The container of Zarr's `sharding_indexed` codec: many inner chunks in one file, with an index of
//! where each lies.
//!
//! ```text
//! shard:  inner chunk, inner chunk, ..., index      (or the index first)
//! index:  for every inner chunk in row-major order its offset and its bytes, two u64; through codecs
//!         of its own, usually `bytes` and `crc32c`. Both numbers all ones: the fill value.
//! ```
//! Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html>.

use super::alone;
use super::codecs::{Codecs, Element, make_codec, nonzero};
use crate::dtype::DType;
use crate::format::FormatError;
use crate::shape::{Dims, TileGrid, Tuple};
use std::panic::{AssertUnwindSafe, catch_unwind};
use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::codec::{ShardingCodecConfigurationV1, ShardingIndexLocation};
use zarrs::array::{ArrayBytes, CodecChain, CodecOptions, DataType, FillValue};
use zarrs::metadata::v3::MetadataV3;

/// An inner chunk that was never written.
const ABSENT: u64 = u64::MAX;

/// Bytes that are read at once, unless a single inner chunk has more.
pub(super) const EXTENT: u64 = 8 << 20;

/// Bytes between two wanted inner chunks that are read rather than skipped.
const GAP: u64 = 64 << 10;

/// How a shard is made of inner chunks.
pub(super) struct Shards {
    /// The codecs of the inner chunks. Their axes are the encoded axes of the shard.
    pub(super) inner: Codecs,
    /// The inner chunks of a shard, along the shard's encoded axes.
    pub(super) grid: TileGrid,
    index: CodecChain,
    index_at_end: bool,
    /// Bytes of the encoded index.
    pub(super) index_bytes: usize,
    u64s: (DataType, FillValue),
    options: CodecOptions,
}

/// Where an inner chunk lies in its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Coordinates along the encoded axes.
    pub(super) coords: Dims,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Bytes of a shard that are read at once, with the inner chunks in them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) places: Vec<Place>,
}

impl Shards {
    /// From the codec's metadata; `shape` are the extents of a shard along its encoded axes.
    pub(super) fn new(
        metadata: &MetadataV3,
        shape: &[u64],
        element: &Element,
    ) -> Result<Shards, FormatError> {
        let unsupported = |e: String| FormatError::Unsupported(format!("codec \"sharding_indexed\": {e}"));
        let malformed = |e: String| FormatError::Malformed(format!("codec \"sharding_indexed\": {e}"));
        let configuration: ShardingCodecConfigurationV1 =
            metadata.to_typed_configuration().map_err(|e| malformed(e.to_string()))?;
        let inner_shape: Dims = configuration.chunk_shape.iter().map(|n| n.get()).collect();
        let divides =
            inner_shape.len() == shape.len() && shape.iter().zip(&inner_shape).all(|(s, i)| s % i == 0);
        if !divides {
            let (inner, outer) = (Tuple(&inner_shape), Tuple(shape));
            return Err(malformed(format!(
                "inner chunks of shape {inner} do not divide a shard of shape {outer}"
            )));
        }
        let grid = TileGrid { shape: shape.into(), tile: inner_shape.clone() };
        let inner = Codecs::new(&configuration.codecs, &inner_shape, element, false)?;
        for codec in &configuration.index_codecs {
            make_codec(codec)?;
        }
        let index =
            CodecChain::from_metadata(&configuration.index_codecs).map_err(|e| unsupported(e.to_string()))?;
        let element = Element::new(DType::U64, &ABSENT.to_ne_bytes())?;
        let mut shards = Shards {
            inner,
            grid,
            index,
            index_at_end: configuration.index_location == ShardingIndexLocation::End,
            index_bytes: 0,
            u64s: element.zarrs(),
            options: alone::options(),
        };
        let (data_type, fill) = &shards.u64s;
        let size = shards.index.encoded_representation(&nonzero(&shards.index_shape()), data_type, fill);
        shards.index_bytes = match size.map_err(|e| unsupported(e.to_string()))? {
            zarrs::array::BytesRepresentation::FixedSize(n) => n as usize,
            _ => return Err(unsupported("its index has no fixed size".into())),
        };
        Ok(shards)
    }

    fn index_shape(&self) -> Dims {
        let mut shape = self.grid.counts();
        shape.push(2);
        shape
    }

    /// The most bytes of a shard.
    pub(super) fn most_encoded(&self) -> usize {
        let inner = (self.grid.tiles() as usize).saturating_mul(self.inner.most_encoded());
        inner.saturating_add(self.index_bytes)
    }

    /// The most bytes of an extent, with the blocks at its ends.
    pub(super) fn most_extent(&self) -> usize {
        let inner = self.inner.most_encoded();
        (self.grid.tiles() as usize)
            .saturating_mul(inner)
            .min(EXTENT as usize)
            .max(inner)
            .max(self.index_bytes)
            + 2 * 4096
    }

    /// Where the index lies in a shard of this many bytes, or what is wrong.
    pub(super) fn index_range(&self, len: u64) -> Result<(u64, u64), String> {
        let bytes = self.index_bytes as u64;
        match len.checked_sub(bytes) {
            None => Err(format!("is truncated: {len} bytes, and its index alone has {bytes}")),
            Some(start) if self.index_at_end => Ok((start, len)),
            Some(_) => Ok((0, bytes)),
        }
    }

    /// From the bytes of the index to its numbers: an offset and a length for each inner chunk.
    pub(super) fn decode_index(&self, encoded: &[u8]) -> Result<Vec<u64>, String> {
        let (data_type, fill) = &self.u64s;
        let shape = nonzero(&self.index_shape());
        let decode = || {
            let decoded = self.index.decode(encoded.into(), &shape, data_type, fill, &self.options);
            decoded.map_err(|e| e.to_string())?.into_fixed().map_err(|e| e.to_string())
        };
        let bytes =
            catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err("the codecs fail on it".into()));
        let bytes = bytes.map_err(|e| format!("has a damaged index: {e}"))?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|b| u64::from_ne_bytes(*b)).collect())
    }

    /// The bytes of an index.
    pub(super) fn encode_index(&self, numbers: &[u64]) -> Result<Vec<u8>, String> {
        let (data_type, fill) = &self.u64s;
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let shape = nonzero(&self.index_shape());
        let encoded = self.index.encode(ArrayBytes::new_flen(bytes), &shape, data_type, fill, &self.options);
        Ok(encoded.map_err(|e| e.to_string())?.into_owned())
    }

    /// Where the inner chunks begin in a new shard.
    pub(super) fn data_start(&self) -> usize {
        if self.index_at_end { 0 } else { self.index_bytes }
    }

    /// Where an inner chunk lies, `None` where it was never written, or what is wrong.
    pub(super) fn place(&self, index: &[u64], coords: &[u64], len: u64) -> Result<Option<Place>, String> {
        let at = 2 * self.grid.linear_index(coords) as usize;
        let (from, bytes) = (index[at], index[at + 1]);
        if (from, bytes) == (ABSENT, ABSENT) {
            return Ok(None);
        }
        match from.checked_add(bytes) {
            Some(to) if to <= len => Ok(Some(Place { coords: coords.into(), from, to })),
            _ => Err(format!(
                "has a damaged index: inner chunk {} lies at {from} and has {bytes} bytes, the shard {len}",
                Tuple(coords)
            )),
        }
    }
}

/// Joins places to extents. Independent of memory, so that the bytes read are known beforehand.
pub(super) fn extents(mut places: Vec<Place>) -> Vec<Extent> {
    places.sort_by_key(|p| (p.from, p.to));
    let mut extents: Vec<Extent> = Vec::new();
    for place in places {
        match extents.last_mut() {
            Some(last) if place.from <= last.to + GAP && place.to.max(last.to) - last.from <= EXTENT => {
                last.to = last.to.max(place.to);
                last.places.push(place);
            }
            _ => extents.push(Extent { from: place.from, to: place.to, places: vec![place] }),
        }
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(from: u64, to: u64) -> Place {
        Place { coords: Dims::new(), from, to }
    }

    #[test]
    fn neighbours_are_read_together() {
        let found = extents(vec![place(200, 300), place(0, 100), place(100_000, 100_001)]);
        let ranges: Vec<(u64, u64)> = found.iter().map(|e| (e.from, e.to)).collect();
        assert_eq!(ranges, [(0, 300), (100_000, 100_001)]);
        assert_eq!(found[0].places, [place(0, 100), place(200, 300)]);
    }

    #[test]
    fn extents_are_bounded_except_by_one_chunk() {
        let half = EXTENT / 2 + 1;
        let found =
            extents(vec![place(0, half), place(half, 2 * half), place(2 * half, 2 * half + 2 * EXTENT)]);
        assert_eq!(found.len(), 3);
        let overlapping = extents(vec![place(10, 90), place(20, 30)]);
        assert_eq!((overlapping[0].from, overlapping[0].to), (10, 90));
    }
}
