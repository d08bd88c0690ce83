//! The codecs of a foreign array's chunks, run by `zarrs`.
//!
//! Two kinds of codecs are not left to `zarrs`:
//! - Transpositions at the front of the list: the decoded bytes stay as they are, and are copied out
//!   of the chunk with other strides. That saves a copy of the chunk, and `zarrs` moves single bytes.
//! - The container of `sharding_indexed`, in [`super::shards`]: only the inner chunks that are wanted
//!   are read, and each is decoded whole, so that its checksum is verified. (`zarrs` skips checksums
//!   where it decodes a part.)
//!
//! The remaining codecs run one after the other, so that what one stage claims to hold is compared
//! with what it can hold before memory is allocated for it, and an error names the codec.
//!
//! Words: a chunk's *encoded axes* are the axes after the transpositions; encoded axis `i` is axis
//! `order[i]` of the array.

use super::alone::{self, Pool};
use super::bounded::{self, Decoder};
use super::shards::Shards;
use crate::dtype::DType;
use crate::format::zarr::MAX_CODECS;
use crate::format::{FormatError, crc32c};
use crate::shape::{Dims, Tuple};
use crate::store::transfer::canvas::{Strides, dense_strides};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use zarrs::array::codec::Crc32cCodec;
use zarrs::array::codec::api::{
    ArrayToArrayCodecTraits, ArrayToBytesCodecTraits, BytesToBytesCodecTraits, Codec, CodecError,
    CodecMetadataOptions,
};
use zarrs::array::{ArrayBytes, BytesRepresentation, CodecChain, CodecOptions, DataType, FillValue};
use zarrs::metadata::v3::MetadataV3;
use zarrs::plugin::{ExtensionName, PluginCreateError};

/// What a chunk's elements are.
#[derive(Clone)]
pub(super) struct Element {
    pub(super) dtype: DType,
    pub(super) fill: SmallVec<[u8; 16]>,
    data_type: DataType,
    fill_value: FillValue,
}

impl Element {
    pub(super) fn new(dtype: DType, fill: &[u8]) -> Result<Element, FormatError> {
        let data_type = DataType::from_metadata(&MetadataV3::new(dtype.name()))
            .map_err(|e| FormatError::Unsupported(e.to_string()))?;
        Ok(Element { dtype, fill: fill.into(), data_type, fill_value: FillValue::new(fill.to_vec()) })
    }

    /// The same in the terms of `zarrs`.
    pub(super) fn zarrs(&self) -> (DataType, FillValue) {
        (self.data_type.clone(), self.fill_value.clone())
    }
}

/// The codecs of one kind of chunk: that of an array, or that inside a shard.
pub(super) struct Codecs {
    /// Encoded axis `i` is axis `order[i]`.
    pub(super) order: SmallVec<[usize; 4]>,
    /// Extents of a chunk along its encoded axes.
    pub(super) shape: Dims,
    /// Bytes of a decoded chunk.
    pub(super) bytes: usize,
    pub(super) kind: Kind,
    element: Element,
    options: CodecOptions,
}

pub(super) enum Kind {
    /// The chunk is decoded whole.
    Whole(Stages),
    /// The chunk consists of chunks.
    Shards(Box<Shards>),
}

/// From elements to bytes, and from bytes to bytes.
pub(super) struct Stages {
    core: CodecChain,
    /// In the order in which they encode.
    stages: Vec<Arc<dyn BytesToBytesCodecTraits>>,
    /// Bytes before the first stage, after it, and so on.
    sizes: Vec<BytesRepresentation>,
    /// Whether the core copies elements: it swaps bytes, or changes the elements.
    copies: bool,
    /// Whether codecs work on elements before they become bytes.
    filters: bool,
    /// Whether there are shards in it, which `zarrs` decodes.
    shards: bool,
    /// What makes those.
    pool: Pool,
    /// How elements are decoded straight to where they are wanted, where they can be.
    straight: Option<Box<Straight>>,
}

