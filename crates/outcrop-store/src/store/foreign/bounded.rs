//! Decoders that stop where a chunk is full, and those that are faster here.
//!
//! The decoders of `zarrs` decode to the end, and 64 KiB can hold gigabytes. These are told how much can come
//! out, which for every stage of a list of codecs follows from the chunk's shape, take no more memory than
//! that, and refuse the rest. They take the place of those of `zarrs` wherever it makes a codec, so that it
//! uses them in what it decodes by itself, too: shards within shards.
//!
//! What follows a good frame is treated as numcodecs does. A second one belongs to the chunk for gzip (where
//! zeros may lie between), bz2 and Zstandard, and counts; for zlib and Blosc it is not looked at. Anything else
//! is an error for gzip and Zstandard, and not looked at for bz2.
//!
//! Shuffled bytes are put back by the copies of this crate, where `zarrs` moves one byte after the other; and
//! Fletcher's checksum is HDF5's of any number of bytes, where that of `zarrs` leaves an odd one out.
//!
//! Each decodes to memory that it takes, or to memory that is given: that in which the elements are wanted.

use super::codecs::with_slack;
use crate::error::Error;
use crate::frame::refusals::MEMORY;
use crate::strided::copy;
use blosc_src::{blosc_cbuffer_validate, blosc_decompress_ctx};
use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, Read};
use std::sync::{Arc, Once};
use zarrs::array::codec::api::{
    BytesToBytesCodecTraits, Codec, CodecError, CodecMetadataOptions, CodecOptions, CodecRuntimePluginV2,
    CodecRuntimePluginV3, CodecTraits, CodecTraitsV2, CodecTraitsV3, PartialDecoderCapability,
    PartialEncoderCapability, RecommendedConcurrency, register_codec_v2, register_codec_v3,
};
use zarrs::array::codec::{
    BloscCodec, Bz2Codec, Fletcher32Codec, GzipCodec, ShuffleCodec, ZlibCodec, ZstdCodec,
};
use zarrs::array::{ArrayBytesRaw, BytesRepresentation};
use zarrs::metadata::Configuration;
use zarrs::plugin::{
    ExtensionAliases, ExtensionName, PluginCreateError, ZarrVersion, ZarrVersion2, ZarrVersion3,
};

/// What decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoder {
    Gzip,
    Zlib,
    Bz2,
    Zstd,
    /// What its header says that comes out is all that it takes memory for, beside the blocks with which it works.
    Blosc,
    /// The first bytes of all elements of this size, then the second ones, and so on.
    Shuffle(usize),
    /// The bytes as they are, with a checksum behind them.
    Fletcher32,
}

/// A codec of `zarrs` with a decoder that stops.
#[derive(Debug)]
struct Bounded {
    inner: Arc<dyn BytesToBytesCodecTraits>,
    decoder: Decoder,
    /// The most bytes that come out of any codec of the list.
    most: u64,
}

thread_local! {
    /// Bytes that the system refused.
    static REFUSED: Cell<usize> = const { Cell::new(0) };
    /// What [`within`] says of the codecs that are being made.
    static MOST: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Makes codecs of which none gives more than `most` bytes, whatever `zarrs` says can be: its bound for a shard
/// inside a shard is the square of the truth.
pub(super) fn within<T>(most: u64, make: impl FnOnce() -> T) -> T {
    register();
    let before = MOST.replace(most.min(MOST.get()));
    let made = make();
    MOST.set(before);
    made
}

/// Puts the decoders in the place of those of `zarrs`.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        replace::<GzipCodec>(Decoder::Gzip);
        replace::<ZlibCodec>(Decoder::Zlib);
        replace::<Bz2Codec>(Decoder::Bz2);
        replace::<ZstdCodec>(Decoder::Zstd);
        replace::<BloscCodec>(Decoder::Blosc);
        replace::<ShuffleCodec>(Decoder::Shuffle(0));
        replace::<Fletcher32Codec>(Decoder::Fletcher32);
    });
}

fn replace<T>(decoder: Decoder)
where
    T: CodecTraitsV2
        + CodecTraitsV3
        + ExtensionAliases<ZarrVersion2>
        + ExtensionAliases<ZarrVersion3>
        + 'static,
{
    register_codec_v3(CodecRuntimePluginV3::new(
        <T as ExtensionAliases<ZarrVersion3>>::matches_name,
        move |metadata| wrap(<T as CodecTraitsV3>::create(metadata), decoder),
    ));
    register_codec_v2(CodecRuntimePluginV2::new(
        <T as ExtensionAliases<ZarrVersion2>>::matches_name,
        move |metadata| wrap(<T as CodecTraitsV2>::create(metadata), decoder),
    ));
}

