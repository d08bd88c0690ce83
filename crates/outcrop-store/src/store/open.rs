//! Finding out what stands at a path, and making something new there.

use super::Store;
use super::chunked::{ChunkedArray, Chunks};
use super::foreign::ForeignArray;
use super::linear::{Described, LinearArray, NewFile};
use super::tiled::{METADATA_FILE, TiledArray};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::format::zarr::{self, ArrayMeta, Labels, Parsed};
use crate::format::{MAX_METADATA_BYTES, npy, pnm};
use crate::io::disk::Disk;
use crate::shape::{Dims, default_tile};
use std::io;
use std::path::Path;
use std::sync::Arc;

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
            return Err(Error::NotFound { path: given.into(), hint: unfinished(path) });
        }
        Err(e) => return Err(Error::io(path, "open", e)),
    };
    match what {
        As::Found | As::Zarr if found.is_dir() => open_zarr(disk, path, writable, false),
        As::Accepted if found.is_dir() => open_zarr(disk, path, writable, true),
        As::Zarr => Err(Error::unsupported(path, "is a file; a Zarr array is a directory")),
        _ if found.is_dir() => Err(Error::unsupported(path, "is a directory, not a file")),
        As::Npy => Ok(Arc::new(LinearArray::open_npy(disk, path, writable)?)),
        As::Pnm => Ok(Arc::new(LinearArray::open_pnm(disk, path, writable)?)),
        As::Described(what) => Ok(Arc::new(LinearArray::open_described(disk, path, what.clone(), writable)?)),
        As::Chunked(_) if writable => Err(Error::unsupported(
            path,
            "its elements lie in many blocks, and are only read; saving them makes a new array",
        )),
        As::Chunked(chunks) => Ok(Arc::new(ChunkedArray::open(disk, path, chunks.clone())?)),
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

fn open_zarr(disk: &Arc<Disk>, path: &Path, writable: bool, accept: bool) -> Result<Arc<dyn Store>> {
    if path.join(METADATA_FILE).exists() {
        let json = disk.read_small(&path.join(METADATA_FILE), MAX_METADATA_BYTES as u64)?;
        return match zarr::parse(&json).map_err(|e| e.at(path))? {
            Parsed::Native(_) => Ok(Arc::new(TiledArray::open(disk, path, writable, accept)?)),
            Parsed::Foreign { .. } => Ok(Arc::new(ForeignArray::open(disk, path, writable)?)),
        };
    }
    if path.join(".zarray").exists() {
        return Ok(Arc::new(ForeignArray::open(disk, path, writable)?));
    }
    if path.join(".zgroup").exists() {
        return Err(Error::unsupported(path, "is a Zarr group; name an array in it"));
    }
    let hint = format!(" (the directory has neither {METADATA_FILE} nor .zarray){}", unfinished(path));
    Err(Error::NotFound { path: path.into(), hint })
}

/// A remark where a writer is at work on a path, or has died there.
fn unfinished(path: &Path) -> String {
    let name = super::claim::staging_name(path.file_name().unwrap_or_default());
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
        NewFormat::Zarr { tile, labels } => {
            let meta = ArrayMeta::of(shape, dtype, &tile_or_default(tile), &labels)
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
