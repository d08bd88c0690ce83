//! Raw files: elements and nothing else, described by the user.

use super::{FormatError, malformed, nbytes, parse_typestr, quoted};
use crate::dtype::{ByteOrder, DType};
use crate::error::{Error, Result};
use crate::shape::{Dims, MAX_NDIM, Tuple};
use std::fmt;
use std::str::FromStr;

/// Where the elements of an array lie in a raw file, and what they are.
///
/// As text, for the command line, it is a list of `key=value` separated by commas:
///
/// | key | value | default |
/// |---|---|---|
/// | `shape` | extents with `x` between them, such as `1000x2000`; `()` for a 0-d array | |
/// | `dtype` | a NumPy type string or name, such as `f8`, `>f4` or `float64` | |
/// | `offset` | bytes before the first element | 0 |
/// | `order` | `C` (row-major) or `F` (column-major) | `C` |
///
/// ```
/// use outcrop_store::format::raw::Description;
/// let page: Description = "shape=1000x2000,dtype=>f4,offset=128".parse()?;
/// assert_eq!(page.nbytes(), Ok(8_000_000));
/// assert!(page.check(8_000_127).is_err());
/// # Ok::<(), outcrop_store::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Extents in elements; empty for a 0-d array.
    pub shape: Dims,
    /// Type of the elements.
    pub dtype: DType,
    /// Byte order of the numbers.
    pub byte_order: ByteOrder,
    /// Bytes of the file before the first element.
    pub offset: u64,
    /// Whether the elements lie in column-major (Fortran) order.
    pub column_major: bool,
}

impl Description {
    /// Bytes of the elements.
    ///
    /// # Errors
    /// `Malformed` for a shape that cannot be addressed.
    pub fn nbytes(&self) -> Result<u64, FormatError> {
        nbytes(&self.shape, self.dtype)
    }

