//! The preamble of `.npy` files, versions 1.0, 2.0 and 3.0.
//!
//! ```text
//! offset  bytes  content
//! 0       6      magic: 93 4E 55 4D 50 59 ("\x93NUMPY")
//! 6       1      major version: 1, 2 or 3
//! 7       1      minor version: 0
//! 8       2 / 4  length of the header, little-endian (2 bytes in version 1, 4 in later ones)
//! 10 / 12 ...    header: a Python dict literal with the keys descr, fortran_order and shape,
//!                padded with spaces, ended by a newline; Latin-1, in version 3 UTF-8
//! ...            the elements
//! ```

use super::{FormatError, malformed, nbytes, parse_typestr, quoted, unsupported};
use crate::dtype::{ByteOrder, DType};
use crate::shape::{Dims, Tuple};

#[cfg(test)]
mod tests;

/// What every `.npy` file begins with.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The bytes of a file that [`header_len`] wants to see.
pub const PREFIX_LEN: usize = 12;

/// The longest preamble that is read. NumPy itself stops at 10000 bytes.
pub const MAX_PREAMBLE: usize = 1 << 20;

/// The largest alignment of [`encode`]. `numpy.load` refuses headers of more than 10000 bytes.
pub const MAX_ALIGNMENT: usize = 8192;

/// Lists and tuples may nest so deep in a header. NumPy's own never pass a few levels.
const MAX_DEPTH: usize = 32;

/// What the preamble of a `.npy` file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the elements.
    pub dtype: DType,
    /// Byte order of the numbers.
    pub byte_order: ByteOrder,
    /// Whether the elements lie in column-major (Fortran) order. Meaningless below two dimensions.
    pub column_major: bool,
    /// Extents in elements; empty for a 0-d array.
    pub shape: Dims,
    /// Bytes of the file before the first element.
    pub data_offset: u64,
}

/// How many bytes of the file the whole preamble takes, from the first [`PREFIX_LEN`] bytes of it (or
/// all, of a shorter file).
///
/// # Errors
/// `Malformed` for a file that is no `.npy` file, is cut off, or claims a preamble of more than
/// [`MAX_PREAMBLE`] bytes; `NewerVersion` for an unknown version.
pub fn header_len(prefix: &[u8]) -> Result<usize, FormatError> {
    if prefix.starts_with(b"PK\x03\x04") {
        return unsupported(
            "this is a zip archive, perhaps .npz, not an npy file; extract its members first",
        );
    }
    if !prefix.starts_with(MAGIC) {
        let head = &prefix[..prefix.len().min(6)];
        return malformed(format!("not an npy file: it begins with the bytes {head:02x?}"));
    }
    let (start, length) = match prefix[MAGIC.len()..] {
        [1, 0, a, b, ..] => (10, u16::from_le_bytes([a, b]) as usize),
        [2 | 3, 0, a, b, c, d, ..] => (12, u32::from_le_bytes([a, b, c, d]) as usize),
        [0, minor, ..] => return malformed(format!("npy version 0.{minor} does not exist")),
        [major @ 1..=3, 0, ..] => {
            return malformed(format!(
                "npy header of version {major}.0 is cut off after {} bytes",
                prefix.len()
            ));
        }
        [major, minor, ..] => {
            return Err(FormatError::NewerVersion(format!(
                "npy version {major}.{minor} is not known; 1.0, 2.0 and 3.0 are"
            )));
        }
        _ => return malformed(format!("npy header is cut off after {} bytes", prefix.len())),
    };
    match start + length {
        total if total <= MAX_PREAMBLE => Ok(total),
        total => malformed(format!("npy header claims {total} bytes, more than {MAX_PREAMBLE}")),
    }
}