fn wrap(made: Result<Codec, PluginCreateError>, decoder: Decoder) -> Result<Codec, PluginCreateError> {
    made.map(|codec| match codec {
        Codec::BytesToBytes(inner) => {
            let decoder = match decoder {
                Decoder::Shuffle(_) => Decoder::Shuffle(element_size(&*inner)),
                other => other,
            };
            Codec::BytesToBytes(Arc::new(Bounded { inner, decoder, most: MOST.get() }))
        }
        other => other,
    })
}

/// Of what a codec shuffles the bytes.
fn element_size(shuffle: &dyn BytesToBytesCodecTraits) -> usize {
    let configuration = shuffle.configuration_v3(&CodecMetadataOptions::default());
    configuration.and_then(|c| c.get("elementsize")?.as_u64()).unwrap_or(0) as usize
}

/// The decoder of ours that a codec has.
pub(super) fn decoder_of(codec: &dyn BytesToBytesCodecTraits) -> Option<Decoder> {
    codec.as_any().downcast_ref::<Bounded>().map(|bounded| bounded.decoder)
}

/// Memory that is filled from its start, and holds the most that can come out.
trait Out {
    /// The most.
    fn most(&self) -> usize;
    /// Bytes that are there.
    fn filled(&self) -> usize;
    /// Forgets all behind so many bytes.
    fn truncate(&mut self, filled: usize);
    /// Room for so many more bytes, which are anything as yet.
    fn take(&mut self, bytes: usize) -> Result<&mut [u8], Failure>;
    /// Adds what comes from a source, until it ends or there is no more room.
    fn read(&mut self, source: &mut impl Read) -> io::Result<()>;
    /// Becomes what comes out of frames of Zstandard.
    fn decompress(&mut self, decoder: &mut zstd::bulk::Decompressor, encoded: &[u8]) -> io::Result<()>;
}

/// Memory of our own, that is only taken as far as it is written to.
struct Own(Vec<u8>, usize);

/// Memory of whoever wants the elements, as far as it is filled.
struct Given<'a>(&'a mut [u8], usize);

impl Out for Own {
    fn most(&self) -> usize {
        self.1
    }

    fn filled(&self) -> usize {
        self.0.len()
    }

    fn truncate(&mut self, filled: usize) {
        self.0.truncate(filled);
    }

    fn take(&mut self, bytes: usize) -> Result<&mut [u8], Failure> {
        let start = self.0.len();
        if bytes > self.1 - start {
            return Err(Failure::TooMuch(self.1));
        }
        self.0.resize(start + bytes, 0);
        Ok(&mut self.0[start..])
    }

    fn read(&mut self, source: &mut impl Read) -> io::Result<()> {
        source.take((self.1 - self.0.len()) as u64).read_to_end(&mut self.0).map(drop)
    }

    fn decompress(&mut self, decoder: &mut zstd::bulk::Decompressor, encoded: &[u8]) -> io::Result<()> {
        decoder.decompress_to_buffer(encoded, &mut self.0).map(drop)
    }
}

impl Out for Given<'_> {
    fn most(&self) -> usize {
        self.0.len()
    }

    fn filled(&self) -> usize {
        self.1
    }

    fn truncate(&mut self, filled: usize) {
        self.1 = filled;
    }

    fn take(&mut self, bytes: usize) -> Result<&mut [u8], Failure> {
        let start = self.1;
        if bytes > self.0.len() - start {
            return Err(Failure::TooMuch(self.0.len()));
        }
        self.1 += bytes;
        Ok(&mut self.0[start..self.1])
    }

    fn read(&mut self, source: &mut impl Read) -> io::Result<()> {
        while self.1 < self.0.len() {
            match source.read(&mut self.0[self.1..])? {
                0 => break,
                more => self.1 += more,
            }
        }
        Ok(())
    }

    fn decompress(&mut self, decoder: &mut zstd::bulk::Decompressor, encoded: &[u8]) -> io::Result<()> {
        self.1 = decoder.decompress_to_buffer(encoded, &mut *self.0)?;
        Ok(())
    }
}