/// What stands between a chunk's file and its elements in memory, where all of that is ours.
pub(super) struct Straight {
    /// One for each stage.
    steps: SmallVec<[Step; 4]>,
    /// Bytes that are taken besides, at most: what comes out of steps before the last, and what Blosc works with.
    heap: usize,
}

/// What undoes a stage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A CRC-32C is at the end.
    Crc32c,
    Decode(Decoder),
}

impl Step {
    /// Whether what comes out is what went in, but for a checksum.
    fn only_checks(self) -> bool {
        matches!(self, Step::Crc32c | Step::Decode(Decoder::Fletcher32))
    }
}

impl Straight {
    /// For stages between which there are at most so many bytes.
    fn find(
        stages: &[Arc<dyn BytesToBytesCodecTraits>],
        sizes: &[BytesRepresentation],
        element: &Element,
    ) -> Option<Straight> {
        let mut steps = SmallVec::new();
        for stage in stages {
            steps.push(if is_checksum_behind(&**stage) {
                Step::Crc32c
            } else {
                Step::Decode(bounded::decoder_of(&**stage)?)
            });
        }
        let most = |at: usize| sizes[at].size().map_or(usize::MAX, |n| n as usize);
        let copies: SmallVec<[usize; 4]> =
            (0..steps.len()).filter(|&i| !Step::only_checks(steps[i])).collect();
        // All but that of the first stage write to memory of their own, which the next one reads.
        let own = |k: usize| if copies[k] == 0 { 0 } else { most(copies[k]) };
        let pairs = (0..copies.len()).map(|k| {
            let given = if k + 1 < copies.len() { own(k + 1) } else { 0 };
            let works_with = match steps[copies[k]] {
                Step::Decode(Decoder::Blosc) => blosc_heap(&*stages[copies[k]], most(copies[k]), element),
                _ => 0,
            };
            own(k).saturating_add(given).saturating_add(works_with)
        });
        let heap = pairs.max().unwrap_or(0);
        Some(Straight { steps, heap })
    }

