//! Decoders that stop where a chunk is full.
//!
//! The decoders of `zarrs` decode to the end, and 64 KiB can hold gigabytes. These are told how much can come
//! out, which for every stage of a list of codecs follows from the chunk's shape, take no more memory than
//! that, and refuse the rest. They take the place of those of `zarrs` wherever it makes a codec, so that it
//! uses them in what it decodes by itself, too: shards within shards.
//!
//! What follows a good frame is treated as numcodecs does. A second one belongs to the chunk for gzip (where
//! zeros may lie between), bz2 and Zstandard, and counts; for zlib and Blosc it is not looked at. Anything else
//! is an error for gzip and Zstandard, and not looked at for bz2.

use crate::error::Error;
use crate::frame::refusals::MEMORY;
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
use zarrs::array::codec::{BloscCodec, Bz2Codec, GzipCodec, ZlibCodec, ZstdCodec};
use zarrs::array::{ArrayBytesRaw, BytesRepresentation};
use zarrs::metadata::Configuration;
use zarrs::plugin::{
    ExtensionAliases, ExtensionName, PluginCreateError, ZarrVersion, ZarrVersion2, ZarrVersion3,
};

/// What decodes.
#[derive(Clone, Copy, Debug)]
enum Decoder {
    /// One of ours: what comes out of some bytes, at most so many; or what is wrong.
    Ours(fn(&[u8], usize) -> Result<Vec<u8>, String>),
    /// Blosc: what its header says that comes out is all that it takes memory for.
    OfClaim,
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
        replace::<GzipCodec>(Decoder::Ours(decode_gzip));
        replace::<ZlibCodec>(Decoder::Ours(decode_zlib));
        replace::<Bz2Codec>(Decoder::Ours(decode_bz2));
        replace::<ZstdCodec>(Decoder::Ours(decode_zstd));
        replace::<BloscCodec>(Decoder::OfClaim);
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
            Codec::BytesToBytes(Arc::new(Bounded { inner, decoder, most: MOST.get() }))
        }
        other => other,
    })
}

/// Decodes one stream of `source` to the end of `out`, which becomes no longer than `most` bytes.
fn fill(out: &mut Vec<u8>, source: &mut impl Read, most: usize) -> Result<(), Failure> {
    let mut limited = source.by_ref().take((most - out.len()) as u64);
    limited.read_to_end(out).map_err(Failure::Damaged)?;
    match source.read(&mut [0]).map_err(Failure::Damaged)? {
        0 => Ok(()),
        _ => Err(Failure::TooMuch(most)),
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

fn decode_gzip(encoded: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut out = room(most)?;
    let mut rest = encoded;
    loop {
        let mut member = flate2::bufread::GzDecoder::new(rest);
        fill(&mut out, &mut member, most)?;
        rest = member.into_inner();
        while let [0, after @ ..] = rest {
            rest = after;
        }
        if rest.is_empty() {
            return Ok(out);
        }
    }
}

fn decode_zlib(encoded: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut out = room(most)?;
    fill(&mut out, &mut flate2::bufread::ZlibDecoder::new(encoded), most)?;
    Ok(out)
}

fn decode_bz2(encoded: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut out = room(most)?;
    let mut rest = encoded;
    loop {
        let (whole, first) = (out.len(), rest.len() == encoded.len());
        let mut stream = bzip2::bufread::BzDecoder::new(rest);
        match fill(&mut out, &mut stream, most) {
            Err(Failure::Damaged(_)) if !first => {
                out.truncate(whole);
                return Ok(out);
            }
            other => other?,
        }
        let left = stream.into_inner();
        if left.is_empty() || left.len() == rest.len() {
            return Ok(out);
        }
        rest = left;
    }
}

/// All frames in one go: the decoder writes to memory of the most that can come out, and needs no window.
fn decode_zstd(encoded: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut out = room(most)?;
    let mut decoder = zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?;
    decoder.decompress_to_buffer(encoded, &mut out).map_err(|e| match e.to_string() {
        small if small.contains("Destination buffer is too small") => too_much(most),
        other => other,
    })?;
    Ok(out)
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
        self.inner.encode(decoded, options)
    }

    fn decode<'a>(
        &self,
        encoded: ArrayBytesRaw<'a>,
        size: &BytesRepresentation,
        options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        let most = size.size().unwrap_or(u64::MAX).min(self.most);
        let most =
            usize::try_from(most).map_err(|_| CodecError::from("how much can come out is not known"))?;
        match self.decoder {
            Decoder::Ours(decode) => Ok(decode(&encoded, most).map_err(CodecError::from)?.into()),
            Decoder::OfClaim => match blosc_claim(&encoded) {
                Some(claim) if claim > most as u64 => Err(CodecError::from(too_much(most))),
                _ => {
                    // The same memory, asked for where it may fail.
                    room(blosc_claim(&encoded).unwrap_or(0) as usize).map_err(CodecError::from)?;
                    self.inner.decode(encoded, size, options)
                }
            },
        }
    }
}
