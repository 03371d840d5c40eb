//! Answers that an agent can afford: short, in JSON, and nothing in them that hides or turns other text.
//!
//! What is empty is left out. A list is answered in pages. An object that is still too long has its longest lists and texts
//! cut, each with the number of what was left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::{Error, Result};

/// The most bytes of an answer.
pub(crate) const MOST: usize = 16 * 1024;

/// Objects of a page, when nothing else is asked for, and at most.
const USUAL: u64 = 20;
const MOST_OBJECTS: u64 = 200;

/// Names that a summary shows of each kind.
const NAMES: usize = 10;

/// Arguments of tools that answer lists.
pub(crate) const LIMIT: &str = "limit";
pub(crate) const OFFSET: &str = "offset";

/// The argument of lists of which the lab reads a page: the last object of the page before.
pub(crate) const AFTER: &str = "after";

/// The schemas of these.
pub(crate) fn page_schemas() -> [(&'static str, Value); 2] {
    let limit = json!({"type": "integer", "minimum": 1, "maximum": MOST_OBJECTS, "default": USUAL,
        "description": "Most objects to return"});
    let offset = json!({"type": "integer", "minimum": 0, "default": 0,
        "description": "How many objects to skip: `next_offset` of the answer before"});
    [(LIMIT, limit), (OFFSET, offset)]
}

/// The text of an answer: within [`MOST`] bytes, if it can be cut at all.
///
/// # Errors
/// It cannot be made that short.
pub(crate) fn text(mut value: Value) -> Result<String> {
    slim(&mut value);
    for longest in [usize::MAX, 100, 20, 5, 2] {
        if longest < usize::MAX {
            cut(&mut value, longest);
        }
        let text = plain(&value.to_string());
        if text.len() <= MOST {
            return Ok(text);
        }
    }
    let words =
        format!("the answer has more than {MOST} bytes even when cut; ask for one object of it");
    Err(Error::Refused(words))
}

/// JSON text without characters that hide or turn others: these are escaped as JSON does.
fn plain(json: &str) -> String {
    if !json.contains(netloom_config::printable::is_unseen) {
        return json.to_owned();
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if netloom_config::printable::is_unseen(letter) {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                shown += &format!("\\u{unit:04x}");
            }
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Leaves out what is empty: nulls, empty lists and objects.
fn slim(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(slim);
            fields.retain(|_, value| !is_empty(value));
        }
        Value::Array(all) => all.iter_mut().for_each(slim),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Cuts lists to this many values, and texts in proportion.
fn cut(value: &mut Value, longest: usize) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| cut(value, longest)),
        Value::Array(all) => {
            let more = all.len().saturating_sub(longest);
            if more > 0 {
                all.truncate(longest);
                all.push(json!({"left_out": more}));
            }
            all.iter_mut().for_each(|value| cut(value, longest));
        }
        Value::String(text) => {
            let most = longest.saturating_mul(50);
            if text.len() > most
                && let Some((end, _)) = text.char_indices().take_while(|(at, _)| *at <= most).last()
            {
                let more = text.len() - end;
                text.truncate(end);
                *text += &format!(" ... ({more} bytes left out)");
            }
        }
        _ => {}
    }
}

/// A page of a list. `own_limit`: the call has an argument [`LIMIT`] of its own, which bounds what is read and may be larger
/// than a page.
///
/// # Errors
/// The arguments of the page cannot be used.
pub(crate) fn page(all: Vec<Value>, arguments: &Arguments, own_limit: bool) -> Result<Value> {
    let limit = match own_limit {
        true => arguments.parameter::<Option<u64>>(LIMIT)?.unwrap_or(USUAL).min(MOST_OBJECTS),
        false => arguments.number(LIMIT, USUAL, (1, MOST_OBJECTS))?,
    };
    let offset = arguments.number(OFFSET, 0, (0, u64::from(u32::MAX)))?;
    let total = all.len() as u64;
    let as_count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let items: Vec<Value> = all.into_iter().skip(as_count(offset)).take(as_count(limit)).collect();
    let next = offset + items.len() as u64;
    let next = (next < total).then_some(next);
    Ok(json!({"total": total, "items": items, "next_offset": next}))
}

