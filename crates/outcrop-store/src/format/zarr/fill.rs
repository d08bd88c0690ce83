//! Fill values: one element, as JSON and as little-endian bytes.
//!
//! The only NaN that has a name is the one that is quiet, positive and has no payload. Every other is
//! written as the hexadecimal digits of its bits, so that no bit is lost.

use crate::dtype::DType;
use crate::format::{FormatError, malformed, quoted};
use serde_json::{Number, Value};
use smallvec::SmallVec;

const NAN_32: u32 = 0x7fc0_0000;
const NAN_64: u64 = 0x7ff8_0000_0000_0000;

/// The bytes of a fill value of an array of this type.
pub(crate) fn parse(value: &Value, dtype: DType) -> Result<SmallVec<[u8; 16]>, FormatError> {
    let mut out = SmallVec::new();
    let fits = match dtype {
        DType::Bool => value.as_bool().map(|b| out.push(u8::from(b))),
        DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::U16
        | DType::U32
        | DType::U64 => {
            integer(value)
                .filter(|n| integer_range(dtype).contains(n))
                // Two's complement: the low bytes of the wide number are the narrow number.
                .map(|n| out.extend_from_slice(&n.to_le_bytes()[..dtype.size()]))
        }
        DType::F32 | DType::F64 => float(value, dtype.size(), &mut out),
        DType::C64 | DType::C128 => match value.as_array().map(Vec::as_slice) {
            Some([re, im]) => {
                let word = dtype.word_size();
                float(re, word, &mut out).and_then(|()| float(im, word, &mut out))
            }
            _ => None,
        },
    };
    match fits {
        Some(()) => Ok(out),
        None => malformed(format!("fill_value {} is not one of {dtype}", quoted(&value.to_string()))),
    }
}

/// The JSON of a fill value; `bytes` has the size of an element.
pub(super) fn encode(bytes: &[u8], dtype: DType) -> Value {
    match dtype {
        DType::Bool => Value::Bool(bytes[0] != 0),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            let unused = 8 * (8 - bytes.len() as u32);
            // Shifting up and down again extends the sign.
            Value::from((unsigned(bytes) << unused) as i64 >> unused)
        }
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => Value::from(unsigned(bytes)),
        DType::F32 | DType::F64 => encode_float(bytes),
        DType::C64 | DType::C128 => {
            let (re, im) = bytes.split_at(dtype.word_size());
            Value::Array(vec![encode_float(re), encode_float(im)])
        }
    }
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |acc, &b| acc << 8 | u64::from(b))
}

fn integer_range(dtype: DType) -> std::ops::RangeInclusive<i128> {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 0..=(1i128 << bits) - 1,
        _ => -(1i128 << (bits - 1))..=(1i128 << (bits - 1)) - 1,
    }
}

/// An integer, or a float that is one: some writers put `0.0` for every type.
fn integer(value: &Value) -> Option<i128> {
    let number = value.as_number()?;
    if let Some(n) = number.as_u64() {
        return Some(n.into());
    }
    if let Some(n) = number.as_i64() {
        return Some(n.into());
    }
    number.as_f64().filter(|f| f.fract() == 0.0).map(|f| f as i128)
}

/// Appends a float of `size` bytes.
fn float(value: &Value, size: usize, out: &mut SmallVec<[u8; 16]>) -> Option<()> {
    let number = match value {
        Value::Number(n) => n.as_f64()?,
        Value::String(text) => match text.as_str() {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            "NaN" if size == 4 => return push_bits(NAN_32.into(), size, out),
            "NaN" => return push_bits(NAN_64, size, out),
            _ => return push_bits(hexadecimal(text, size)?, size, out),
        },
        _ => return None,
    };
    if size == 4 {
        let narrow = number as f32;
        if narrow.is_infinite() && number.is_finite() {
            return None;
        }
        push_bits(narrow.to_bits().into(), size, out)
    } else {
        push_bits(number.to_bits(), size, out)
    }
}

fn push_bits(bits: u64, size: usize, out: &mut SmallVec<[u8; 16]>) -> Option<()> {
    out.extend_from_slice(&bits.to_le_bytes()[..size]);
    Some(())
}

/// The bits in a string such as `0x7fc00000`, which has two digits for each of the `size` bytes.
fn hexadecimal(text: &str, size: usize) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    let sound = digits.len() == 2 * size && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if sound { u64::from_str_radix(digits, 16).ok() } else { None }
}

fn encode_float(bytes: &[u8]) -> Value {
    let bits = unsigned(bytes);
    let (number, plain_nan) = match bytes.len() {
        4 => (f64::from(f32::from_bits(bits as u32)), bits == u64::from(NAN_32)),
        _ => (f64::from_bits(bits), bits == NAN_64),
    };
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number == f64::INFINITY => "Infinity".into(),
        None if number == f64::NEG_INFINITY => "-Infinity".into(),
        None if plain_nan => "NaN".into(),
        None => format!("0x{bits:0digits$x}", digits = 2 * bytes.len()).into(),
    }
}