    /// Whether the file is the elements.
    pub(super) fn is_bare(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Whether a codec puts a CRC-32C behind what it is given. numcodecs may put it in front, and `zarrs` does not tell.
fn is_checksum_behind(codec: &dyn BytesToBytesCodecTraits) -> bool {
    const PROBE: &[u8] = b"outcrop";
    codec.as_any().is::<Crc32cCodec>()
        && codec
            .encode(PROBE.into(), &alone::options())
            .is_ok_and(|encoded| encoded.strip_prefix(PROBE) == Some(&crc32c(PROBE).to_le_bytes()))
}

/// The most that Blosc takes for the blocks with which it works: two, of the size that it was told to make them, or makes
/// them by itself.
fn blosc_heap(codec: &dyn BytesToBytesCodecTraits, bytes: usize, element: &Element) -> usize {
    let configuration = codec.configuration_v3(&CodecMetadataOptions::default());
    let told = configuration.and_then(|c| c.get("blocksize")?.as_u64()).unwrap_or(0) as usize;
    let block = told.max(1 << 20).max(element.dtype.size() << 18);
    bytes.min(block.saturating_mul(2).saturating_add(4096))
}

/// A list of codecs, sorted by kind.
#[derive(Default)]
pub(super) struct Sorted {
    pub(super) arrays: Vec<Arc<dyn ArrayToArrayCodecTraits>>,
    pub(super) core: Option<Arc<dyn ArrayToBytesCodecTraits>>,
    pub(super) bytes: Vec<Arc<dyn BytesToBytesCodecTraits>>,
}

impl Sorted {
    /// From what a `zarr.json` says, for chunks of this shape.
    fn made(list: &[MetadataV3], shape: &[u64], element: &Element) -> Result<Sorted, FormatError> {
        bounded::within(most_between(shape, element), || {
            let mut sorted = Sorted::default();
            for codec in list {
                sorted.push(make_codec(codec)?)?;
            }
            Ok(sorted)
        })
    }

    pub(super) fn push(&mut self, codec: Codec) -> Result<(), FormatError> {
        let late = match &codec {
            Codec::ArrayToArray(_) => self.core.is_some() || !self.bytes.is_empty(),
            Codec::ArrayToBytes(_) => self.core.is_some(),
            Codec::BytesToBytes(_) => false,
        };
        if late {
            let name = codec.name_v3().unwrap_or_default();
            return Err(FormatError::Malformed(format!(
                "codec {name:?} comes too late in the list of codecs"
            )));
        }
        match codec {
            Codec::ArrayToArray(c) => self.arrays.push(c),
            Codec::ArrayToBytes(c) => self.core = Some(c),
            Codec::BytesToBytes(c) => self.bytes.push(c),
        }
        Ok(())
    }
}

/// The most bytes that come out of any codec of a chunk of this shape.
pub(super) fn most_between(shape: &[u64], element: &Element) -> u64 {
    let bytes = shape.iter().fold(element.dtype.size() as u64, |bytes, &n| bytes.saturating_mul(n));
    bytes.saturating_mul(2).saturating_add(1 << 20)
}

/// Makes the codec that an object of `zarr.json` describes.
pub(super) fn make_codec(metadata: &MetadataV3) -> Result<Codec, FormatError> {
    bounded::register();
    Codec::from_metadata(metadata).map_err(|e| refused(metadata.name(), &e))
}

/// The error of a codec that cannot be made.
pub(super) fn refused(name: &str, error: &PluginCreateError) -> FormatError {
    FormatError::Unsupported(match error {
        // The codec itself, or one inside its configuration.
        PluginCreateError::Unsupported(inner) if !inner.to_string().contains(name) => {
            format!("codec {name:?}: {inner}")
        }
        PluginCreateError::Unsupported(_) => format!("codec {name:?} is not supported"),
        other => format!("codec {name:?} is not supported with this configuration: {other}"),
    })
}

impl Codecs {
    /// The codecs in the `codecs` of a `zarr.json`, for chunks of this shape. `shards`: whether a
    /// sharding codec is taken apart.
    pub(super) fn new(
        list: &[MetadataV3],
        shape: &[u64],
        element: &Element,
        shards: bool,
    ) -> Result<Codecs, FormatError> {
        if list.len() > MAX_CODECS {
            let what = format!("{} codecs in one list, at most {MAX_CODECS} are possible", list.len());
            return Err(FormatError::Unsupported(what));
        }
        let transpositions = list.iter().take_while(|c| c.name() == "transpose").count();
        let (transpositions, list) = list.split_at(transpositions);
        let mut order: SmallVec<[usize; 4]> = (0..shape.len()).collect();
        for codec in transpositions {
            let next = parse_order(codec, shape.len())?;
            order = next.iter().map(|&axis| order[axis]).collect();
        }
        if let ([only], true) = (list, shards)
            && only.name() == "sharding_indexed"
        {
            let shape: Dims = order.iter().map(|&axis| shape[axis]).collect();
            let shards = Shards::new(only, &shape, element)?;
            return Codecs::assemble(order, shape, element, Kind::Shards(Box::new(shards)));
        }
        let sorted = Sorted::made(list, shape, element)?;
        let bytes = list.iter().find(|c| matches!(c.name(), "bytes" | "endian"));
        let big =
            bytes.is_some_and(|c| c.configuration().and_then(|c| c.get("endian")?.as_str()) == Some("big"));
        // What `zarrs` says of a shard within a shard is the square of the truth.
        let inner = match list.iter().find(|c| c.name() == "sharding_indexed") {
            Some(codec) => {
                let shape: Dims = order.iter().map(|&axis| shape[axis]).collect();
                match Shards::new(codec, &shape, element) {
                    Ok(shards) => Some(shards.most_encoded() as u64),
                    // Codecs before it may change the shape; there are no more inner chunks than elements.
                    Err(_) => {
                        let index = shape.iter().fold(32, |bytes: u64, &n| bytes.saturating_mul(n));
                        Some(most_between(&shape, element).saturating_add(index))
                    }
                }
            }
            None => None,
        };
        Codecs::sorted(order, sorted, big, inner, shape, element)
    }

    /// The same from codecs that are there. `big`: the elements are stored with the most significant
    /// byte first. `inner`: the most bytes of a shard, where one is inside.
    pub(super) fn sorted(
        order: SmallVec<[usize; 4]>,
        sorted: Sorted,
        big: bool,
        inner: Option<u64>,
        shape: &[u64],
        element: &Element,
    ) -> Result<Codecs, FormatError> {
        let shape: Dims = order.iter().map(|&axis| shape[axis]).collect();
        let Some(core) = sorted.core else {
            return Err(FormatError::Malformed("no codec makes bytes of the elements".into()));
        };
        let plain = core.name_v3().is_some_and(|name| name == "bytes");
        let filters = !sorted.arrays.is_empty();
        let core = CodecChain::new(sorted.arrays, core, vec![]);
        let first = core
            .encoded_representation(&nonzero(&shape), &element.data_type, &element.fill_value)
            .map_err(|e| FormatError::Unsupported(e.to_string()))?;
        let first = match (first, inner) {
            (_, Some(most)) => BytesRepresentation::BoundedSize(most),
            (BytesRepresentation::FixedSize(n), None) => BytesRepresentation::FixedSize(n),
            (known, None) => {
                let most = most_between(&shape, element);
                BytesRepresentation::BoundedSize(known.size().map_or(most, |n| n.min(most)))
            }
        };
        let mut sizes = vec![first];
        for stage in &sorted.bytes {
            sizes.push(stage.encoded_representation(&sizes[sizes.len() - 1]));
        }
        let copies = filters || !plain || big;
        let as_they_are = plain && !filters && inner.is_none() && (!big || element.dtype.word_size() == 1);
        let straight = match sizes[0] {
            BytesRepresentation::FixedSize(_) if as_they_are => {
                Straight::find(&sorted.bytes, &sizes, element).map(Box::new)
            }
            _ => None,
        };
        let stages = Stages {
            core,
            stages: sorted.bytes,
            sizes,
            copies,
            filters,
            shards: inner.is_some(),
            pool: Pool::default(),
            straight,
        };
        Codecs::assemble(order, shape, element, Kind::Whole(stages))
    }

    fn assemble(
        order: SmallVec<[usize; 4]>,
        shape: Dims,
        element: &Element,
        kind: Kind,
    ) -> Result<Codecs, FormatError> {
        let bytes = crate::shape::checked_nbytes(&shape, element.dtype.size())
            .map_err(|e| FormatError::Malformed(e.to_string()))? as usize;
        Ok(Codecs { order, shape, bytes, kind, element: element.clone(), options: alone::options() })
    }

    /// Strides in bytes, along the array's axes, of a decoded chunk.
    pub(super) fn strides(&self) -> Strides {
        let dense = dense_strides(&self.shape, self.element.dtype.size());
        let mut strides = dense.clone();
        for (i, &axis) in self.order.iter().enumerate() {
            strides[axis] = dense[i];
        }
        strides
    }

    /// The most bytes that an encoded chunk has.
    pub(super) fn most_encoded(&self) -> usize {
        match &self.kind {
            Kind::Whole(stages) => stages.most(stages.stages.len()),
            Kind::Shards(shards) => shards.most_encoded(),
        }
    }

    /// The most heap memory that [`decode`](Self::decode) takes.
    pub(super) fn decode_heap(&self) -> usize {
        match &self.kind {
            Kind::Whole(stages) => stages.heap(self.bytes, false),
            Kind::Shards(shards) => shards.inner.decode_heap(),
        }
    }

    /// The most heap memory that [`encode`](Self::encode) takes.
    pub(super) fn encode_heap(&self) -> usize {
        match &self.kind {
            Kind::Whole(stages) => stages.heap(self.bytes, true),
            Kind::Shards(shards) => shards.inner.encode_heap(),
        }
    }

    /// From a chunk's bytes to its elements, dense in the order of the encoded axes; or what is wrong
    /// with them. Not for shards.
    pub(super) fn decode<'a>(&self, encoded: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        let Kind::Whole(stages) = &self.kind else { return Err("is a shard".into()) };
        bounded::refused();
        bounded::room(self.decode_heap())?;
        let decode = || {
            let mut bytes = Cow::Borrowed(encoded);
            for (stage, size) in stages.stages.iter().zip(&stages.sizes).rev() {
                let name = for_people(&**stage);
                bytes =
                    stage.decode(bytes, size, &self.options).map_err(|e| format!("codec {name:?}: {e}"))?;
                check_size(bytes.len(), *size).map_err(|e| format!("codec {name:?}: {e}"))?;
            }
            check_size(bytes.len(), stages.sizes[0])?;
            let Element { data_type, fill_value, .. } = &self.element;
            let decoded =
                stages.core.decode(bytes, &nonzero(&self.shape), data_type, fill_value, &self.options);
            let elements = decoded.map_err(|e| e.to_string())?.into_fixed().map_err(|e| e.to_string())?;
            check_size(elements.len(), BytesRepresentation::FixedSize(self.bytes as u64))?;
            Ok(elements)
        };
        // Codecs are given bytes that nobody vouches for; one that panics on them has found an error.
        catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err("the codecs fail on it".into()))
    }