/// What is asked of the lab for a page of objects with names, and how many are on it: one more tells whether others follow.
///
/// # Errors
/// The arguments of the page cannot be used.
pub(crate) fn asked_by_name(arguments: &Arguments) -> Result<(Arguments, usize)> {
    let limit = arguments.number(LIMIT, USUAL, (1, MOST_OBJECTS))?;
    let mut asked = arguments.clone();
    asked.0.insert(LIMIT.to_owned(), json!(limit + 1));
    Ok((asked, usize::try_from(limit).unwrap_or(usize::MAX)))
}

/// A page of the answer to that.
pub(crate) fn page_by_name(mut all: Vec<Value>, limit: usize) -> Value {
    let more = all.len() > limit;
    all.truncate(limit);
    let last = all.last().and_then(|one| one.get("name")).filter(|_| more).cloned();
    json!({"items": all, "next_after": last})
}

/// A lab's state in a few lines: how many of each kind, in which state, and those that are not as they should be.
pub(crate) fn summary(status: Value) -> Value {
    let Value::Object(fields) = status else { return status };
    let mut short = Map::new();
    for (name, value) in fields {
        match value {
            Value::Array(all)
                if all.iter().all(|one| one.get("name").is_some()) && !all.is_empty() =>
            {
                short.insert(name, kind(&all));
            }
            value => _ = short.insert(name, value),
        }
    }
    let more =
        "`nodes`, `links` and `switches` list all by pages; `node`, `link` and `switch` show one";
    short.insert("more".to_owned(), json!(more));
    Value::Object(short)
}

/// Objects of a kind in a summary.
fn kind(all: &[Value]) -> Value {
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    let mut odd = vec![];
    for one in all {
        let state = state(one);
        let is_odd = !matches!(state.as_str(), "up" | "")
            || lost(one)
            || one.get("reason").is_some_and(|r| !r.is_null());
        if !state.is_empty() {
            *states.entry(state).or_default() += 1;
        }
        if is_odd {
            odd.push(one);
        }
    }
    let name = |one: &Value| one.get("name").cloned().unwrap_or_default();
    let shown: Vec<Value> = odd.iter().take(NAMES).map(|one| noted(one)).collect();
    let names: Vec<Value> = all.iter().take(NAMES).map(name).collect();
    json!({
        "total": all.len(),
        "states": states,
        "not_as_it_should": shown,
        "not_shown": Some(odd.len().saturating_sub(NAMES)).filter(|more| *more > 0),
        "names": if all.len() <= NAMES { names } else { vec![] },
    })
}

/// The state of a node, or of a link, which has its own words.
fn state(one: &Value) -> String {
    let is = |field: &str| one.get(field).and_then(Value::as_bool);
    match (one.get("state").and_then(Value::as_str), is("up"), is("down")) {
        (Some(state), ..) => state.to_owned(),
        (None, _, Some(true)) => "unplugged".to_owned(),
        (None, Some(true), _) => "up".to_owned(),
        (None, Some(false), _) => "down".to_owned(),
        (None, None, _) => String::new(),
    }
}

/// Whether it has lost frames that no impairment dropped.
fn lost(one: &Value) -> bool {
    ["lost", "drops"].iter().any(|field| one.get(field).is_some_and(|value| !is_empty(value)))
}