/// Parses a preamble; bytes after it are not looked at.
///
/// # Errors
/// Those of [`header_len`]; `Malformed` for a header that is cut off, is not the dict that NumPy writes,
/// or has a shape that cannot be addressed; `Unsupported` for structured, object, string, date and
/// other types of elements that Outcrop has not.
pub fn parse(preamble: &[u8]) -> Result<Header, FormatError> {
    let total = header_len(preamble)?;
    let start = if preamble[6] == 1 { 10 } else { 12 };
    let Some(header) = preamble.get(start..total) else {
        return malformed(format!("npy header takes {total} bytes, the file has {}", preamble.len()));
    };
    let mut parser = Literal { bytes: header, at: 0 };
    let [descr, fortran_order, shape] = parser.header_dict()?;
    let (dtype, byte_order) = match descr {
        Value::Text(descr) => parse_typestr(&descr)?,
        Value::List | Value::Tuple(_) => {
            return unsupported(format!(
                "structured elements are not supported: {}",
                quoted(String::from_utf8_lossy(header).trim_ascii_end())
            ));
        }
        _ => return malformed("npy header: descr is not a type string"),
    };
    let Value::Bool(column_major) = fortran_order else {
        return malformed("npy header: fortran_order is neither True nor False");
    };
    let Value::Tuple(extents) = shape else {
        return malformed("npy header: shape is not a tuple");
    };
    let shape = extents
        .into_iter()
        .map(|extent| match extent {
            Value::Int(n) => Ok(n),
            _ => malformed("npy header: shape holds something other than non-negative integers"),
        })
        .collect::<Result<Dims, FormatError>>()?;
    nbytes(&shape, dtype)?;
    Ok(Header { dtype, byte_order, column_major, shape, data_offset: total as u64 })
}