    /// How chunks are decoded straight to memory of their own layout, where they can be.
    pub(super) fn straight(&self) -> Option<&Straight> {
        match &self.kind {
            Kind::Whole(stages) => stages.straight.as_deref(),
            Kind::Shards(_) => None,
        }
    }

    /// The most heap memory that [`decode_to`](Self::decode_to) takes.
    pub(super) fn straight_heap(&self) -> usize {
        self.straight().map_or(0, |straight| straight.heap)
    }

    /// The same as [`decode`](Self::decode), to the memory of a chunk; after an error, that holds anything. For chunks
    /// that are decoded [straight](Self::straight).
    pub(super) fn decode_to(&self, encoded: &[u8], memory: &mut [u8]) -> Result<(), String> {
        let Kind::Whole(stages @ Stages { straight: Some(straight), .. }) = &self.kind else {
            return Err("is not decoded straight".into());
        };
        bounded::refused();
        let at = |stage: usize, what: String| {
            let name = for_people(&*stages.stages[stage]);
            format!("codec {name:?}: {what}")
        };
        let decode = |memory: &mut [u8]| {
            let mut bytes = Cow::Borrowed(encoded);
            for (stage, (&step, size)) in straight.steps.iter().zip(&stages.sizes).enumerate().rev() {
                let out = match step {
                    Step::Crc32c => without_checksum(&bytes).map(<[u8]>::len).map_err(|e| e.to_string()),
                    Step::Decode(Decoder::Fletcher32) => {
                        bounded::without_fletcher32(&bytes, bounded::room_of(size)).map(<[u8]>::len)
                    }
                    Step::Decode(decoder) if stage == 0 => decoder.decode_to(&bytes, memory),
                    Step::Decode(decoder) => decoder.decode(&bytes, bounded::room_of(size)).map(|out| {
                        bytes = out.into();
                        bytes.len()
                    }),
                };
                let out = out.and_then(|out| check_size(out, *size).map(|()| out));
                let out = out.map_err(|what| at(stage, what))?;
                if stage > 0 || step.only_checks() {
                    shorten(&mut bytes, out);
                }
            }
            if straight.steps.first().is_none_or(|step| step.only_checks()) {
                check_size(bytes.len(), stages.sizes[0])?;
                memory.copy_from_slice(&bytes);
            }
            Ok(())
        };
        catch_unwind(AssertUnwindSafe(|| decode(memory)))
            .unwrap_or_else(|_| Err("the codecs fail on it".into()))
    }

