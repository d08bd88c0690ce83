//! The user's attributes, kept as text.

use super::labels::{NAMES_ATTRIBUTE, Names};
use super::parse::{from_json, wrong_text};
use crate::format::FormatError;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;

/// The deepest attributes that are written line by line: what is indented further grows by that.
const DEEPEST: usize = 32;

/// The attributes of an array: a JSON object. It stays text, because nobody but the user asks what is in it, and
/// made a tree it would take a hundred times as much memory.
#[derive(Clone, Debug)]
pub struct Attributes(Box<RawValue>);

impl Default for Attributes {
    fn default() -> Attributes {
        Map::new().into()
    }
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Attributes) -> bool {
        self.text() == other.text()
    }
}

impl From<Map<String, Value>> for Attributes {
    fn from(attributes: Map<String, Value>) -> Attributes {
        Attributes(raw(Value::Object(attributes).to_string()))
    }
}

impl Attributes {
    /// From a file that holds nothing else.
    pub(crate) fn parse(json: &[u8], file: &str) -> Result<Attributes, FormatError> {
        Attributes::of(&from_json::<Box<RawValue>>(json, file)?, file)
    }

    /// From a member of a document.
    pub(crate) fn of(value: &RawValue, name: &str) -> Result<Attributes, FormatError> {
        if value.get().starts_with('{') {
            Ok(Attributes(raw(spaced(value.get(), None))))
        } else {
            wrong_text(name, "an object", value.get())
        }
    }

    /// The text, without blanks between its parts.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The attributes as a tree, for the few that are looked into.
    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(self.text()).unwrap_or_default()
    }

    /// The text as it is written: a line for each part.
    pub(crate) fn pretty(&self) -> Box<RawValue> {
        match depth(self.text()) {
            ..=DEEPEST => raw(spaced(self.text(), Some(1))),
            _ => self.0.clone(),
        }
    }

    /// Takes the names of dimensions out, if there is one for each of `ndim` axes.
    pub(crate) fn take_names(&mut self, ndim: usize) -> Option<Names> {
        // Of most attributes it takes no more to know that there are none.
        if !self.text().contains(NAMES_ATTRIBUTE) {
            return None;
        }
        let members = self.members();
        let (_, found) = members.iter().rev().find(|(name, _)| name == NAMES_ATTRIBUTE)?;
        // As many names as there are axes are a short list.
        if found.get().bytes().filter(|&b| b == b',').count() > super::parse::MAX_VALUES {
            return None;
        }
        let names: Vec<String> = serde_json::from_str(found.get()).ok()?;
        if names.len() != ndim {
            return None;
        }
        *self = Attributes::of_members(members.iter().filter(|(name, _)| name != NAMES_ATTRIBUTE));
        Some(names.into_iter().map(Some).collect())
    }

    /// The same with names of dimensions among them.
    pub(crate) fn with_names(&self, names: &[&String]) -> Attributes {
        let names = raw(serde_json::to_string(names).expect("strings are JSON"));
        let mut members = self.members();
        members.retain(|(name, _)| name != NAMES_ATTRIBUTE);
        members.push((NAMES_ATTRIBUTE.into(), &names));
        Attributes::of_members(members.iter())
    }

    fn of_members<'a>(members: impl Iterator<Item = &'a (String, &'a RawValue)>) -> Attributes {
        let mut text = String::from("{");
        for (name, value) in members {
            if text.len() > 1 {
                text.push(',');
            }
            text += &serde_json::to_string(name).expect("a string is JSON");
            text.push(':');
            text += value.get();
        }
        text.push('}');
        Attributes(raw(text))
    }

    fn members(&self) -> Vec<(String, &RawValue)> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        serde_json::Deserializer::from_str(self.text()).deserialize_map(Members).unwrap_or_default()
    }
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).expect("made of JSON")
}

/// The brackets of a JSON text that are open at once, at most.
fn depth(text: &str) -> usize {
    let (mut deepest, mut open) = (0, 0_usize);
    for (byte, in_string) in outside_strings(text) {
        match byte {
            b'{' | b'[' if !in_string => open += 1,
            b'}' | b']' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// A JSON text without blanks between its parts, or with a line for each, where the lines of what is inside are
/// indented by so many steps.
fn spaced(text: &str, indent: Option<usize>) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut open = indent.unwrap_or(0);
    let line = |out: &mut Vec<u8>, open: usize| {
        if indent.is_some() {
            out.push(b'\n');
            out.resize(out.len() + 2 * open, b' ');
        }
    };
    for (byte, in_string) in outside_strings(text) {
        match byte {
            _ if in_string => out.push(byte),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'}' | b']' => {
                open = open.saturating_sub(1);
                if !matches!(out.last(), Some(b'{' | b'[')) {
                    line(&mut out, open);
                }
                out.push(byte);
            }
            _ => {
                // What is opened goes on in a line of its own, unless it is closed at once.
                if matches!(out.last(), Some(b'{' | b'[')) {
                    line(&mut out, open);
                }
                out.push(byte);
                match byte {
                    b'{' | b'[' => open += 1,
                    b',' => line(&mut out, open),
                    b':' if indent.is_some() => out.push(b' '),
                    _ => {}
                }
            }
        }
    }
    String::from_utf8(out).expect("blanks are all that was left out")
}

/// The bytes of a JSON text, each with whether it belongs to a string; the quote that begins one does not.
fn outside_strings(text: &str) -> impl Iterator<Item = (u8, bool)> + '_ {
    let (mut in_string, mut escaped) = (false, false);
    text.bytes().map(move |byte| {
        let was = in_string;
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
        (byte, was)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(text: &str) -> Attributes {
        Attributes::parse(text.as_bytes(), ".zattrs").unwrap()
    }

    #[test]
    fn attributes_stay_text() {
        let text = r#" { "a" : [ 1.50 , "x, {\\\" y" ], "b": {} , "c":{"d":[]}, "e": NaN } "#;
        let attributes = parsed(text);
        assert_eq!(attributes.text(), r#"{"a":[1.50,"x, {\\\" y"],"b":{},"c":{"d":[]},"e":"NaN"}"#);
        let pretty = attributes.pretty();
        let wanted = serde_json::to_string_pretty(&attributes.to_map()).unwrap().replace("1.5,", "1.50,");
        assert_eq!(pretty.get(), wanted.replace('\n', "\n  "));
        assert_eq!(parsed(pretty.get()), attributes);
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parsed(&deep).pretty().get(), deep);
        for wrong in ["[]", "1", "", "{", r#"{"a":}"#] {
            assert!(Attributes::parse(wrong.as_bytes(), ".zattrs").is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_taken_out_and_put_in() {
        let mut attributes = parsed(r#"{"a":1,"_ARRAY_DIMENSIONS":["x","y"],"b":2}"#);
        assert_eq!(attributes.clone().take_names(3), None);
        let names = attributes.take_names(2).unwrap();
        assert_eq!(names, [Some("x".into()), Some("y".into())]);
        assert_eq!(attributes.text(), r#"{"a":1,"b":2}"#);
        let names: Vec<&String> = names.iter().flatten().collect();
        let wanted = json!({ "a": 1, "b": 2, "_ARRAY_DIMENSIONS": ["x", "y"] });
        assert_eq!(Value::Object(attributes.with_names(&names).to_map()), wanted);
        assert_eq!(parsed(r#"{"_ARRAY_DIMENSIONS":[1,2]}"#).take_names(2), None);
    }
}
