//! Element types.

use std::fmt;

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Two `F32`: real, imaginary.
    C64,
    /// Two `F64`: real, imaginary.
    C128,
}

/// The order of the bytes in a stored number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first. The order of everything Outcrop creates.
    Little,
    /// Most significant byte first.
    Big,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// Bytes of one number inside an element: half of [`size`](Self::size) for complex types.
    /// Byte order applies to this unit.
    pub const fn word_size(self) -> usize {
        match self {
            DType::C64 | DType::C128 => self.size() / 2,
            _ => self.size(),
        }
    }

    /// The name in NumPy and Zarr v3, such as `float64`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::U8 => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }

    /// The type with this NumPy or Zarr v3 name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// The kind character and size of NumPy's type strings, such as `f8`.
    pub fn typestr(self) -> String {
        let kind = match self {
            DType::Bool => 'b',
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 'i',
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => 'u',
            DType::F32 | DType::F64 => 'f',
            DType::C64 | DType::C128 => 'c',
        };
        format!("{kind}{}", self.size())
    }

    /// Parses a NumPy type string: an order (`<`, `>`, `=`, `|` or none), a kind and a size.
    ///
    /// Without an order, and for `=` and `|`, the order is little-endian, the order of every
    /// machine that Outcrop runs on.
    pub fn from_typestr(text: &str) -> Option<(DType, ByteOrder)> {
        let (order, rest) = match text.as_bytes().first()? {
            b'<' | b'=' | b'|' => (ByteOrder::Little, &text[1..]),
            b'>' => (ByteOrder::Big, &text[1..]),
            _ => (ByteOrder::Little, text),
        };
        let dtype = DType::ALL.into_iter().find(|d| d.typestr() == rest)?;
        let order = if dtype.word_size() == 1 { ByteOrder::Little } else { order };
        Some((dtype, order))
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reverses the bytes of every `word`-byte number in `bytes`.
///
/// `bytes.len()` must be a multiple of `word`; `word` is 1, 2, 4 or 8.
pub fn swap_words(bytes: &mut [u8], word: usize) {
    assert!(bytes.len().is_multiple_of(word));
    fn swap<const N: usize>(bytes: &mut [u8]) {
        let (words, _) = bytes.as_chunks_mut::<N>();
        words.iter_mut().for_each(|w| w.reverse());
    }
    match word {
        2 => swap::<2>(bytes),
        4 => swap::<4>(bytes),
        8 => swap::<8>(bytes),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_typestrs_round_trip() {
        for d in DType::ALL {
            assert_eq!(DType::from_name(d.name()), Some(d));
            assert_eq!(DType::from_typestr(&format!("<{}", d.typestr())), Some((d, ByteOrder::Little)));
        }
        assert_eq!(DType::from_typestr(">f8"), Some((DType::F64, ByteOrder::Big)));
        assert_eq!(DType::from_typestr("|u1"), Some((DType::U8, ByteOrder::Little)));
        assert_eq!(DType::from_typestr("|O"), None);
        assert_eq!(DType::from_typestr("<U5"), None);
    }

    #[test]
    fn complex_numbers_swap_each_part() {
        let mut bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        swap_words(&mut bytes, DType::C64.word_size());
        assert_eq!(bytes, [4, 3, 2, 1, 8, 7, 6, 5]);
    }
}