    /// From elements, dense in the order of the encoded axes, to a chunk's bytes; or what is wrong.
    /// Not for shards.
    pub(super) fn encode<'a>(&self, elements: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        let Kind::Whole(stages) = &self.kind else { return Err("is a shard".into()) };
        bounded::refused();
        bounded::room(self.encode_heap())?;
        let encode = || {
            let Element { data_type, fill_value, .. } = &self.element;
            let elements = ArrayBytes::new_flen(elements);
            let encoded =
                stages.core.encode(elements, &nonzero(&self.shape), data_type, fill_value, &self.options);
            let mut bytes = encoded.map_err(|e| e.to_string())?;
            for stage in &stages.stages {
                bytes = stage.encode(bytes, &self.options).map_err(|e| {
                    let name = for_people(&**stage);
                    format!("codec {name:?}: {e}")
                })?;
            }
            Ok(bytes)
        };
        let encode = || catch_unwind(AssertUnwindSafe(encode));
        let encoded = if stages.shards { stages.pool.install(encode)? } else { encode() };
        encoded.unwrap_or_else(|_| Err("the codecs fail on it".into()))
    }
}

impl Stages {
    /// The most bytes after `done` stages.
    fn most(&self, done: usize) -> usize {
        self.sizes[done].size().map_or(usize::MAX, |n| n as usize)
    }

