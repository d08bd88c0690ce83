//! What a file holds besides its elements, by format.

use super::{LinearArray, open};
use crate::dtype::{ByteOrder, DType};
use crate::error::{Error, Result};
use crate::format::raw::Description;
use crate::format::{npy, pnm};
use crate::io::Disk;
use crate::store::transfer::seams::BLOCK;
use std::path::Path;
use std::sync::Arc;

/// Bytes within which nearly every PNM header ends.
const USUAL_HEADER: usize = 512;

/// An array in a file, as the file's metadata describes it.
#[derive(Clone, Debug)]
pub struct Described {
    /// Where the elements are, and what.
    pub description: Description,
    /// For [`Info`](crate::store::Info), as are the attributes.
    pub format: &'static str,
    /// A JSON object.
    pub attributes: String,
}

impl Described {
    /// Elements that nothing else is known about.
    pub fn raw(description: Description) -> Described {
        Described { description, format: "raw", attributes: "{}".into() }
    }

    /// Offset of the end of the last element, in a file that begins with so many other bytes.
    pub(super) fn end_behind(&self, preamble: u64) -> Result<u64> {
        let Description { offset, .. } = self.description;
        if offset < preamble {
            return Err(Error::invalid(format!(
                "a preamble of {preamble} bytes ends behind offset {offset}"
            )));
        }
        let nbytes = self.description.nbytes().map_err(|e| Error::invalid(e.to_string()))?;
        let end = offset.checked_add(nbytes).filter(|&end| end <= i64::MAX as u64);
        end.ok_or_else(|| {
            Error::invalid(format!("{nbytes} bytes at offset {offset} are too many to address"))
        })
    }
}

/// A file that is to be made.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// The array.
    pub what: Described,
    /// What the file begins with. From its end to the first element the file holds zeros.
    pub preamble: Vec<u8>,
    /// What follows the last element.
    pub trailer: Vec<u8>,
}

impl NewFile {
    /// A `.npy` file. Elements start at a block's edge, so that as many requests as possible are aligned.
    pub fn npy(shape: &[u64], dtype: DType, column_major: bool) -> NewFile {
        let preamble = npy::encode(dtype, column_major, shape, BLOCK);
        let mut new = NewFile::raw(shape, dtype, column_major);
        new.what.format = "npy";
        new.what.description.offset = preamble.len() as u64;
        NewFile { preamble, ..new }
    }

    /// A file of nothing but elements.
    pub fn raw(shape: &[u64], dtype: DType, column_major: bool) -> NewFile {
        let description = Description {
            shape: shape.into(),
            dtype,
            byte_order: ByteOrder::Little,
            offset: 0,
            column_major,
        };
        NewFile { what: Described::raw(description), preamble: Vec::new(), trailer: Vec::new() }
    }

    /// A PGM, PPM or PAM file.
    pub fn pnm(header: &pnm::Header) -> NewFile {
        NewFile { what: described(header), preamble: header.encode(), trailer: Vec::new() }
    }
}

fn described(header: &pnm::Header) -> Described {
    let dtype = header.dtype();
    Described {
        description: Description {
            shape: header.shape.clone(),
            dtype,
            byte_order: if dtype.word_size() > 1 { ByteOrder::Big } else { ByteOrder::Little },
            offset: header.data_offset,
            column_major: false,
        },
        format: header.kind.name(),
        attributes: header.attributes().to_string(),
    }
}

impl LinearArray {
    /// Opens a `.npy` file.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Unsupported`], [`Error::Busy`], the operating system's.
    pub fn open_npy(disk: &Arc<Disk>, path: &Path, writable: bool) -> Result<LinearArray> {
        let file = open(disk, path, writable)?;
        let start = disk.read_prefix(path, npy::PREFIX_LEN)?;
        let preamble_len = npy::header_len(&start).map_err(|e| e.at(path))?;
        let preamble = disk.read_prefix(path, preamble_len)?;
        let header = npy::parse(&preamble).map_err(|e| e.at(path))?;
        let description = Description {
            shape: header.shape,
            dtype: header.dtype,
            byte_order: header.byte_order,
            offset: header.data_offset,
            column_major: header.column_major,
        };
        let what = Described { format: "npy", ..Described::raw(description) };
        Self::in_file(disk, path, file, what, writable)
    }

    /// Opens a PGM, PPM or PAM file: its first image.
    ///
    /// # Errors
    /// As for [`open_npy`](Self::open_npy).
    pub fn open_pnm(disk: &Arc<Disk>, path: &Path, writable: bool) -> Result<LinearArray> {
        let file = open(disk, path, writable)?;
        let parse = |len| {
            let start = disk.read_prefix(path, len)?;
            let header = pnm::parse(&start).map_err(|e| e.at(path))?;
            Ok::<_, Error>((header, start.len()))
        };
        let header = match parse(USUAL_HEADER)? {
            (None, USUAL_HEADER) => parse(pnm::MAX_HEADER)?,
            found => found,
        };
        let header = match header {
            (Some(header), _) => header,
            (None, len) => {
                return Err(Error::corrupt(path, format!("the header is cut off after {len} bytes")));
            }
        };
        let array = Self::in_file(disk, path, file, described(&header), writable)?;
        let rest = disk.read_piece(path, array.layout.end(), pnm::REST_BYTES)?;
        pnm::check_rest(&rest).map_err(|e| e.at(path))?;
        Ok(array)
    }

    /// Opens a file as it is described.
    ///
    /// # Errors
    /// As for [`open_npy`](Self::open_npy).
    pub fn open_described(
        disk: &Arc<Disk>,
        path: &Path,
        what: Described,
        writable: bool,
    ) -> Result<LinearArray> {
        let file = open(disk, path, writable)?;
        Self::in_file(disk, path, file, what, writable)
    }
}