/// Decodes one stream of `source` to the end of `out`.
fn fill(out: &mut impl Out, source: &mut impl Read) -> Result<(), Failure> {
    out.read(source).map_err(Failure::Damaged)?;
    match source.read(&mut [0]).map_err(Failure::Damaged)? {
        0 => Ok(()),
        _ => Err(Failure::TooMuch(out.most())),
    }
}

enum Failure {
    Damaged(io::Error),
    TooMuch(usize),
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        match failure {
            Failure::Damaged(error) => error.to_string(),
            Failure::TooMuch(most) => too_much(most),
        }
    }
}

/// The most bytes that come out where so many are told.
pub(super) fn room_of(size: &BytesRepresentation) -> usize {
    let most = match *size {
        BytesRepresentation::FixedSize(n) => n,
        BytesRepresentation::BoundedSize(n) => with_slack(n),
        BytesRepresentation::UnboundedSize => u64::MAX,
    };
    usize::try_from(most).unwrap_or(usize::MAX)
}

fn too_much(most: usize) -> String {
    format!("more than {most} bytes come out, which is the most that can")
}

/// Memory for as much as can come out. It is charged, and what is not written to is not taken.
pub(super) fn room(most: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    if MEMORY.next() || out.try_reserve_exact(most).is_err() {
        return Err(refuse(most));
    }
    Ok(out)
}

/// Notes that the system refuses so many bytes; in words.
pub(super) fn refuse(bytes: usize) -> String {
    REFUSED.set(bytes.max(1));
    format!("the system has no {bytes} bytes of memory")
}

/// What the system refused to the codecs that ran last on this thread: then nothing is wrong with the bytes.
pub(super) fn refused() -> Option<Error> {
    match REFUSED.take() {
        0 => None,
        bytes => Some(Error::OutOfMemory { bytes: bytes as u64, source: io::ErrorKind::OutOfMemory.into() }),
    }
}

impl Decoder {
    /// What comes out of some bytes, at most so many; or what is wrong.
    pub(super) fn decode(self, encoded: &[u8], most: usize) -> Result<Vec<u8>, String> {
        if self == Decoder::Blosc {
            let claim = blosc_claim(encoded).unwrap_or(0).min(most as u64) as usize;
            let mut out = room(claim)?;
            out.resize(claim, 0);
            decode_blosc(encoded, &mut out)?;
            return Ok(out);
        }
        let mut out = Own(room(most)?, most);
        self.run(encoded, &mut out)?;
        Ok(out.0)
    }

    /// Decodes to memory that holds the most that can come out; how much did, or what is wrong. The memory's
    /// other bytes, and after an error all of them, are anything.
    pub(super) fn decode_to(self, encoded: &[u8], memory: &mut [u8]) -> Result<usize, String> {
        if self == Decoder::Blosc {
            return decode_blosc(encoded, memory);
        }
        let mut out = Given(memory, 0);
        self.run(encoded, &mut out)?;
        Ok(out.filled())
    }