    /// The most heap memory at once: each stage has its input and its output. What comes from or
    /// goes to a frame is not counted.
    fn heap(&self, decoded: usize, encode: bool) -> usize {
        let outer = self.stages.len();
        let of_core = if self.shards {
            // All of it, and what its codecs do with a part.
            decoded.max(self.most(0)).saturating_mul(3)
        } else if self.filters {
            decoded.saturating_mul(2)
        } else if self.copies && (encode || outer == 0) {
            decoded
        } else {
            0
        };
        let inputs = |i: usize| if i == outer && !encode { 0 } else { self.most(i) };
        // The bytes before the first stage are those of the core, or the elements themselves.
        let before_first = |i: usize| if i == 0 && encode && !self.copies { 0 } else { inputs(i) };
        let pairs = (0..outer).map(|i| before_first(i).saturating_add(inputs(i + 1))).max().unwrap_or(0);
        let after_stages = if outer > 0 && !encode { self.most(0) } else { 0 };
        pairs.max(after_stages.saturating_add(of_core))
    }
}

/// Extents as `zarrs` wants them; those of a chunk are at least 1.
pub(super) fn nonzero(shape: &[u64]) -> Vec<NonZeroU64> {
    shape.iter().map(|&n| NonZeroU64::new(n).unwrap_or(NonZeroU64::MIN)).collect()
}

fn parse_order(codec: &MetadataV3, ndim: usize) -> Result<SmallVec<[usize; 4]>, FormatError> {
    let order = codec.configuration().and_then(|c| c.get("order"));
    let axes: Option<SmallVec<[usize; 4]>> =
        order.and_then(|o| o.as_array()?.iter().map(|n| Some(n.as_u64()? as usize)).collect());
    let is_permutation =
        |axes: &SmallVec<[usize; 4]>| axes.len() == ndim && (0..ndim).all(|axis| axes.contains(&axis));
    axes.filter(is_permutation).ok_or_else(|| {
        let found = order.map_or("missing".into(), ToString::to_string);
        FormatError::Malformed(format!("codec \"transpose\": order {found} is not one of the {ndim} axes"))
    })
}

