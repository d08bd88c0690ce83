//! Headers of the Netpbm formats with whole bytes to a sample: PGM (`P5`), PPM (`P6`) and PAM (`P7`).
//!
//! ```text
//! P5 WIDTH HEIGHT MAXVAL<one whitespace>         grey: shape (height, width)
//! P6 WIDTH HEIGHT MAXVAL<one whitespace>         red, green, blue: shape (height, width, 3)
//! P7\n WIDTH w\n HEIGHT h\n DEPTH d\n MAXVAL m\n [TUPLTYPE t\n] ENDHDR\n
//!                                                shape (height, width), or (height, width, d)
//! ```
//!
//! The raster follows: rows from the top, the samples of a pixel one after the other, each of one
//! byte where the maxval is below 256, else of two, the most significant first. In `P5` and `P6`, what
//! stands between `#` and the end of its line is a comment, wherever whitespace may stand. A file may
//! hold further images behind the first; as in Netpbm's own programs, the first is the image.
//!
//! Specification: <https://netpbm.sourceforge.net/doc/>.

use super::{FormatError, malformed, nbytes, quoted, unsupported};
use crate::dtype::DType;
use crate::shape::{Dims, Tuple};
use serde_json::{Map, Value, json};

#[cfg(test)]
mod tests;

/// The longest header that is read; only comments can make one so long.
pub const MAX_HEADER: usize = 1 << 20;

/// How much of what follows the raster [`check_rest`] wants to see.
pub const REST_BYTES: usize = 64;

/// The longest tuple type, in bytes.
const MAX_TUPLTYPE: usize = 1 << 10;

/// Which of the formats a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `P5`: one sample per pixel.
    Pgm,
    /// `P6`: three samples per pixel.
    Ppm,
    /// `P7`: any number of samples per pixel.
    Pam,
}

impl Kind {
    /// Every format.
    pub const ALL: [Kind; 3] = [Kind::Pgm, Kind::Ppm, Kind::Pam];

    /// The name users see.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Pgm => "pgm",
            Kind::Ppm => "ppm",
            Kind::Pam => "pam",
        }
    }

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What the header of an image says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format.
    pub kind: Kind,
    /// Extents in samples; see the module's documentation.
    pub shape: Dims,
    /// The value of a fully lit sample, 1 to 65535.
    pub maxval: u16,
    /// What the samples of a pixel mean; PAM only.
    pub tupltype: Option<String>,
    /// Bytes of the file before the raster.
    pub data_offset: u64,
}

/// Whether a file that begins with these bytes is one of the Netpbm formats, also one that is not read.
pub fn is_pnm(start: &[u8]) -> bool {
    matches!(start, [b'P', b'1'..=b'7', end, ..] if end.is_ascii_whitespace() || *end == b'#')
}