    fn run(self, encoded: &[u8], out: &mut impl Out) -> Result<(), String> {
        match self {
            Decoder::Gzip => decode_gzip(encoded, out),
            Decoder::Zlib => Ok(fill(out, &mut flate2::bufread::ZlibDecoder::new(encoded))?),
            Decoder::Bz2 => decode_bz2(encoded, out),
            Decoder::Zstd => decode_zstd(encoded, out),
            Decoder::Blosc => Err("is decoded elsewhere".into()),
            Decoder::Shuffle(size) => unshuffle(encoded, size, out),
            Decoder::Fletcher32 => {
                let bytes = without_fletcher32(encoded, out.most())?;
                out.take(bytes.len())?.copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

fn decode_gzip(encoded: &[u8], out: &mut impl Out) -> Result<(), String> {
    let mut rest = encoded;
    loop {
        let mut member = flate2::bufread::GzDecoder::new(rest);
        fill(out, &mut member)?;
        rest = member.into_inner();
        while let [0, after @ ..] = rest {
            rest = after;
        }
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn decode_bz2(encoded: &[u8], out: &mut impl Out) -> Result<(), String> {
    let mut rest = encoded;
    loop {
        let (whole, first) = (out.filled(), rest.len() == encoded.len());
        let mut stream = bzip2::bufread::BzDecoder::new(rest);
        match fill(out, &mut stream) {
            Err(Failure::Damaged(_)) if !first => {
                out.truncate(whole);
                return Ok(());
            }
            other => other?,
        }
        let left = stream.into_inner();
        if left.is_empty() || left.len() == rest.len() {
            return Ok(());
        }
        rest = left;
    }
}

/// All frames in one go: the decoder writes to memory of the most that can come out, and needs no window.
fn decode_zstd(encoded: &[u8], out: &mut impl Out) -> Result<(), String> {
    let mut decoder = zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?;
    out.decompress(&mut decoder, encoded).map_err(|e| match e.to_string() {
        small if small.contains("Destination buffer is too small") => too_much(out.most()),
        other => other,
    })
}

fn unshuffle(encoded: &[u8], size: usize, out: &mut impl Out) -> Result<(), String> {
    if !encoded.len().is_multiple_of(size) {
        return Err(format!("{} bytes do not make elements of {size}", encoded.len()));
    }
    let memory = out.take(encoded.len())?;
    let count = encoded.len() / size.max(1);
    let shape = [count as u64, size as u64];
    // SAFETY: both are so many elements of so many bytes, and apart from each other.
    unsafe {
        copy(memory.as_mut_ptr(), &[size as isize, 1], encoded.as_ptr(), &[1, count as isize], &shape, 1)
    };
    Ok(())
}

/// The bytes in front of their checksum, at most so many.
pub(super) fn without_fletcher32(encoded: &[u8], most: usize) -> Result<&[u8], String> {
    let Some((bytes, stored)) = encoded.split_last_chunk::<4>() else {
        return Err(format!("{} bytes are too few for a checksum", encoded.len()));
    };
    let [a, b, c, d] = fletcher32(bytes).to_le_bytes();
    // Versions of HDF5 before 1.6.3 exchanged bytes on some machines; it reads both.
    if *stored != [a, b, c, d] && *stored != [b, a, d, c] {
        return Err("the checksum does not match".into());
    }
    if bytes.len() > most { Err(too_much(most)) } else { Ok(bytes) }
}

/// Fletcher's checksum of words of two bytes, the first one the more significant, as HDF5 computes it; an odd byte at
/// the end is the more significant one of a word.
fn fletcher32(bytes: &[u8]) -> u32 {
    /// So many that sums of them fit, each as often as it is added.
    const WORDS: usize = 256;
    // Of ones' complements: modulo 65535, where 0 is that of nothing but zeros.
    let reduced = |sum: u64| if sum == 0 { 0 } else { (sum - 1) % 65535 + 1 };
    let (mut first, mut second) = (0_u64, 0_u64);
    for block in bytes.chunks(2 * WORDS) {
        let words = block.len().div_ceil(2) as u64;
        let (pairs, odd) = block.as_chunks::<2>();
        let (mut sum, mut of_sums) = (0_u32, 0_u32);
        for (i, pair) in pairs.iter().enumerate() {
            let word = u32::from(u16::from_be_bytes(*pair));
            sum += word;
            of_sums += word * (words as u32 - i as u32);
        }
        if let [byte] = odd {
            let word = u32::from(*byte) << 8;
            (sum, of_sums) = (sum + word, of_sums + word);
        }
        second = reduced(second + words * first + u64::from(of_sums));
        first = reduced(first + u64::from(sum));
    }
    (second as u32) << 16 | first as u32
}

/// As `zarrs` does, but for the memory.
fn decode_blosc(encoded: &[u8], memory: &mut [u8]) -> Result<usize, String> {
    let claim = blosc_claim(encoded).unwrap_or(0);
    if claim > memory.len() as u64 {
        return Err(too_much(memory.len()));
    }
    let mut nbytes = 0;
    // SAFETY: that many bytes are there; fewer than a header's are refused.
    let valid =
        unsafe { blosc_cbuffer_validate(encoded.as_ptr().cast(), encoded.len(), &raw mut nbytes) == 0 };
    if !valid || nbytes as u64 != claim {
        return Err("blosc encoded value is invalid".into());
    }
    // What it takes without looking whether it gets it: a block, and another one with room for its streams.
    let block = u32::from_le_bytes(encoded[8..12].try_into().expect("four bytes")) as usize;
    if block <= nbytes {
        room(2 * block + 4 * usize::from(encoded[3]))?;
    }
    // SAFETY: the bytes are as many as the header says, as was just found; and it writes no more than `nbytes`, which
    // the memory has.
    let out = unsafe { blosc_decompress_ctx(encoded.as_ptr().cast(), memory.as_mut_ptr().cast(), nbytes, 1) };
    match usize::try_from(out) {
        Ok(out) if out > 0 => Ok(out),
        _ => Err("blosc_decompress_ctx failed".into()),
    }
}

/// What a Blosc header says that comes out.
fn blosc_claim(encoded: &[u8]) -> Option<u64> {
    let claim = encoded.get(4..8)?;
    Some(u32::from_le_bytes(claim.try_into().expect("four bytes")).into())
}

impl ExtensionName for Bounded {
    fn name(&self, version: ZarrVersion) -> Option<Cow<'static, str>> {
        self.inner.name(version)
    }
}

impl CodecTraits for Bounded {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn configuration(&self, version: ZarrVersion, options: &CodecMetadataOptions) -> Option<Configuration> {
        self.inner.configuration(version, options)
    }

    // Nothing is decoded in part: by default `zarrs` decodes the whole then, by `decode`.
    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: false, partial_decode: false }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        PartialEncoderCapability { partial_encode: false }
    }
}

impl BytesToBytesCodecTraits for Bounded {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn BytesToBytesCodecTraits> {
        self
    }

    fn recommended_concurrency(
        &self,
        size: &BytesRepresentation,
    ) -> Result<RecommendedConcurrency, CodecError> {
        self.inner.recommended_concurrency(size)
    }

    fn encoded_representation(&self, size: &BytesRepresentation) -> BytesRepresentation {
        self.inner.encoded_representation(size)
    }

    fn encode<'a>(
        &self,
        decoded: ArrayBytesRaw<'a>,
        options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        if self.decoder == Decoder::Fletcher32 {
            let sum = fletcher32(&decoded).to_le_bytes();
            let mut encoded = decoded.into_owned();
            encoded.extend_from_slice(&sum);
            return Ok(encoded.into());
        }
        self.inner.encode(decoded, options)
    }

    fn decode<'a>(
        &self,
        encoded: ArrayBytesRaw<'a>,
        size: &BytesRepresentation,
        options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let most = room_of(size).min(usize::try_from(self.most).unwrap_or(usize::MAX));
        if most == usize::MAX {
            return Err(CodecError::from("how much can come out is not known"));
        }
        match self.decoder {
            Decoder::Blosc => match blosc_claim(&encoded) {
                Some(claim) if claim > most as u64 => Err(CodecError::from(too_much(most))),
                _ => {
                    // The same memory, asked for where it may fail.
                    room(blosc_claim(&encoded).unwrap_or(0) as usize).map_err(CodecError::from)?;
                    self.inner.decode(encoded, size, options)
                }
            },
            ours => Ok(ours.decode(&encoded, most).map_err(CodecError::from)?.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As HDF5 has it: word after word.
    fn one_by_one(bytes: &[u8]) -> u32 {
        let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
        let (mut first, mut second) = (0_u32, 0_u32);
        for pair in bytes.chunks(2) {
            first = fold(first + (u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from)));
            second = fold(second + first);
        }
        fold(second) << 16 | fold(first)
    }

    proptest! {
        #[test]
        fn checksums_are_those_of_hdf5(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..3000),
                prop::collection::vec(Just(0xff), 0..3000),
                prop::collection::vec(Just(0), 0..3000),
            ],
        ) {
            prop_assert_eq!(fletcher32(&bytes), one_by_one(&bytes));
        }

        #[test]
        fn bytes_are_put_back(size in 0_usize..20, count in 0_usize..2000, seed: u8) {
            let elements: Vec<u8> = (0..size * count).map(|i| (i * 31 + i / 7) as u8 ^ seed).collect();
            let shuffled: Vec<u8> =
                (0..size).flat_map(|byte| elements.iter().skip(byte).step_by(size.max(1)).copied()).collect();
            let mut found = vec![0; size * count];
            prop_assert_eq!(Decoder::Shuffle(size).decode_to(&shuffled, &mut found), Ok(size * count));
            prop_assert_eq!(&found, &elements);
            prop_assert_eq!(Decoder::Shuffle(size).decode(&shuffled, size * count), Ok(elements));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut room = [0; 8];
        for (decoder, encoded) in [
            (Decoder::Shuffle(0), vec![1]),
            (Decoder::Shuffle(4), vec![0; 7]),
            (Decoder::Shuffle(4), vec![0; 12]),
            (Decoder::Fletcher32, vec![0; 3]),
            (Decoder::Fletcher32, vec![1, 2, 3, 4, 5]),
            (Decoder::Fletcher32, vec![0; 13]),
        ] {
            assert!(decoder.decode_to(&encoded, &mut room).is_err(), "{decoder:?} {encoded:?}");
        }
    }
}