/// The bytes in front of their CRC-32C, as `zarrs` gives them.
fn without_checksum(bytes: &[u8]) -> Result<&[u8], CodecError> {
    let Some((bytes, stored)) = bytes.split_last_chunk::<4>() else {
        return Err("crc32c decoder expects a 32 bit input".into());
    };
    if crc32c(bytes).to_le_bytes() == *stored { Ok(bytes) } else { Err(CodecError::InvalidChecksum) }
}

/// The name of a codec, as whoever writes it knows it.
fn for_people(codec: &dyn BytesToBytesCodecTraits) -> String {
    let name = codec.name_v3().unwrap_or_default();
    name.strip_prefix("numcodecs.").unwrap_or(&name).into()
}

/// Forgets what is behind so many bytes.
fn shorten(bytes: &mut Cow<'_, [u8]>, len: usize) {
    match bytes {
        Cow::Borrowed(all) => *all = &all[..len],
        Cow::Owned(all) => all.truncate(len),
    }
}

/// The most bytes that a compressor leaves, where so many are told: ours are not the only ones, and what does not become
/// shorter may take an eighth more.
pub(super) fn with_slack(most: u64) -> u64 {
    most.saturating_add(most / 8).saturating_add(64)
}

pub(super) fn check_size(found: usize, size: BytesRepresentation) -> Result<(), String> {
    let found = found as u64;
    match size {
        BytesRepresentation::FixedSize(n) if n != found => Err(format!("{found} bytes come out, not {n}")),
        BytesRepresentation::BoundedSize(n) if with_slack(n) < found => {
            Err(format!("{found} bytes come out, at most {n} can"))
        }
        _ => Ok(()),
    }
}

/// What `codecs` of a `zarr.json` say, for people.
pub(super) fn describe(list: &[MetadataV3]) -> String {
    list.iter().map(describe_one).collect::<Vec<_>>().join(", ")
}

fn describe_one(codec: &MetadataV3) -> String {
    let text = |key: &str| {
        let value = codec.configuration()?.get(key)?;
        Some(value.as_str().map_or_else(|| value.to_string(), Into::into))
    };
    let name = codec.name();
    let short = name.strip_prefix("numcodecs.").unwrap_or(name);
    let details = match short {
        "bytes" | "endian" => text("endian").filter(|e| e == "big").map(|_| "big-endian".into()),
        "transpose" => text("order").map(|order| order.trim_matches(['[', ']']).replace(',', ", ")),
        "sharding_indexed" => {
            let inner: Option<Vec<u64>> = text("chunk_shape").and_then(|t| serde_json::from_str(&t).ok());
            let codecs: Option<Vec<MetadataV3>> = text("codecs").and_then(|t| serde_json::from_str(&t).ok());
            inner.zip(codecs).map(|(inner, codecs)| format!("{}: {}", Tuple(&inner), describe(&codecs)))
        }
        "blosc" => {
            let level = text("clevel").map(|n| format!("level {n}"));
            let parts: Vec<String> = [text("cname"), level, text("shuffle")].into_iter().flatten().collect();
            Some(parts.join(", "))
        }
        _ => text("level").map(|n| format!("level {n}")),
    };
    match details {
        Some(details) => format!("{short}({details})"),
        None => short.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_named_for_people() {
        let list = r#"[{"name":"transpose","configuration":{"order":[1,0]}},
            {"name":"sharding_indexed","configuration":{"chunk_shape":[2,3],"codecs":[
            {"name":"bytes","configuration":{"endian":"big"}},
            {"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"shuffle"}}]}},
            {"name":"numcodecs.zlib","configuration":{"level":1}},"crc32c"]"#;
        let list: Vec<MetadataV3> = serde_json::from_str(list).unwrap();
        let expected = "transpose(1, 0), sharding_indexed((2, 3): bytes(big-endian), \
                        blosc(lz4, level 5, shuffle)), zlib(level 1), crc32c";
        assert_eq!(describe(&list), expected);
    }
}
