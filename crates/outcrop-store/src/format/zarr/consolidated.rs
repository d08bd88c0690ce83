//! Consolidated metadata: copies of the metadata of everything in a group, in the group's own metadata.
//!
//! Version 2 has them in a file `.zmetadata`, version 3 in the member `consolidated_metadata` of the group's
//! `zarr.json`. Texts are spliced, never written anew from what was parsed: whatever else there is stays as it is,
//! byte for byte, such as numbers of any precision, and the bare words `NaN` and `Infinity` that Python writes.
//!
//! A text may be large. Its members are gone through and not listed, since a list of short ones would take many times
//! as much memory: besides the text that is given, there is only the one that is made of it.

use std::borrow::Cow;
use std::ops::Range;

/// The member of a group's `zarr.json`.
const MEMBER: &str = "consolidated_metadata";

/// A copy in consolidated metadata: its key, and the JSON that belongs there, or none.
pub type Entry<'a> = (String, Option<&'a [u8]>);

/// Whether a `zarr.json` is that of a group.
pub fn is_group(json: &[u8]) -> bool {
    let found = member(json, 0, "node_type").flatten();
    found.is_some_and(|member| &json[member.value] == b"\"group\"")
}

/// Whether a group's `zarr.json` has consolidated metadata.
pub fn is_consolidated(group_json: &[u8]) -> bool {
    consolidated(group_json).is_some()
}

/// A group's `zarr.json` without consolidated metadata; `None` where it has none.
pub fn removed(group_json: &[u8]) -> Option<Vec<u8>> {
    let range = consolidated(group_json)?.with_comma();
    Some([&group_json[..range.start], &group_json[range.end..]].concat())
}

/// A group's `zarr.json` with entries of its consolidated metadata renewed; `None` where it has none, or lacks one of
/// the `groups` between it and the entries, without which nobody could read it.
pub fn renewed(group_json: &[u8], entries: &[Entry], groups: &[String]) -> Option<Vec<u8>> {
    renewed_in(group_json, &[MEMBER, "metadata"], entries, groups)
}

/// The same of a `.zmetadata`.
pub fn renewed_v2(zmetadata: &[u8], entries: &[Entry], groups: &[String]) -> Option<Vec<u8>> {
    renewed_in(zmetadata, &["metadata"], entries, groups)
}

/// The text of a member of a JSON object, where there is one of this name.
pub fn member_text<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    Some(&json[member(json, 0, name)??.value])
}

/// A member of an object, as places in a text.
struct Member {
    /// From the quote before the key on.
    start: usize,
    value: Range<usize>,
    /// The end of the member before it.
    before: Option<usize>,
    /// The start of the one behind it.
    behind: Option<usize>,
}

impl Member {
    /// The member, and the comma that sets it apart.
    fn with_comma(&self) -> Range<usize> {
        match (self.before, self.behind) {
            (_, Some(behind)) => self.start..behind,
            (Some(before), None) => before..self.value.end,
            (None, None) => self.start..self.value.end,
        }
    }
}

fn consolidated(group_json: &[u8]) -> Option<Member> {
    let found = member(group_json, 0, MEMBER)??;
    // Null, where a group says that it has none.
    (group_json[found.value.start] == b'{').then_some(found)
}

fn renewed_in(text: &[u8], path: &[&str], entries: &[Entry], groups: &[String]) -> Option<Vec<u8>> {
    let place = |text: &[u8]| -> Option<usize> {
        path.iter().try_fold(0, |at, name| Some(member(text, at, name)??.value.start))
    };
    let at = place(text)?;
    for group in groups {
        member(text, at, group)??;
    }
    let mut text = text.to_vec();
    for (key, json) in entries {
        // Nothing in front of it has changed.
        match (member(&text, at, key)?, json) {
            (None, None) => {}
            (Some(member), None) => drop(text.drain(member.with_comma())),
            (Some(member), Some(json)) => splice(&mut text, member.value, json.trim_ascii()),
            (None, Some(json)) => {
                let open = skip_blank(&text, at) + 1;
                let mut member = serde_json::to_vec(key).expect("a string is JSON");
                member.extend_from_slice(b": ");
                member.extend_from_slice(json.trim_ascii());
                if text.get(skip_blank(&text, open)) != Some(&b'}') {
                    member.extend_from_slice(b", ");
                }
                splice(&mut text, open..open, &member);
            }
        }
    }
    Some(text)
}

fn splice(text: &mut Vec<u8>, range: Range<usize>, with: &[u8]) {
    text.splice(range, with.iter().copied());
}