/// What a summary tells of one that is not as it should be.
fn noted(one: &Value) -> Value {
    let mut noted = Map::new();
    noted.insert("state".to_owned(), json!(state(one)));
    for field in ["name", "reason", "lost", "drops", "health"] {
        if let Some(value) = one.get(field) {
            noted.insert(field.to_owned(), value.clone());
        }
    }
    Value::Object(noted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_its_size_and_says_what_it_left_out() {
        let long: Vec<Value> = (0..10_000).map(|n| json!({"name": n, "none": null})).collect();
        let text = text(json!({"nodes": long, "empty": [], "word": "x".repeat(100_000)})).unwrap();
        assert!(text.len() <= MOST, "{}", text.len());
        let read: Value = serde_json::from_str(&text).unwrap();
        let nodes = read["nodes"].as_array().unwrap();
        assert_eq!(nodes.last().unwrap()["left_out"], 10_000 - (nodes.len() - 1));
        assert!(read["word"].as_str().unwrap().ends_with("bytes left out)"));
        assert!(read.get("empty").is_none() && nodes[0].get("none").is_none());
    }

    #[test]
    fn nothing_in_an_answer_turns_or_hides_text() {
        let text = text(json!({"name": "a\u{202e}b\u{200b}\n\u{1b}[2J\u{e0041}"})).unwrap();
        assert_eq!(text, "{\"name\":\"a\\u202eb\\u200b\\n\\u001b[2J\\udb40\\udc41\"}");
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["name"], "a\u{202e}b\u{200b}\n\u{1b}[2J\u{e0041}");
    }

    #[test]
    fn pages_cover_a_list() {
        let all: Vec<Value> = (0..45).map(|n| json!(n)).collect();
        let mut seen = vec![];
        let mut arguments = Arguments::default();
        loop {
            let page = page(all.clone(), &arguments, false).unwrap();
            assert_eq!(page["total"], 45);
            seen.extend(page["items"].as_array().unwrap().clone());
            let Some(next) = page["next_offset"].as_u64() else { break };
            arguments.0.insert(OFFSET.to_owned(), json!(next));
        }
        assert_eq!(seen, all);
        arguments.0.insert(LIMIT.to_owned(), json!(0));
        let words = page(all, &arguments, false).unwrap_err().to_string();
        assert_eq!(words, "argument \"limit\": is a whole number from 1 to 200");
    }

    #[test]
    fn a_page_by_name_tells_where_the_next_one_begins() {
        let all: Vec<Value> = (0..45).map(|n| json!({"name": format!("n{n}")})).collect();
        let mut arguments = Arguments::default();
        let (mut seen, mut from) = (vec![], 0);
        loop {
            let (asked, limit) = asked_by_name(&arguments).unwrap();
            assert_eq!(
                (&asked.0[LIMIT], limit),
                (&json!(21), 20),
                "no more than one too many is read"
            );
            let page = page_by_name(all.iter().skip(from).take(21).cloned().collect(), limit);
            seen.extend(page["items"].as_array().unwrap().clone());
            from = seen.len();
            let Some(next) = page["next_after"].as_str() else { break };
            assert_eq!(next, format!("n{}", from - 1));
            arguments.0.insert(AFTER.to_owned(), json!(next));
        }
        assert_eq!(seen, all);
        arguments.0.insert(LIMIT.to_owned(), json!(201));
        assert!(asked_by_name(&arguments).is_err());
    }

    #[test]
    fn a_limit_of_the_call_itself_may_be_larger_than_a_page() {
        let all: Vec<Value> = (0..450).map(|n| json!(n)).collect();
        let page_of = |limit: Option<Value>| {
            let limit = limit.map(|limit| (LIMIT.to_owned(), limit));
            let page = page(all.clone(), &Arguments(limit.into_iter().collect()), true).unwrap();
            let items = page["items"].as_array().unwrap().len();
            (items, page["total"].as_u64(), page["next_offset"].as_u64())
        };
        assert_eq!(page_of(Some(json!(1000))), (200, Some(450), Some(200)));
        assert_eq!(page_of(Some(json!("300"))), (200, Some(450), Some(200)), "as a query has it");
        assert_eq!(page_of(Some(json!(30))), (30, Some(450), Some(30)));
        assert_eq!(page_of(None), (20, Some(450), Some(20)));
    }

    #[test]
    fn a_summary_names_what_is_not_up() {
        let mut nodes: Vec<Value> = (0..100)
            .map(|n| json!({"name": format!("n{n}"), "state": "up", "drops": []}))
            .collect();
        nodes[7] = json!({"name": "n7", "state": "ended", "reason": "killed by signal 9"});
        let links = json!([{"name": "l", "up": true, "down": false, "lost": [{"packets": 3}]},
            {"name": "m", "up": false, "down": true, "lost": []}]);
        let short =
            summary(json!({"name": "lab", "nodes": nodes, "links": links, "machine_drops": []}));
        assert_eq!(short["nodes"]["states"], json!({"ended": 1, "up": 99}));
        assert_eq!(short["nodes"]["not_as_it_should"][0]["name"], "n7");
        assert_eq!(short["nodes"]["not_as_it_should"][0]["reason"], "killed by signal 9");
        assert_eq!(short["links"]["states"], json!({"unplugged": 1, "up": 1}));
        assert_eq!(short["links"]["not_as_it_should"].as_array().unwrap().len(), 2);
        assert_eq!(short["links"]["names"], json!(["l", "m"]));
        assert!(text(short).unwrap().len() < 1000);
    }
}
