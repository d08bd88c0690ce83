//! What goes with the elements of an array: attributes, names of dimensions, the fill value.

use super::Attributes;
use super::fill;
use super::parse::document;
use crate::dtype::DType;
use crate::format::{FormatError, malformed, quoted};
use serde_json::Value;
use smallvec::SmallVec;
use std::path::PathBuf;

/// The attribute that holds the names of dimensions where a version of Zarr has no member for them: xarray's
/// convention for version 2.
pub(crate) const NAMES_ATTRIBUTE: &str = "_ARRAY_DIMENSIONS";

/// A name or none for every axis.
pub type Names = Vec<Option<String>>;

/// What a new array is labelled with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// The user's attributes.
    pub attributes: Attributes,
    /// A name or none for every axis, or nothing.
    pub dimension_names: Option<Names>,
    /// The element that stands for those never written, in the JSON of Zarr 3; `None` for zero, which in
    /// version 2 is then not called a fill value.
    pub fill_value: Option<Value>,
    /// Where the array will stand. Only plans have to be told.
    pub place: Option<PathBuf>,
}

/// What a stored array is labelled with, besides its attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    /// 2 or 3.
    pub zarr_format: u8,
    /// A name or none for every axis, or nothing.
    pub dimension_names: Option<Names>,
    /// The bytes of the fill value, where there is one.
    pub fill_value: Option<SmallVec<[u8; 16]>>,
}

impl Labels {
    /// Labels of a JSON object with the members `attributes`, `dimension_names`, `fill_value` and `place`, all
    /// optional.
    ///
    /// # Errors
    /// `Malformed` where one of them is of another type.
    pub fn parse(text: &str) -> Result<Labels, FormatError> {
        let mut labels = Labels::default();
        let parsed = document(text.as_bytes(), "labels")?;
        if let Some(attributes) = parsed.attributes {
            labels.attributes = Attributes::of(&attributes, "attributes")?;
        }
        for (name, value) in parsed.members {
            match (name.as_str(), value) {
                ("dimension_names", Value::Array(names)) => labels.dimension_names = Some(named(&names)?),
                ("fill_value", value) => labels.fill_value = Some(value),
                ("place", Value::String(place)) => labels.place = Some(place.into()),
                (_, value) => return malformed(format!("{name} is {}", quoted(&value.to_string()))),
            }
        }
        Ok(labels)
    }

    /// The bytes of the fill value of an array of this type.
    ///
    /// # Errors
    /// `Malformed` where it is none of this type.
    pub fn fill_bytes(&self, dtype: DType) -> Result<SmallVec<[u8; 16]>, FormatError> {
        match &self.fill_value {
            Some(value) => fill::parse(value, dtype),
            None => Ok(SmallVec::from_elem(0, dtype.size())),
        }
    }

    /// The fill value in the JSON of version 3, where there has to be one.
    ///
    /// # Errors
    /// As for [`fill_bytes`](Self::fill_bytes).
    pub fn fill_json(&self, dtype: DType) -> Result<Value, FormatError> {
        Ok(fill::encode(&self.fill_bytes(dtype)?, dtype))
    }

    /// The fill value in the JSON of version 2, which has no name for a NaN with a payload.
    ///
    /// # Errors
    /// As for [`fill_bytes`](Self::fill_bytes).
    pub fn fill_json_v2(&self, dtype: DType) -> Result<Value, FormatError> {
        if self.fill_value.is_none() {
            return Ok(Value::Null);
        }
        let plain = |value: Value| match value {
            Value::String(text) if text.starts_with("0x") => "NaN".into(),
            other => other,
        };
        Ok(match self.fill_json(dtype)? {
            Value::Array(parts) => Value::Array(parts.into_iter().map(plain).collect()),
            single => plain(single),
        })
    }

    /// An error unless there is a name or none for every axis.
    ///
    /// # Errors
    /// `Malformed`.
    pub fn check(&self, ndim: usize) -> Result<(), FormatError> {
        match &self.dimension_names {
            Some(names) if names.len() != ndim => {
                malformed(format!("{} names for {ndim} dimensions", names.len()))
            }
            _ => Ok(()),
        }
    }

    /// The attributes of version 2, which the names are among.
    pub fn attributes_v2(&self) -> Attributes {
        match self.dimension_names.as_ref().filter(|names| names.iter().all(Option::is_some)) {
            Some(names) => self.attributes.with_names(&names.iter().flatten().collect::<Vec<_>>()),
            None => self.attributes.clone(),
        }
    }
}

fn named(names: &[Value]) -> Result<Names, FormatError> {
    names
        .iter()
        .map(|name| match name {
            Value::Null => Ok(None),
            Value::String(name) => Ok(Some(name.clone())),
            other => malformed(format!("a dimension's name is {}", quoted(&other.to_string()))),
        })
        .collect()
}