fn skip_blank(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// The first member of this name in the object that begins at a place, or that there is none; `None` where there is
/// no object.
fn member(text: &[u8], at: usize, name: &str) -> Option<Option<Member>> {
    let mut at = skip_blank(text, at);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    let (mut found, mut before): (Option<Member>, _) = (None, None);
    loop {
        at = skip_blank(text, at + 1);
        if text.get(at) == Some(&b'}') && before.is_none() {
            return Some(None);
        }
        let start = at;
        let end = string_end(text, start)?;
        let is_it = key(&text[start..end])? == name;
        at = skip_blank(text, end);
        if text.get(at) != Some(&b':') {
            return None;
        }
        let value = skip_blank(text, at + 1);
        let end = value_end(text, value)?;
        match &mut found {
            Some(found) => found.behind = found.behind.or(Some(start)),
            None if is_it => found = Some(Member { start, value: value..end, before, behind: None }),
            None => {}
        }
        before = Some(end);
        at = skip_blank(text, end);
        match text.get(at)? {
            b',' => {}
            b'}' => return Some(found),
            _ => return None,
        }
    }
}

/// What a string says, with its quotes.
fn key(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let inner = &quoted[1..quoted.len() - 1];
    if inner.iter().any(|&byte| byte == b'\\' || byte < b' ') {
        return serde_json::from_slice(quoted).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

/// Behind the string that begins at a place.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    if text.get(start) != Some(&b'"') {
        return None;
    }
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Behind the value that begins at a place, of whatever kind.
fn value_end(text: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0u32);
    loop {
        match text.get(at)? {
            b'"' => at = string_end(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            b'}' | b']' | b',' if depth == 0 => {
                return (at > start).then_some(text[start..at].trim_ascii_end().len() + start);
            }
            _ => at += 1,
        }
        if depth == 0 && matches!(text[at - 1], b'}' | b']' | b'"') {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn parsed(text: &[u8]) -> Value {
        serde_json::from_slice(text).unwrap()
    }

    #[test]
    fn entries_are_replaced_added_and_removed() {
        let group = json!({ "attributes": { "a": "}\\\"," }, "consolidated_metadata": { "kind": "inline",
            "metadata": { "x": { "shape": [1, 2] }, "sub/y": {} } }, "node_type": "group" });
        for text in [group.to_string(), format!("{group:#}\n")] {
            let entries = [("x".into(), Some(&b"{\"n\": 1}\n"[..])), ("z\"".into(), Some(&b"[]"[..]))];
            let mut wanted = group.clone();
            wanted["consolidated_metadata"]["metadata"] = json!({ "x": { "n": 1 }, "sub/y": {}, "z\"": [] });
            let renewed = renewed(text.as_bytes(), &entries, &[]).unwrap();
            assert_eq!(parsed(&renewed), wanted);
            let fewer = renewed_in(
                &renewed,
                &["consolidated_metadata", "metadata"],
                &[("sub/y".into(), None), ("x".into(), None), ("z\"".into(), None), ("never".into(), None)],
                &[],
            );
            wanted["consolidated_metadata"]["metadata"] = json!({});
            assert_eq!(parsed(&fewer.unwrap()), wanted);
            wanted.as_object_mut().unwrap().remove("consolidated_metadata");
            assert_eq!(parsed(&removed(text.as_bytes()).unwrap()), wanted);
        }
    }

    #[test]
    fn members_are_found_by_name() {
        let text = br#" {"a\u0062" : [1, {"x": 2}], "x": 3 , "c": "}" } "#;
        let found = |name| member_text(text, name).map(|found| std::str::from_utf8(found).unwrap());
        assert_eq!(found("ab"), Some(r#"[1, {"x": 2}]"#));
        assert_eq!((found("x"), found("c"), found("d")), (Some("3"), Some("\"}\""), None));
        assert!(is_consolidated(br#"{"consolidated_metadata": {}}"#));
        assert!(!is_consolidated(br#"{"consolidated_metadata": null}"#));
    }

    #[test]
    fn what_is_none_of_ours_stays_byte_for_byte() {
        let text = br#"{"metadata": {"x/.zarray": {"fill_value": NaN}, "y/.zattrs": {"v": -Infinity, "n": 1e-0400}}}"#;
        let renewed = renewed_v2(text, &[("x/.zarray".into(), Some(b"{}"))], &[]).unwrap();
        let wanted = br#"{"metadata": {"x/.zarray": {}, "y/.zattrs": {"v": -Infinity, "n": 1e-0400}}}"#;
        assert_eq!(renewed, wanted);
    }

    #[test]
    fn what_lacks_a_group_in_between_is_not_renewed() {
        let group = json!({ "consolidated_metadata": { "metadata": { "a": {}, "a/b/x": {} } } }).to_string();
        let entries = [("a/b/x".into(), Some(&b"1"[..]))];
        assert!(renewed(group.as_bytes(), &entries, &["a".into()]).is_some());
        assert_eq!(renewed(group.as_bytes(), &entries, &["a".into(), "a/b".into()]), None);
    }

    #[test]
    fn nothing_is_made_of_what_is_not_there() {
        for text in [
            "",
            "{",
            "[]",
            "{}",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            r#"{"consolidated_metadata": null}"#,
            r#"{"consolidated_metadata": }"#,
        ] {
            assert_eq!(removed(text.as_bytes()), None, "{text}");
            assert_eq!(renewed(text.as_bytes(), &[("x".into(), Some(b"1"))], &[]), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn damaged_texts_never_panic(at in 0usize..200, byte in any::<u8>(), cut in 0usize..200) {
            let group = json!({ "attributes": { "a": ["}\\\",", -1.5] }, "consolidated_metadata": {
                "metadata": { "x": { "shape": [1, 2] }, "sub/y": {} } }, "node_type": "group" });
            let mut text = group.to_string().into_bytes();
            text.truncate(text.len() - cut.min(text.len() - 1));
            let at = at % text.len();
            text[at] = byte;
            let _ = (is_group(&text), removed(&text), renewed(&text, &[("x".into(), None)], &[]));
            let _ = renewed_v2(&text, &[("x".into(), Some(b"{}"))], &[]);
        }
    }
}