/// Parses a header; bytes after it are not looked at. `None` where it goes on behind these bytes.
///
/// # Errors
/// `Unsupported` for `P1` to `P4`; `Malformed` for other files, for headers that are not as specified
/// or longer than [`MAX_HEADER`], and for shapes that cannot be addressed.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, FormatError> {
    let mut input = Input { bytes, at: 2 };
    let parsed = match bytes {
        [b'P', digit @ b'1'..=b'7', end, ..] if end.is_ascii_whitespace() || *end == b'#' => match digit {
            b'5' => input.plain(Kind::Pgm),
            b'6' => input.plain(Kind::Ppm),
            b'7' => input.pam(),
            b'4' => {
                return unsupported(
                    "is a PBM file (P4), which packs eight pixels into a byte; pamdepth 255 or pbmtopgm 1 1 \
                     makes a PGM file of it",
                );
            }
            _ => {
                return unsupported(format!(
                    "is a Netpbm file in decimal digits (P{}); pamtopnm makes one in bytes of it",
                    char::from(*digit)
                ));
            }
        },
        _ => {
            let head = &bytes[..bytes.len().min(3)];
            return malformed(format!("not a PGM, PPM or PAM file: it begins with the bytes {head:02x?}"));
        }
    };
    match parsed {
        Ok(header) => {
            nbytes(&header.shape, header.dtype())?;
            Ok(Some(header))
        }
        Err(Stop::CutOff) if bytes.len() < MAX_HEADER => Ok(None),
        Err(Stop::CutOff) => malformed(format!("the header takes more than {MAX_HEADER} bytes")),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Checks what follows the raster, of which `rest` is all, or the first [`REST_BYTES`] bytes: nothing, or
/// further images. A little whitespace before either is ignored.
///
/// # Errors
/// `Malformed` for anything else: the header then does not describe the file.
pub fn check_rest(rest: &[u8]) -> Result<(), FormatError> {
    let found = rest.trim_ascii_start();
    if is_pnm(found) || found.is_empty() && rest.len() < REST_BYTES {
        return Ok(());
    }
    let found = if found.is_empty() { rest } else { found };
    malformed(format!(
        "behind the raster stand the bytes {:02x?}, which begin no further image",
        &found[..found.len().min(3)]
    ))
}

/// Why parsing stopped early.
enum Stop {
    CutOff,
    Failed(FormatError),
}

impl From<FormatError> for Stop {
    fn from(error: FormatError) -> Stop {
        Stop::Failed(error)
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn next(&mut self) -> Result<u8, Stop> {
        let byte = *self.bytes.get(self.at).ok_or(Stop::CutOff)?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte, where a comment counts as the end of its line.
    fn next_outside_comments(&mut self) -> Result<u8, Stop> {
        let mut byte = self.next()?;
        if byte == b'#' {
            while byte != b'\n' && byte != b'\r' {
                byte = self.next()?;
            }
        }
        Ok(byte)
    }

    /// A number, whitespace before it, and the one whitespace behind it.
    fn number(&mut self, what: &str) -> Result<u64, Stop> {
        let mut byte = self.next_outside_comments()?;
        while byte.is_ascii_whitespace() {
            byte = self.next_outside_comments()?;
        }
        let mut text = String::new();
        while byte.is_ascii_digit() && text.len() < 20 {
            text.push(char::from(byte));
            byte = self.next_outside_comments()?;
        }
        match text.parse() {
            Ok(number) if byte.is_ascii_whitespace() => Ok(number),
            _ => {
                text.push(char::from(byte));
                Ok(malformed(format!("the header's {what} is not a number: {}", quoted(&text)))?)
            }
        }
    }

    /// The rest of a header of `P5` or `P6`.
    fn plain(&mut self, kind: Kind) -> Result<Header, Stop> {
        let width = extent(self.number("width")?, "width")?;
        let height = extent(self.number("height")?, "height")?;
        let maxval = maxval_of(self.number("maxval")?)?;
        let shape = match kind {
            Kind::Ppm => Dims::from_slice(&[height, width, 3]),
            _ => Dims::from_slice(&[height, width]),
        };
        Ok(Header { kind, shape, maxval, tupltype: None, data_offset: self.at as u64 })
    }

    fn line(&mut self) -> Result<&str, Stop> {
        let from = self.at;
        while self.next()? != b'\n' {}
        let line = &self.bytes[from..self.at - 1];
        match std::str::from_utf8(line) {
            Ok(line) => Ok(line.trim()),
            Err(_) => Ok(malformed("a line of the header is not text")?),
        }
    }

    /// The rest of a header of `P7`: lines of a word and its value.
    fn pam(&mut self) -> Result<Header, Stop> {
        let (mut width, mut height, mut depth, mut maxval) = (None, None, None, None);
        let mut tupltype: Option<String> = None;
        loop {
            let line = self.line()?;
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, value) = line.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line, ""));
            let value = value.trim();
            let number = |what: &str| match value.parse::<u64>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => malformed(format!("the header's {what} is not a number: {}", quoted(value))),
            };
            match word {
                "ENDHDR" => break,
                "WIDTH" => width = number(word)?,
                "HEIGHT" => height = number(word)?,
                "DEPTH" => depth = number(word)?,
                "MAXVAL" => maxval = number(word)?,
                "TUPLTYPE" => {
                    // Further lines go on with the first.
                    let mut text = tupltype.take().map_or(String::new(), |t| t + " ");
                    text.push_str(value);
                    if text.len() > MAX_TUPLTYPE {
                        malformed(format!("TUPLTYPE takes more than {MAX_TUPLTYPE} bytes"))?;
                    }
                    tupltype = Some(text);
                }
                _ => malformed(format!("the header has the unknown line {}", quoted(line)))?,
            }
        }
        let given = |value: Option<u64>, what: &str| match value {
            Some(value) => Ok(value),
            None => malformed(format!("the header has no {what}")),
        };
        let width = extent(given(width, "WIDTH")?, "WIDTH")?;
        let height = extent(given(height, "HEIGHT")?, "HEIGHT")?;
        let depth = extent(given(depth, "DEPTH")?, "DEPTH")?;
        let maxval = maxval_of(given(maxval, "MAXVAL")?)?;
        let tupltype = tupltype.map(|text| text.trim().to_string());
        let mut shape = Dims::from_slice(&[height, width]);
        if depth > 1 {
            shape.push(depth);
        }
        Ok(Header { kind: Kind::Pam, shape, maxval, tupltype, data_offset: self.at as u64 })
    }
}