    /// Checks that a file of `file_len` bytes holds the array. Bytes after it are allowed.
    ///
    /// # Errors
    /// `Malformed` for a shape or offset that cannot be addressed, an offset past the end of the file, or
    /// a file that is too short.
    pub fn check(&self, file_len: u64) -> Result<(), FormatError> {
        let bytes = self.nbytes()?;
        let Self { offset, dtype, .. } = self;
        let needed = offset.checked_add(bytes).filter(|&end| end <= i64::MAX as u64);
        let Some(needed) = needed else {
            return malformed(format!(
                "offset {offset} and {bytes} bytes of elements are too large to address"
            ));
        };
        if *offset > file_len {
            return malformed(format!(
                "offset {offset} lies past the end of the file, which has {file_len} bytes"
            ));
        }
        if needed > file_len {
            return malformed(format!(
                "shape {} of {dtype} at offset {offset} takes {needed} bytes, the file has only {file_len} \
                 ({} missing)",
                Tuple(&self.shape),
                needed - file_len
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let shape = if extents.is_empty() { "()".into() } else { extents.join("x") };
        let order = if self.byte_order == ByteOrder::Big { ">" } else { "" };
        write!(f, "shape={shape},dtype={order}{}", self.dtype.typestr())?;
        write!(f, ",offset={},order={}", self.offset, if self.column_major { "F" } else { "C" })
    }
}

impl FromStr for Description {
    type Err = Error;

    /// Parses the text form.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the key and its value.
    fn from_str(text: &str) -> Result<Description> {
        let (mut shape, mut dtype, mut offset, mut order) = (None, None, None, None);
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let Some((key, value)) = item.split_once('=') else {
                return invalid(format!("{} is not of the form key=value", quoted(item)));
            };
            let (key, value) = (key.trim(), value.trim());
            let repeated = match key {
                "shape" => shape.replace(parse_shape(value)?).is_some(),
                "dtype" => dtype.replace(parse_dtype(value)?).is_some(),
                "offset" => offset.replace(parse_offset(value)?).is_some(),
                "order" => order.replace(parse_order(value)?).is_some(),
                _ => {
                    return invalid(format!("{} is not one of shape, dtype, offset and order", quoted(key)));
                }
            };
            if repeated {
                return invalid(format!("{key} is given twice"));
            }
        }
        let Some(shape) = shape else {
            return invalid("shape is missing; for example shape=1000x2000");
        };
        let Some((dtype, byte_order)) = dtype else {
            return invalid("dtype is missing; for example dtype=f8");
        };
        let described = Description {
            shape,
            dtype,
            byte_order,
            offset: offset.unwrap_or(0),
            column_major: order.unwrap_or(false),
        };
        match described.nbytes() {
            Ok(_) => Ok(described),
            Err(error) => invalid(error.to_string()),
        }
    }
}

fn invalid<T>(what: impl fmt::Display) -> Result<T> {
    Err(Error::invalid(format!("description of a raw file: {what}")))
}

fn parse_shape(value: &str) -> Result<Dims> {
    if value == "()" {
        return Ok(Dims::new());
    }
    let mut shape = Dims::new();
    for extent in value.split(['x', 'X']) {
        match extent.trim().parse() {
            _ if shape.len() == MAX_NDIM => {
                return invalid(format!("shape has more than {MAX_NDIM} extents"));
            }
            Ok(extent) => shape.push(extent),
            Err(_) => {
                return invalid(format!(
                    "shape={} is not a list of extents such as 1000x2000",
                    quoted(value)
                ));
            }
        }
    }
    Ok(shape)
}

fn parse_dtype(value: &str) -> Result<(DType, ByteOrder)> {
    parse_typestr(value).or_else(|error| invalid(format!("dtype: {error}")))
}

fn parse_offset(value: &str) -> Result<u64> {
    value.parse().or_else(|_| invalid(format!("offset={} is not a number of bytes", quoted(value))))
}

fn parse_order(value: &str) -> Result<bool> {
    match value {
        "C" | "c" => Ok(false),
        "F" | "f" => Ok(true),
        _ => invalid(format!("order={} is neither C (row-major) nor F (column-major)", quoted(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_the_text_form() {
        let d: Description = "shape=1000x2000,dtype=f8,offset=128,order=F".parse().unwrap();
        assert_eq!((d.shape.as_slice(), d.dtype, d.offset), (&[1000, 2000][..], DType::F64, 128));
        assert_eq!((d.byte_order, d.column_major), (ByteOrder::Little, true));
        let d: Description =
            " dtype = >complex64 , shape = 3 X 4 X 5 ".replace("complex64", "c8").parse().unwrap();
        assert_eq!((d.shape.as_slice(), d.dtype, d.byte_order), (&[3, 4, 5][..], DType::C64, ByteOrder::Big));
        assert!("shape=(),dtype=bool".parse::<Description>().unwrap().shape.is_empty());
    }

    #[test]
    fn says_what_is_wrong_with_a_text() {
        for (text, part) in [
            ("dtype=f8", "shape is missing"),
            ("shape=3", "dtype is missing"),
            ("shape=3,dtype=f2", "\"f2\" (numbers of another size) are not supported"),
            ("shape=3,dtype=real", "\"real\" is not an element type"),
            ("shape=3x,dtype=f8", "shape=\"3x\""),
            ("shape=-3,dtype=f8", "shape=\"-3\""),
            ("shape=,dtype=f8", "shape=\"\""),
            ("shape=3,dtype=f8,offset=x", "offset=\"x\""),
            ("shape=3,dtype=f8,order=R", "order=\"R\""),
            ("shape=3,shape=4,dtype=f8", "shape is given twice"),
            ("shape=3,dtype=f8,skip=4", "\"skip\" is not one of"),
            ("shape=3,4,dtype=f8", "\"4\" is not of the form"),
            ("shape=4294967296x4294967296,dtype=f8", "too large"),
        ] {
            let message = text.parse::<Description>().unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn checks_the_length_of_the_file() {
        let d: Description = "shape=10x20,dtype=f8,offset=16".parse().unwrap();
        assert_eq!(d.check(1616), Ok(()));
        assert_eq!(d.check(5000), Ok(()));
        assert!(
            d.check(1615)
                .unwrap_err()
                .to_string()
                .contains("takes 1616 bytes, the file has only 1615 (1 missing)")
        );
        assert!(d.check(15).unwrap_err().to_string().contains("past the end"));
        let far = Description { offset: u64::MAX - 3, ..d.clone() };
        assert!(far.check(u64::MAX).unwrap_err().to_string().contains("too large to address"));
        let wide = Description { shape: Dims::from_slice(&[1 << 40, 1 << 40]), ..d.clone() };
        assert!(wide.check(u64::MAX).is_err());
        let empty = Description { shape: Dims::from_slice(&[0, 7]), ..d };
        assert_eq!((empty.check(16), empty.check(15).is_err()), (Ok(()), true));
    }

    proptest! {
        #[test]
        fn the_text_form_reads_back(
            d in 0usize..13, big: bool, column_major: bool, offset: u64, shape in prop::collection::vec(0u64..5000, 0..5)
        ) {
            let dtype = DType::ALL[d];
            let big = big && dtype.word_size() > 1;
            let byte_order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let description = Description { shape: shape.into(), dtype, byte_order, offset, column_major };
            prop_assume!(description.nbytes().is_ok());
            prop_assert_eq!(description.to_string().parse::<Description>().unwrap(), description);
        }

        #[test]
        fn any_text_never_panics(text in r#"(shape|dtype|offset|order|[=,x()0-9a-zA-Z<>é \\-]|=|,){0,40}"#, len: u64) {
            if let Ok(description) = text.parse::<Description>() {
                let _ = description.check(len);
            }
        }
    }
}
