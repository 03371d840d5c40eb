//! Expressions compared with a 128-bit reference, and invalid texts.

use proptest::prelude::*;

use super::*;

fn evaluate(text: &str, slots: &[(&str, Value)]) -> Result<Value, String> {
    let names: Vec<String> = slots.iter().map(|(n, _)| (*n).to_owned()).collect();
    let values: Vec<Value> = slots.iter().map(|(_, v)| v.clone()).collect();
    match parse(text, &names) {
        Ok(expr) => expr.evaluate(&values),
        Err(Problem::Grammar(what)) => Err(what),
        Err(Problem::UnknownIndex(name)) => Err(format!("unknown {name}")),
    }
}

fn number(text: &str) -> i64 {
    match evaluate(text, &[("x", Value::Int(3)), ("y", Value::Int(0))]) {
        Ok(Value::Int(n)) => n,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn arithmetic_has_the_usual_order() {
    assert_eq!(number("1 + 2 * 3"), 7);
    assert_eq!(number("(1+2)*3"), 9);
    assert_eq!(number("10 - 4 - 3"), 3);
    assert_eq!(number("-x + 5"), 2);
    assert_eq!(number("2*-x"), -6);
    assert_eq!(number("7 / 2"), 3);
    assert_eq!(number("-7 / 2"), -4);
    assert_eq!(number("(y-1)%10"), 9);
    assert_eq!(number("7 % -5"), -3);
    assert_eq!(number("(-9223372036854775807 - 1) % -1"), 0);
    assert_eq!(number("-5747325931738510381 % 4611686018427387905"), 3476046105116265429);
}

#[test]
fn comparisons_and_logic() {
    for (text, truth) in [
        ("x > y and not x == 4", true),
        ("not x > y or y == 0", true),
        ("x <= 3 and x >= 3 and x != 2", true),
        ("true and false", false),
        ("(x > 1) + (y > 1) == 1", true),
        ("k == 'edge'", true),
        ("k != \"core\"", true),
        ("k == 3", false),
    ] {
        let slots = [("x", Value::Int(3)), ("y", Value::Int(0)), ("k", Value::Text("edge".into()))];
        assert_eq!(evaluate(text, &slots), Ok(Value::Bool(truth)), "{text}");
    }
}

#[test]
fn what_has_no_value_is_an_error() {
    for (text, expected) in [
        ("", "expected a value, found the end"),
        ("x +", "expected a value, found the end"),
        ("x y", "expected an operator or the end, found \"y\""),
        ("(x", "expected `)`, found the end"),
        ("z", "unknown z"),
        ("x / y", "3 / 0 has no value"),
        ("x % y", "3 % 0 has no value"),
        ("9223372036854775807 + 1", "leaves 64 bits"),
        ("(-9223372036854775807 - 1) / -1", "leaves 64 bits"),
        ("99999999999999999999", "leaves 64 bits"),
        ("x & y", "\"&\" has no meaning here"),
        ("k + 1", "`+` does not work on text"),
        ("not k", "\"edge\" is not a number"),
        ("'open", "without its closing"),
        ("1 < 2 < 3", "expected an operator or the end, found `<`"),
    ] {
        let slots = [("x", Value::Int(3)), ("y", Value::Int(0)), ("k", Value::Text("edge".into()))];
        let found = evaluate(text, &slots).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn long_and_deep_expressions_are_refused() {
    assert!(evaluate(&"(".repeat(33), &[]).unwrap_err().contains("nested"));
    assert!(evaluate(&"-".repeat(40), &[]).unwrap_err().contains("nested"));
    assert!(evaluate(&"not ".repeat(40), &[]).unwrap_err().contains("nested"));
    assert!(evaluate(&"1+".repeat(200), &[]).unwrap_err().contains("more than 256"));
}

/// An expression as text with every operation in parentheses, and its value in 128 bits; `None`
/// if an operation has no value or overflows 64 bits.
#[derive(Clone, Debug)]
struct Sample {
    text: String,
    value: Option<i128>,
}

fn combine(operator: usize, a: &Sample, b: &Sample) -> Sample {
    const SYMBOLS: [&str; 6] = ["+", "-", "*", "/", "%", "<"];
    let text = format!("({} {} {})", a.text, SYMBOLS[operator], b.text);
    let value = a.value.zip(b.value).and_then(|(x, y)| match operator {
        0 => Some(x + y),
        1 => Some(x - y),
        2 => Some(x * y),
        3 if y != 0 => Some(floor(x, y)),
        4 if y != 0 => Some(x - floor(x, y) * y),
        5 => Some(i128::from(x < y)),
        _ => None,
    });
    Sample { text, value: value.filter(|v| i64::try_from(*v).is_ok()) }
}

/// Floor of x/y by definition: the largest q with q*y <= x for y > 0, >= x for y < 0.
fn floor(x: i128, y: i128) -> i128 {
    let near = x / y;
    (near - 2..=near + 1).rev().find(|q| if y > 0 { q * y <= x } else { q * y >= x }).unwrap()
}

fn samples() -> impl Strategy<Value = Sample> {
    let small = any::<i32>().prop_map(i64::from);
    let leaf = prop_oneof![0..12_i64, -12..0_i64, small, any::<i64>()].prop_map(|n| {
        let text = if n < 0 { format!("(-{})", n.unsigned_abs()) } else { n.to_string() };
        // The smallest number has no positive counterpart, so it cannot be written.
        Sample { text, value: (n != i64::MIN).then_some(i128::from(n)) }
    });
    leaf.prop_recursive(4, 24, 2, |inner| {
        (0..6_usize, inner.clone(), inner).prop_map(|(operator, a, b)| combine(operator, &a, &b))
    })
}

proptest! {
    #[test]
    fn values_equal_the_reference(sample in samples()) {
        let found = evaluate(&sample.text, &[]).and_then(|v| v.int()).ok().map(i128::from);
        prop_assert_eq!(found, sample.value, "{}", sample.text);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-+*/%<>=!().0-9xy'\" andortf]{0,40}") {
        let _ = evaluate(&text, &[("x", Value::Int(i64::MIN)), ("y", Value::Int(-1))]);
        let _ = parse_bounds(&text, &["x".into(), "y".into()]);
    }
}
