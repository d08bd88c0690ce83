//! Finding out what stands at a path, and making something new there.

use super::chunked::{ChunkedArray, Chunks};
use super::commit::claim::{self, still_there};
use super::commit::update::is_missing;
use super::foreign::ForeignArray;
use super::foreign::encoded::{EncodedArray, EncodedChunks};
use super::linear::{Described, LinearArray, NewFile};
use super::sketch::Sketch;
use super::tiled::TiledArray;
use super::{Info, Store};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::format::zarr::{
    self, ArrayMeta, Encoding, Labels, METADATA_FILE, Parsed, V2_ATTRIBUTES_FILE, V2_METADATA_FILE,
};
use crate::format::{MAX_METADATA_BYTES, npy, pnm};
use crate::io::disk::{Disk, DiskDir};
use crate::layout::Layout;
use crate::shape::{Dims, default_tile};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long is waited for a writer that is about to finish a step, before looking again.
const WAIT: Duration = Duration::from_millis(20);

/// What to make of a path.
#[derive(Clone, Debug, Default)]
pub enum As {
    /// Look at it.
    #[default]
    Found,
    /// Look at it, and take its tiles for what they are now: an index that does not fit is forgotten.
    Accepted,
    /// A Zarr array.
    Zarr,
    /// A `.npy` file.
    Npy,
    /// A PGM, PPM or PAM file.
    Pnm,
    /// A file whose elements are one block, as whoever has read its metadata says. A raw file is one.
    Described(Described),
    /// A file whose elements are many blocks, likewise.
    Chunked(Chunks),
    /// A file whose elements are many encoded blocks, likewise.
    Encoded(EncodedChunks),
}

/// Opens an array.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Corrupt`], [`Error::Unsupported`], [`Error::Busy`], the operating
/// system's.
pub fn open(disk: &Arc<Disk>, path: &Path, what: &As, writable: bool) -> Result<Arc<dyn Store>> {
    disk.check_process()?;
    // Work on an array goes on after a change of directory.
    let given = path;
    let path = &std::path::absolute(path).map_err(|e| Error::io(path, "open", e))?;
    let found = match path.metadata() {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return open_aside(disk, path, what, writable)
                .unwrap_or_else(|| Err(Error::NotFound { path: given.into(), hint: unfinished(path) }));
        }
        Err(e) => return Err(Error::io(path, "open", e)),
    };
    match what {
        As::Found | As::Zarr | As::Accepted if found.is_dir() => {
            match open_zarr(disk, path, writable, matches!(what, As::Accepted)) {
                // Put aside since it was looked for.
                Err(error) if is_missing(&error) && !path.exists() => {
                    open_aside(disk, path, what, writable).unwrap_or(Err(error))
                }
                other => other,
            }
        }
        As::Zarr => Err(Error::unsupported(path, "is a file; a Zarr array is a directory")),
        _ if found.is_dir() => Err(Error::unsupported(path, "is a directory, not a file")),
        As::Npy => Ok(Arc::new(LinearArray::open_npy(disk, path, writable)?)),
        As::Pnm => Ok(Arc::new(LinearArray::open_pnm(disk, path, writable)?)),
        As::Described(what) => Ok(Arc::new(LinearArray::open_described(disk, path, what.clone(), writable)?)),
        As::Chunked(_) | As::Encoded(_) if writable => Err(Error::unsupported(
            path,
            "its elements lie in many blocks, and are only read; saving them makes a new array",
        )),
        As::Chunked(chunks) => Ok(Arc::new(ChunkedArray::open(disk, path, chunks.clone())?)),
        As::Encoded(chunks) => Ok(Arc::new(EncodedArray::open(disk, path, chunks.clone())?)),
        As::Found | As::Accepted => {
            let start = disk.read_prefix(path, npy::MAGIC.len())?;
            if path.extension().is_some_and(|e| e == "npy") || start == npy::MAGIC {
                return Ok(Arc::new(LinearArray::open_npy(disk, path, writable)?));
            }
            if pnm::is_pnm(&start) {
                return Ok(Arc::new(LinearArray::open_pnm(disk, path, writable)?));
            }
            let hint = "has no metadata that says what is in it; a raw file needs its shape and dtype \
                        (oc.open(path, shape=..., dtype=...), or PATH:shape=...,dtype=... on the command line)";
            Err(Error::unsupported(path, hint))
        }
    }
}

/// Opens a directory by its name. One that is replaced meanwhile is opened again.
fn open_zarr(disk: &Arc<Disk>, path: &Path, writable: bool, accept: bool) -> Result<Arc<dyn Store>> {
    for _ in 0..10 {
        let dir = disk.open_dir(path)?;
        let id = dir.as_fd().try_clone_to_owned().map_err(|e| Error::io(path, "open", e))?;
        match open_in(disk, path, dir, writable, accept) {
            Err(_) if !still_there(&id, path) => std::thread::sleep(WAIT),
            other => return other,
        }
    }
    open_in(disk, path, disk.open_dir(path)?, writable, accept)
}