/// The preamble of a little-endian `.npy` file, padded with spaces so that its length, and so the
/// offset of the first element, is a multiple of `alignment` bytes.
///
/// `alignment` is brought to a multiple of 64 between 64 and [`MAX_ALIGNMENT`]: beyond that NumPy would
/// refuse the file. `shape` must have passed [`checked_nbytes`](crate::shape::checked_nbytes). The
/// version is always 1.0, because the header of the longest possible shape fits it.
pub fn encode(dtype: DType, column_major: bool, shape: &[u64], alignment: usize) -> Vec<u8> {
    let alignment = alignment.clamp(64, MAX_ALIGNMENT).next_multiple_of(64);
    let order = if dtype.word_size() == 1 { '|' } else { '<' };
    let fortran_order = if column_major { "True" } else { "False" };
    let header = format!(
        "{{'descr': '{order}{}', 'fortran_order': {fortran_order}, 'shape': {}, }}",
        dtype.typestr(),
        Tuple(shape)
    );
    let total = (10 + header.len() + 1).next_multiple_of(alignment);
    let mut out = Vec::with_capacity(total);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    // At most 64 extents of 19 digits, padded by less than 8192 bytes: far below 65536.
    out.extend_from_slice(&((total - 10) as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.resize(total - 1, b' ');
    out.push(b'\n');
    out
}

/// A Python literal.
enum Value {
    Int(u64),
    Bool(bool),
    None,
    Text(String),
    List,
    Tuple(Vec<Value>),
}

/// A recursive-descent parser of the part of Python's literals that occurs in headers.
struct Literal<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Literal<'_> {
    /// The values of `descr`, `fortran_order` and `shape`; nothing but space may follow the dict.
    fn header_dict(&mut self) -> Result<[Value; 3], FormatError> {
        const KEYS: [&str; 3] = ["descr", "fortran_order", "shape"];
        let mut found: [Option<Value>; 3] = [None, None, None];
        self.expect(b'{')?;
        while self.peek() != Some(b'}') {
            let key = match self.value(0)? {
                Value::Text(key) => key,
                _ => return malformed("npy header: a key is not a string"),
            };
            self.expect(b':')?;
            let value = self.value(0)?;
            let Some(slot) = KEYS.iter().position(|&k| k == key) else {
                return malformed(format!("npy header has the unknown key {}", quoted(&key)));
            };
            if found[slot].replace(value).is_some() {
                return malformed(format!("npy header has the key {key:?} twice"));
            }
            if self.peek() != Some(b'}') {
                self.expect(b',')?;
            }
        }
        self.expect(b'}')?;
        if self.peek().is_some() {
            return self.wrong("the end");
        }
        match found {
            [Some(descr), Some(order), Some(shape)] => Ok([descr, order, shape]),
            _ => {
                let missing: Vec<&str> =
                    KEYS.into_iter().zip(&found).filter(|(_, v)| v.is_none()).map(|(k, _)| k).collect();
                malformed(format!("npy header lacks {}", missing.join(" and ")))
            }
        }
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0c) = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn wrong<T>(&self, wanted: &str) -> Result<T, FormatError> {
        match self.bytes.get(self.at) {
            Some(&b) => malformed(format!(
                "npy header: {wanted} expected at byte {}, found '{}'",
                self.at,
                std::ascii::escape_default(b)
            )),
            None => malformed(format!("npy header: {wanted} expected, but it ends after {} bytes", self.at)),
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), FormatError> {
        if self.peek() != Some(wanted) {
            return self.wrong(&format!("'{}'", wanted as char));
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, FormatError> {
        if depth > MAX_DEPTH {
            return malformed(format!("npy header: more than {MAX_DEPTH} levels of brackets"));
        }
        match self.peek() {
            Some(b'\'' | b'"') => self.text().map(Value::Text),
            Some(b'0'..=b'9') => self.int(),
            Some(b'[') => self.items(b']', depth).map(|_| Value::List),
            // Brackets around one value without a comma are no tuple.
            Some(b'(') => match self.items(b')', depth)? {
                (mut one, false) if one.len() == 1 => Ok(one.remove(0)),
                (items, _) => Ok(Value::Tuple(items)),
            },
            Some(b'A'..=b'Z' | b'a'..=b'z') => self.word(),
            _ => self.wrong("a value"),
        }
    }

    /// The values up to a closing bracket, and whether a comma was among them.
    fn items(&mut self, close: u8, depth: usize) -> Result<(Vec<Value>, bool), FormatError> {
        let (mut items, mut comma) = (Vec::new(), false);
        self.at += 1;
        while self.peek() != Some(close) {
            items.push(self.value(depth + 1)?);
            if self.peek() != Some(close) {
                self.expect(b',')?;
                comma = true;
            }
        }
        self.at += 1;
        Ok((items, comma))
    }

    /// `True`, `False`, `None`, or a string with Python 2's prefix `u`.
    fn word(&mut self) -> Result<Value, FormatError> {
        let rest = &self.bytes[self.at..];
        if let [b'u' | b'U', b'\'' | b'"', ..] = rest {
            self.at += 1;
            return self.text().map(Value::Text);
        }
        let length = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let value = match &rest[..length] {
            b"True" => Value::Bool(true),
            b"False" => Value::Bool(false),
            b"None" => Value::None,
            _ => return self.wrong("a value"),
        };
        self.at += length;
        Ok(value)
    }

    /// A decimal integer, with the suffix that Python 2 gave to long ones.
    fn int(&mut self) -> Result<Value, FormatError> {
        let rest = &self.bytes[self.at..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 1 && rest[0] == b'0' {
            return self.wrong("an integer without leading zeros");
        }
        let number = rest[..digits]
            .iter()
            .try_fold(0u64, |acc, &b| acc.checked_mul(10)?.checked_add(u64::from(b - b'0')));
        let Some(number) = number else {
            return malformed(format!("npy header: the integer at byte {} does not fit 64 bits", self.at));
        };
        self.at += digits;
        if let Some(b'L' | b'l') = self.bytes.get(self.at) {
            self.at += 1;
        }
        Ok(Value::Int(number))
    }

    /// A string. Every byte becomes one character: exact for Latin-1, and what is no ASCII occurs only
    /// in field names, which are not used.
    fn text(&mut self) -> Result<String, FormatError> {
        let quote = self.bytes[self.at];
        let mut text = String::new();
        let mut at = self.at + 1;
        loop {
            match self.bytes.get(at) {
                Some(&b) if b == quote => break,
                Some(b'\\') if at + 1 < self.bytes.len() => {
                    text.push('\\');
                    text.push(self.bytes[at + 1] as char);
                    at += 2;
                }
                Some(b'\n' | b'\\') | None => return self.wrong("a string that ends"),
                Some(&b) => {
                    text.push(b as char);
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        Ok(text)
    }
}
