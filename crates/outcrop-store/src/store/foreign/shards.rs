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
use super::extents::{GAP, Place};
use crate::dtype::DType;
use crate::format::FormatError;
use crate::shape::{Dims, TileGrid, Tuple};
use std::panic::{AssertUnwindSafe, catch_unwind};
use zarrs::array::codec::api::ArrayToBytesCodecTraits;
use zarrs::array::codec::{ShardingCodecConfigurationV1, ShardingIndexLocation};
use zarrs::array::{ArrayBytes, CodecChain, CodecOptions, DataType, FillValue};
use zarrs::metadata::v3::MetadataV3;

/// Bytes of an inner chunk in a decoded index.
const ENTRY: usize = 16;

/// The most bytes of an index: sums and small multiples of it can be addressed, too.
const MOST_INDEX: u64 = 1 << 56;

/// An inner chunk that was never written.
const ABSENT: u64 = u64::MAX;

/// Bytes that are read at once, unless a single inner chunk has more.
pub(super) const EXTENT: u64 = 8 << 20;

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

/// A decoded index, as its bytes.
pub(super) struct Index(Vec<u8>);

impl Index {
    fn number(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[8 * at..8 * at + 8].try_into().expect("eight bytes"))
    }

    /// Of inner chunks that are all empty.
    #[cfg(test)]
    pub(super) fn zeros(count: usize) -> Index {
        Index(vec![0; ENTRY * count])
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Where the inner chunk at a position lies, of which that is known to be possible.
    pub(super) fn at(&self, position: u64) -> Place {
        let (from, bytes) = (self.number(2 * position as usize), self.number(2 * position as usize + 1));
        Place { from, to: from.saturating_add(bytes) }
    }
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
        let index_bytes = grid.counts().iter().try_fold(ENTRY as u64, |bytes, &n| bytes.checked_mul(n));
        if index_bytes.is_none_or(|bytes| bytes > MOST_INDEX) {
            let (inner, outer) = (Tuple(&inner_shape), Tuple(shape));
            return Err(malformed(format!(
                "inner chunks of shape {inner} are too many in a shard of shape {outer}: an index of them cannot \
                 be addressed"
            )));
        }
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
            zarrs::array::BytesRepresentation::FixedSize(n) if n <= 2 * MOST_INDEX => n as usize,
            zarrs::array::BytesRepresentation::FixedSize(n) => {
                return Err(unsupported(format!("its index has {n} bytes")));
            }
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

    /// The most bytes of an extent, which may be the whole shard, with the blocks at its ends.
    pub(super) fn most_extent(&self) -> usize {
        let inner = self.inner.most_encoded();
        (self.grid.tiles() as usize)
            .saturating_mul(inner)
            .saturating_add(self.index_bytes)
            .min(EXTENT as usize)
            .max(inner)
            .max(self.index_bytes)
            .saturating_add(2 * 4096)
    }

    /// Whether a shard of this many bytes is read with one request, from which both its index and its inner chunks are
    /// taken: where it is no longer than what is read rather than skipped, and where all of it is wanted. What is read
    /// is known then without the index.
    pub(super) fn is_read_whole(&self, len: u64, all: bool) -> bool {
        len <= (self.most_extent() - 2 * 4096) as u64 && (all || len <= GAP)
    }

    /// The most heap memory that an index takes: while it is decoded, the numbers and a copy of them; and then the
    /// numbers, and the positions of the inner chunks that are wanted.
    pub(super) fn index_heap(&self) -> usize {
        self.index_bytes.saturating_mul(3)
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
    pub(super) fn decode_index(&self, encoded: &[u8]) -> Result<Index, String> {
        let (data_type, fill) = &self.u64s;
        let shape = nonzero(&self.index_shape());
        let decode = || {
            let decoded = self.index.decode(encoded.into(), &shape, data_type, fill, &self.options);
            decoded.map_err(|e| e.to_string())?.into_fixed().map_err(|e| e.to_string())
        };
        let bytes =
            catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err("the codecs fail on it".into()));
        let bytes = bytes.map_err(|e| format!("has a damaged index: {e}"))?;
        let wanted = self.grid.tiles() as usize * ENTRY;
        if bytes.len() != wanted {
            return Err(format!("has a damaged index: {} bytes come out, not {wanted}", bytes.len()));
        }
        Ok(Index(bytes.into_owned()))
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

    /// The position of an inner chunk in the index, `None` where it was never written, or what is wrong.
    pub(super) fn position(&self, index: &Index, coords: &[u64], len: u64) -> Result<Option<u64>, String> {
        let position = self.grid.linear_index(coords);
        let at = 2 * position as usize;
        let (from, bytes) = (index.number(at), index.number(at + 1));
        if (from, bytes) == (ABSENT, ABSENT) {
            return Ok(None);
        }
        match from.checked_add(bytes) {
            Some(to) if to <= len => Ok(Some(position)),
            _ => Err(format!(
                "has a damaged index: inner chunk {} lies at {from} and has {bytes} bytes, the shard {len}",
                Tuple(coords)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_says_where_inner_chunks_lie() {
        let numbers = [200_u64, 100, 0, 100, 300, 5];
        let index = Index(numbers.iter().flat_map(|n| n.to_ne_bytes()).collect());
        assert_eq!(index.at(2), Place { from: 300, to: 305 });
    }

    #[test]
    fn more_inner_chunks_than_can_be_addressed_are_refused() {
        let codec = r#"{"name":"sharding_indexed","configuration":{"chunk_shape":[1,1],
            "codecs":[{"name":"bytes"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}}"#;
        let codec: MetadataV3 = serde_json::from_str(codec).unwrap();
        let element = Element::new(DType::U8, &[0]).unwrap();
        for shape in [[1 << 31, 1 << 31], [1 << 30, 1 << 30], [1 << 62, 1]] {
            let Err(error) = Shards::new(&codec, &shape, &element) else { panic!("{shape:?}") };
            assert!(error.to_string().contains("cannot be addressed"), "{error}");
        }
        let most = Shards::new(&codec, &[1 << 26, 1 << 26], &element).unwrap();
        assert!(most.index_heap() > most.index_bytes && most.most_encoded() > most.index_bytes);
    }
}