fn open_in(
    disk: &Arc<Disk>,
    path: &Path,
    dir: DiskDir,
    writable: bool,
    accept: bool,
) -> Result<Arc<dyn Store>> {
    for name in [METADATA_FILE, V2_METADATA_FILE, V2_ATTRIBUTES_FILE] {
        let found = disk.look_beneath(&dir, name).ok().flatten();
        let bytes = found.map_or(0, |found| found.st_size);
        if bytes > MAX_METADATA_BYTES as i64 {
            // Sound, for all that is known.
            let most = MAX_METADATA_BYTES >> 20;
            let what = format!("{name} has {bytes} bytes, and no more than {most} MiB of metadata are read");
            return Err(Error::unsupported(path, what));
        }
    }
    match disk.read_small_beneath(&dir, METADATA_FILE, MAX_METADATA_BYTES as u64) {
        Ok(json) => {
            return match zarr::parse(&json).map_err(|e| e.at(path))? {
                Parsed::Native(_) => Ok(Arc::new(TiledArray::open(disk, path, dir, writable, accept)?)),
                Parsed::Foreign { .. } => Ok(Arc::new(ForeignArray::open(disk, path, dir, writable)?)),
            };
        }
        Err(error) if is_missing(&error) => {}
        Err(other) => return Err(other),
    }
    if disk.look_beneath(&dir, V2_METADATA_FILE)?.is_some() {
        return Ok(Arc::new(ForeignArray::open(disk, path, dir, writable)?));
    }
    if disk.look_beneath(&dir, ".zgroup")?.is_some() {
        return Err(Error::unsupported(path, "is a Zarr group; name an array in it"));
    }
    let hint = format!(" (the directory has neither {METADATA_FILE} nor .zarray){}", unfinished(path));
    Err(Error::NotFound { path: path.into(), hint })
}

/// Opens an array that is being replaced where names cannot be exchanged, at a moment when its name is
/// nobody's: a reader waits a little, and reads the old one where it was put aside if the writer takes
/// longer or has died; a writer puts it back first. `None` where there is no such array.
fn open_aside(disk: &Arc<Disk>, path: &Path, what: &As, writable: bool) -> Option<Result<Arc<dyn Store>>> {
    let aside = claim::put_aside(path)?;
    if writable {
        return match claim::put_back(disk, path) {
            Ok(()) => Some(open(disk, path, what, writable)),
            Err(error) => Some(Err(error)),
        };
    }
    for _ in 0..3 {
        std::thread::sleep(WAIT);
        if path.exists() {
            return Some(open(disk, path, what, writable));
        }
    }
    if aside.is_file() {
        let opened = open(disk, &aside, what, writable);
        // Replaced since it was looked for.
        return Some(if opened.is_err() && path.exists() {
            open(disk, path, what, writable)
        } else {
            opened
        });
    }
    let accept = matches!(what, As::Accepted);
    Some(disk.open_dir_itself(&aside).and_then(|dir| open_in(disk, path, dir, writable, accept)))
}

/// A remark where a writer is at work on a path, or has died there.
fn unfinished(path: &Path) -> String {
    let name = claim::staging_name(path.file_name().unwrap_or_default());
    if path.with_file_name(&name).exists() {
        " (it is being written, or its writing was cut short)".into()
    } else {
        String::new()
    }
}

/// What to make.
#[derive(Clone, Debug)]
pub enum NewFormat {
    /// A Zarr v3 array of our own.
    Zarr {
        /// The tile, or `None` for the default.
        tile: Option<Dims>,
        /// How the files of tiles are made.
        encoding: Encoding,
        /// What goes with the elements.
        labels: Labels,
    },
    /// A Zarr array with codecs of the user's choice.
    Foreign {
        /// 2 or 3.
        zarr_format: u8,
        /// A JSON list of Zarr v3 codecs (for format 2: `[]`, or one numcodecs compressor).
        codecs: String,
        /// The tile, or `None` for the default.
        tile: Option<Dims>,
        /// What goes with the elements.
        labels: Labels,
    },
    /// A `.npy` file.
    Npy {
        /// Whether the first index runs fastest.
        column_major: bool,
    },
    /// A file of elements.
    Raw {
        /// Whether the first index runs fastest.
        column_major: bool,
    },
    /// A PGM, PPM or PAM file.
    Pnm {
        /// Which of them.
        kind: pnm::Kind,
        /// A JSON object; see [`pnm::Header::new`].
        attributes: serde_json::Map<String, serde_json::Value>,
    },
}

