//! The functions of templates: those of Go's `text/template`, and some of gomplate.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::clab::template::{Attempt, Value, fault};

/// How long a text may become.
pub(super) const MOST_TEXT: usize = 8 << 20;

/// How many items a list may have that a function makes.
pub(super) const MOST_ITEMS: i64 = 65_536;

fn whole(value: &Value) -> Attempt<i64> {
    match value {
        Value::Int(n) => Ok(*n),
        // gomplate's arithmetic takes texts for numbers: variables of the environment are texts.
        Value::Text(text) if text.trim().parse::<i64>().is_ok() => {
            Ok(text.trim().parse().unwrap_or(0))
        }
        other => fault(0, format!("{other} is not a whole number")),
    }
}

/// The result of a function. Faults have no line.
pub(super) fn function(name: &str, given: Vec<Value>) -> Attempt<Value> {
    match name {
        "print" | "printf" | "println" | "len" | "index" | "default" | "conv.Default" | "list"
        | "coll.Slice" | "slice" | "dict" | "coll.Dict" | "conv.ToString" | "toString"
        | "conv.ToInt" | "int" | "atoi" | "quote" | "join" | "strings.ToUpper" | "upper"
        | "toUpper" | "strings.ToLower" | "lower" | "toLower" | "strings.Repeat" => {
            texts(name, &given)
        }
        "seq" | "math.Seq" | "until" | "untilStep" => sequence(name, &given),
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" => compare(name, &given),
        "and" | "or" | "not" => logic(name, given),
        _ => arithmetic(name, &given),
    }
}

fn logic(name: &str, given: Vec<Value>) -> Attempt<Value> {
    if given.is_empty() {
        return fault(0, format!("{name} needs a value"));
    }
    let decides = |value: &Value| match name {
        "and" => !value.is_true(),
        _ => value.is_true(),
    };
    if name == "not" {
        return Ok(Value::Bool(!given[0].is_true()));
    }
    // As in Go, `and` and `or` return the value that decides, not a boolean.
    let at = given.iter().position(decides).unwrap_or(given.len() - 1);
    Ok(given[at].clone())
}

fn compare(name: &str, given: &[Value]) -> Attempt<Value> {
    let [first, others @ ..] = given else { return fault(0, format!("{name} needs two values")) };
    let Some(second) = others.first() else { return fault(0, format!("{name} needs two values")) };
    let order = |a: &Value, b: &Value| match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (a, b) if a == b => Some(Ordering::Equal),
        _ => None,
    };
    let ordered = order(first, second);
    Ok(Value::Bool(match name {
        // `eq a b c` holds if `a` equals one of the others (text/template).
        "eq" => others.iter().any(|other| order(first, other) == Some(Ordering::Equal)),
        "ne" => ordered != Some(Ordering::Equal),
        _ => match (name, ordered) {
            (_, None) => return fault(0, format!("{first} and {second} cannot be compared")),
            ("lt", order) => order == Some(Ordering::Less),
            ("le", order) => order != Some(Ordering::Greater),
            ("gt", order) => order == Some(Ordering::Greater),
            (_, order) => order != Some(Ordering::Less),
        },
    }))
}

fn arithmetic(name: &str, given: &[Value]) -> Attempt<Value> {
    let short = name.strip_prefix("math.").unwrap_or(name).to_ascii_lowercase();
    if !["add", "sub", "mul", "div", "mod", "rem", "max", "min"].contains(&short.as_str()) {
        return fault(0, format!("function {name:?} is not known"));
    }
    let mut numbers = vec![];
    for value in given {
        numbers.push(whole(value)?);
    }
    let Some((first, rest)) = numbers.split_first() else {
        return fault(0, format!("{name} needs numbers"));
    };
    let mut result = *first;
    for n in rest {
        let next = match short.as_str() {
            "add" => result.checked_add(*n),
            "sub" => result.checked_sub(*n),
            "mul" => result.checked_mul(*n),
            "max" => Some(result.max(*n)),
            "min" => Some(result.min(*n)),
            _ if *n == 0 => return fault(0, "division by zero"),
            "div" => result.checked_div(*n),
            _ => result.checked_rem(*n),
        };
        let Some(next) = next else { return fault(0, "a number beyond 64 bits") };
        result = next;
    }
    Ok(Value::Int(result))
}

fn sequence(name: &str, given: &[Value]) -> Attempt<Value> {
    let mut numbers = vec![];
    for value in given {
        numbers.push(whole(value)?);
    }
    let is_until = name.starts_with("until");
    // gomplate's Seq begins at 1 and includes its end; `until` begins at 0 and does not.
    let (from, to, step) = match *numbers.as_slice() {
        [to] if is_until => (0, to, 1),
        [to] => (1, to, 1),
        [from, to] => (from, to, if to < from { -1 } else { 1 }),
        [from, to, step] => (from, to, step),
        _ => return fault(0, format!("{name} needs one to three numbers")),
    };
    let (mut items, mut n) = (vec![], from);
    let goes_on = |n: i64| match (step > 0, is_until) {
        (true, true) => n < to,
        (true, false) => n <= to,
        (false, true) => n > to,
        (false, false) => n >= to,
    };
    while step != 0 && goes_on(n) {
        if items.len() as u64 >= MOST_ITEMS.unsigned_abs() {
            return fault(0, format!("a list of more than {MOST_ITEMS} items"));
        }
        items.push(Value::Int(n));
        let Some(next) = n.checked_add(step) else { break };
        n = next;
    }
    Ok(Value::List(items))
}