fn extent(value: u64, what: &str) -> Result<u64, FormatError> {
    if value == 0 { malformed(format!("the header's {what} is 0")) } else { Ok(value) }
}

fn maxval_of(value: u64) -> Result<u16, FormatError> {
    match u16::try_from(value) {
        Ok(value) if value > 0 => Ok(value),
        _ => malformed(format!("the header's maxval is {value}, and not one of 1 to 65535")),
    }
}

impl Header {
    /// The header of a new image. Of the attributes, `maxval` and, in PAM, `tupltype` count; the default
    /// is the dtype's largest value, and what is usual for so many samples per pixel.
    ///
    /// # Errors
    /// `Unsupported` for a shape or dtype that the format cannot hold, an attribute that it does not know,
    /// or a value that does not go with the rest.
    pub fn new(
        kind: Kind,
        shape: &[u64],
        dtype: DType,
        attributes: &Map<String, Value>,
    ) -> Result<Header, FormatError> {
        let name = kind.name().to_ascii_uppercase();
        let (least, most) = match dtype {
            DType::U8 => (1, 255),
            DType::U16 => (256, 65535),
            _ => {
                return unsupported(format!("{name} holds samples of uint8 or uint16, and not of {dtype}"));
            }
        };
        let (fits, wanted) = match (kind, shape) {
            (Kind::Pgm, shape) => (shape.len() == 2, "(height, width)"),
            (Kind::Ppm, shape) => (matches!(shape, [_, _, 3]), "(height, width, 3)"),
            (Kind::Pam, [_, _, depth]) => (*depth > 1, "(height, width, 2 or more)"),
            (Kind::Pam, shape) => (shape.len() == 2, "(height, width) or (height, width, samples)"),
        };
        if !fits || shape.contains(&0) {
            let shape = Tuple(shape);
            let empty = if fits { ", with no extent of 0" } else { "" };
            return unsupported(format!(
                "{name} holds arrays of shape {wanted}{empty}; this one has {shape}"
            ));
        }
        let mut header = Header { kind, shape: shape.into(), maxval: most, tupltype: None, data_offset: 0 };
        if kind == Kind::Pam {
            let usual = match shape.get(2) {
                None => Some("GRAYSCALE"),
                Some(2) => Some("GRAYSCALE_ALPHA"),
                Some(3) => Some("RGB"),
                Some(4) => Some("RGB_ALPHA"),
                Some(_) => None,
            };
            header.tupltype = usual.map(String::from);
        }
        for (key, value) in attributes {
            match (key.as_str(), value) {
                ("maxval", value) => match value.as_u64() {
                    Some(maxval) if (least..=u64::from(most)).contains(&maxval) => {
                        header.maxval = maxval as u16;
                    }
                    _ => {
                        return unsupported(format!(
                            "maxval of samples of {dtype} is {least} to {most}, and not {value}"
                        ));
                    }
                },
                ("tupltype", Value::String(text)) if kind == Kind::Pam => {
                    let printable = text.chars().all(|c| !c.is_control());
                    if !printable || text.trim() != text || text.is_empty() || text.len() > MAX_TUPLTYPE {
                        return unsupported(format!("tupltype {} is not a line of text", quoted(text)));
                    }
                    header.tupltype = Some(text.clone());
                }
                _ => {
                    return unsupported(format!("{name} has no attribute {} of {value}", quoted(key)));
                }
            }
        }
        header.data_offset = header.encode().len() as u64;
        Ok(header)
    }

    /// Type of the samples.
    pub fn dtype(&self) -> DType {
        if self.maxval < 256 { DType::U8 } else { DType::U16 }
    }

    /// `maxval` and, in PAM, `tupltype`.
    pub fn attributes(&self) -> Value {
        match &self.tupltype {
            Some(tupltype) => json!({ "maxval": self.maxval, "tupltype": tupltype }),
            None => json!({ "maxval": self.maxval }),
        }
    }

    /// The bytes of the header. It has no comments, which some programs do not expect, and so is not
    /// padded to a block's edge.
    pub fn encode(&self) -> Vec<u8> {
        let (height, width, maxval) = (self.shape[0], self.shape[1], self.maxval);
        let text = match self.kind {
            Kind::Pgm => format!("P5\n{width} {height}\n{maxval}\n"),
            Kind::Ppm => format!("P6\n{width} {height}\n{maxval}\n"),
            Kind::Pam => {
                let depth = self.shape.get(2).unwrap_or(&1);
                let tupltype = self.tupltype.as_ref().map_or(String::new(), |t| format!("TUPLTYPE {t}\n"));
                format!(
                    "P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {depth}\nMAXVAL {maxval}\n{tupltype}ENDHDR\n"
                )
            }
        };
        text.into_bytes()
    }
}