impl NewFormat {
    /// A Zarr array with codecs of the user's choice, as in [`NewFormat::Foreign`]: one of our own where they are
    /// the one codec of tiles with frontiers.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::Invalid`] where that codec is not as it has to be.
    pub fn encoded(
        path: &Path,
        dtype: DType,
        zarr_format: u8,
        codecs: String,
        tile: Option<Dims>,
        labels: Labels,
    ) -> Result<NewFormat> {
        let found = match zarr_format {
            3 => Encoding::with_frontiers(&codecs, dtype).map_err(|e| super::tiled::unlabelled(path, e))?,
            _ => None,
        };
        Ok(match found {
            Some(encoding) => NewFormat::Zarr { tile, encoding, labels },
            None => NewFormat::Foreign { zarr_format, codecs, tile, labels },
        })
    }
}

/// A Zarr array with codecs of the user's choice that is not made: it tells what moving its tiles will take.
///
/// # Errors
/// As for [`create`].
pub fn sketch_encoded(
    disk: &Arc<Disk>,
    path: &Path,
    shape: &[u64],
    dtype: DType,
    format: NewFormat,
) -> Result<Arc<dyn Store>> {
    let tile_or_default = |tile: Option<Dims>| tile.unwrap_or_else(|| default_tile(shape, dtype.size()));
    Ok(match format {
        NewFormat::Zarr { tile, encoding, labels } => {
            let info = Info {
                path: path.into(),
                shape: shape.into(),
                dtype,
                tile: tile_or_default(tile),
                layout: Layout::Tiled,
                format: "zarr",
                codecs: encoding.describe(),
                attributes: "{}".into(),
                writable: false,
            };
            Arc::new(Sketch::tiled(info, encoding, &labels)?)
        }
        NewFormat::Foreign { zarr_format, codecs, tile, labels } => {
            let tile = tile_or_default(tile);
            Arc::new(ForeignArray::sketch(disk, path, shape, dtype, &tile, &codecs, zarr_format, &labels)?)
        }
        _ => return Err(Error::invalid("codecs are for Zarr arrays")),
    })
}

/// Makes an array, which appears at its first commit.
///
/// # Errors
/// [`Error::Exists`], [`Error::Busy`], [`Error::NoSpace`], [`Error::Invalid`], the operating system's.
pub fn create(
    disk: &Arc<Disk>,
    path: &Path,
    shape: &[u64],
    dtype: DType,
    format: NewFormat,
    overwrite: bool,
) -> Result<Arc<dyn Store>> {
    disk.check_process()?;
    let path = &std::path::absolute(path).map_err(|e| Error::io(path, "make an array", e))?;
    crate::shape::checked_nbytes(shape, dtype.size())?;
    let tile_or_default = |tile: Option<Dims>| tile.unwrap_or_else(|| default_tile(shape, dtype.size()));
    Ok(match format {
        NewFormat::Zarr { tile, encoding, labels } => {
            let meta = ArrayMeta::of(shape, dtype, &tile_or_default(tile), encoding, &labels)
                .map_err(|e| super::tiled::unlabelled(path, e))?;
            Arc::new(TiledArray::create(disk, path, meta, overwrite)?)
        }
        NewFormat::Foreign { zarr_format, codecs, tile, labels } => {
            let tile = tile_or_default(tile);
            Arc::new(ForeignArray::create(
                disk,
                path,
                shape,
                dtype,
                &tile,
                &codecs,
                zarr_format,
                &labels,
                overwrite,
            )?)
        }
        NewFormat::Npy { column_major } => {
            Arc::new(LinearArray::create(disk, path, NewFile::npy(shape, dtype, column_major), overwrite)?)
        }
        NewFormat::Raw { column_major } => {
            Arc::new(LinearArray::create(disk, path, NewFile::raw(shape, dtype, column_major), overwrite)?)
        }
        NewFormat::Pnm { kind, attributes } => {
            let header = pnm::Header::new(kind, shape, dtype, &attributes).map_err(|e| e.at(path))?;
            Arc::new(LinearArray::create(disk, path, NewFile::pnm(&header), overwrite)?)
        }
    })
}

/// Makes a file with metadata of the caller's, which appears at its first commit.
///
/// # Errors
/// As for [`create`].
pub fn create_file(disk: &Arc<Disk>, path: &Path, new: NewFile, overwrite: bool) -> Result<Arc<dyn Store>> {
    disk.check_process()?;
    let path = &std::path::absolute(path).map_err(|e| Error::io(path, "make an array", e))?;
    Ok(Arc::new(LinearArray::create(disk, path, new, overwrite)?))
}

/// Bytes of all files below a directory.
///
/// # Errors
/// The operating system's.
pub(super) fn directory_bytes(path: &Path) -> Result<u64> {
    let mut total = 0;
    let mut open = vec![path.to_path_buf()];
    while let Some(dir) = open.pop() {
        let listing = std::fs::read_dir(&dir).map_err(|e| Error::io(&dir, "list the directory", e))?;
        for entry in listing {
            let entry = entry.map_err(|e| Error::io(&dir, "list the directory", e))?;
            let meta = entry.metadata().map_err(|e| Error::io(&entry.path(), "inspect", e))?;
            if meta.is_dir() {
                open.push(entry.path());
            } else {
                total += meta.len();
            }
        }
    }
    Ok(total)
}