fn texts(name: &str, given: &[Value]) -> Attempt<Value> {
    let first = || match given.first() {
        Some(value) => Ok(value),
        None => fault(0, format!("{name} needs a value")),
    };
    let text = match name {
        "print" | "println" => {
            let texts: Vec<String> = given.iter().map(Value::to_string).collect();
            if name == "print" { texts.concat() } else { texts.join(" ") + "\n" }
        }
        "printf" => printf(given)?,
        "len" => {
            let length = match first()? {
                Value::Text(text) => text.len(),
                Value::List(items) => items.len(),
                Value::Map(map) => map.len(),
                other => return fault(0, format!("{other} has no length")),
            };
            return Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)));
        }
        "index" => return index(given),
        "default" | "conv.Default" => {
            // The value to replace comes last, since that is what a pipe hands over.
            let value = given.last().filter(|value| given.len() > 1 && value.is_true());
            return value.map_or_else(|| first().cloned(), |value| Ok(value.clone()));
        }
        "list" | "coll.Slice" | "slice" => return Ok(Value::List(given.to_vec())),
        "dict" | "coll.Dict" => {
            let pair = |pair: &[Value]| Some((pair.first()?.to_string(), pair.get(1)?.clone()));
            return Ok(Value::Map(given.chunks(2).filter_map(pair).collect::<BTreeMap<_, _>>()));
        }
        "conv.ToInt" | "int" | "atoi" => return whole(first()?).map(Value::Int),
        "quote" => format!("\"{}\"", first()?),
        "strings.ToUpper" | "upper" | "toUpper" => first()?.to_string().to_uppercase(),
        "strings.ToLower" | "lower" | "toLower" => first()?.to_string().to_lowercase(),
        "strings.Repeat" => match given {
            [n, text] => {
                let (n, text) = (whole(n)?.clamp(0, MOST_ITEMS), text.to_string());
                let n = usize::try_from(n).unwrap_or(0);
                if text.len().saturating_mul(n) > MOST_TEXT {
                    return fault(0, "a text of more than 8 MiB");
                }
                text.repeat(n)
            }
            _ => return fault(0, "strings.Repeat needs a number and a text"),
        },
        "join" => match given {
            [Value::List(items), sep] => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                items.join(&sep.to_string())
            }
            _ => return fault(0, "join needs a list and a text"),
        },
        _ => first()?.to_string(),
    };
    Ok(Value::Text(text))
}

fn index(given: &[Value]) -> Attempt<Value> {
    let Some((first, rest)) = given.split_first() else { return fault(0, "index needs a value") };
    let mut value = first;
    for key in rest {
        let found = match value {
            Value::List(items) => usize::try_from(whole(key)?).ok().and_then(|n| items.get(n)),
            Value::Map(map) => match map.get(&key.to_string()) {
                Some(found) => Some(found),
                // As in Go: a key that a map has not gives the zero value, an index beyond a list
                // is an error.
                None => return Ok(Value::Nothing),
            },
            _ => None,
        };
        let Some(found) = found else { return fault(0, format!("no item {key} in {value}")) };
        value = found;
    }
    Ok(value.clone())
}

/// `%d`, `%s`, `%v`, `%q`, `%x`, `%%`, with a width and zeros before it.
fn printf(given: &[Value]) -> Attempt<String> {
    let Some((Value::Text(format), rest)) = given.split_first() else {
        return fault(0, "printf needs a text");
    };
    let mut values = rest.iter();
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let zero = chars.next_if_eq(&'0').is_some();
        let mut width = 0usize;
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            // A width is bounded, because a short text could else ask for gigabytes.
            width = (width * 10 + digit.to_digit(10).unwrap_or(0) as usize).min(1000);
        }
        let verb = chars.next();
        if verb == Some('%') {
            out.push('%');
            continue;
        }
        let Some(value) = values.next() else { return fault(0, "printf has too few values") };
        let text = match verb {
            Some('d' | 's' | 'v') => value.to_string(),
            Some('x') => format!("{:x}", whole(value)?),
            Some('q') => format!("{:?}", value.to_string()),
            _ => return fault(0, "printf knows %d, %s, %v, %x and %q"),
        };
        out.push_str(&if zero { format!("{text:0>width$}") } else { format!("{text:>width$}") });
        if out.len() > MOST_TEXT {
            return fault(0, "a text of more than 8 MiB");
        }
    }
    Ok(out)
}
