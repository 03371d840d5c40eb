//! Expressions over the indices of a `for`: `(x+1)%10`, `i < j and i != 3`, `kind == 'edge'`.
//!
//! Values are 64-bit integers, text and truth values; a truth value counts as 1 or 0. From loosest
//! to tightest: `or`, `and`, `not`, one comparison, `+ -`, `* / %`, unary `-`. Division and
//! remainder round down (Knuth's floored division), so that `(x-1)%10` wraps around. Arithmetic overflow
//! of 64 bits is an error, never a wrong value. Length is bounded, which bounds the depth of parsing
//! and evaluation.

use std::fmt;
use std::rc::Rc;

/// Maximum tokens of an expression.
const MAX_TOKENS: usize = 256;
/// Maximum nesting of parentheses, `not` and `-`.
const MAX_DEPTH: usize = 32;

/// The value of an index or expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i64),
    Bool(bool),
    Text(Rc<str>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

impl Value {
    /// Whether `if` keeps the combination.
    pub(crate) fn truth(&self) -> Result<bool, String> {
        self.int().map(|n| n != 0)
    }

    /// As a number.
    pub(crate) fn int(&self) -> Result<i64, String> {
        match self {
            Value::Int(n) => Ok(*n),
            Value::Bool(b) => Ok(i64::from(*b)),
            Value::Text(text) => Err(format!("{} is not a number", netloom_config::quote(text))),
        }
    }
}

/// A parsed expression; indices are numbers of slots.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Value(Value),
    Index(usize),
    Not(Box<Expr>),
    Minus(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
}

/// The textual forms of an index in `for`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bounds {
    /// `a..b`, including both ends.
    Range(Expr, Expr),
    /// `n`: from 0 to n-1.
    Count(Expr),
}

impl Bounds {
    /// The size of its expressions.
    pub(crate) fn size(&self) -> usize {
        match self {
            Bounds::Range(a, b) => a.size() + b.size(),
            Bounds::Count(n) => n.size(),
        }
    }
}

/// Why an expression cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// A syntax error.
    Grammar(String),
    /// No index has this name.
    UnknownIndex(String),
}

/// Words that cannot name an index.
pub(crate) const RESERVED: &[&str] = &["and", "or", "not", "true", "false"];

/// Reads an expression over these indices.
pub(crate) fn parse(text: &str, indices: &[String]) -> Result<Expr, Problem> {
    let mut parser = Parser::new(text, indices)?;
    let expr = parser.expression()?;
    parser.end()?;
    Ok(expr)
}

/// Reads `a..b` or `n`.
pub(crate) fn parse_bounds(text: &str, indices: &[String]) -> Result<Bounds, Problem> {
    let mut parser = Parser::new(text, indices)?;
    let first = parser.expression()?;
    let bounds = match parser.take("..") {
        true => Bounds::Range(first, parser.expression()?),
        false => Bounds::Count(first),
    };
    parser.end()?;
    Ok(bounds)
}

impl Expr {
    /// Its value; every slot that it names must be set.
    pub(crate) fn evaluate(&self, slots: &[Value]) -> Result<Value, String> {
        match self {
            Expr::Value(value) => Ok(value.clone()),
            Expr::Index(slot) => Ok(slots[*slot].clone()),
            Expr::Not(inner) => Ok(Value::Bool(!inner.evaluate(slots)?.truth()?)),
            Expr::Minus(inner) => {
                let n = inner.evaluate(slots)?.int()?;
                n.checked_neg().map(Value::Int).ok_or_else(|| format!("-({n}) leaves 64 bits"))
            }
            Expr::Binary(Operator::And, a, b) => {
                Ok(Value::Bool(a.evaluate(slots)?.truth()? && b.evaluate(slots)?.truth()?))
            }
            Expr::Binary(Operator::Or, a, b) => {
                Ok(Value::Bool(a.evaluate(slots)?.truth()? || b.evaluate(slots)?.truth()?))
            }
            Expr::Binary(operator, a, b) => {
                operator.apply(&a.evaluate(slots)?, &b.evaluate(slots)?)
            }
        }
    }

    /// How many values and operations it has, which is what its evaluation costs.
    pub(crate) fn size(&self) -> usize {
        match self {
            Expr::Value(_) | Expr::Index(_) => 1,
            Expr::Not(inner) | Expr::Minus(inner) => 1 + inner.size(),
            Expr::Binary(_, a, b) => 1 + a.size() + b.size(),
        }
    }

    /// Calls `each` with every slot that it names.
    pub(crate) fn slots(&self, each: &mut impl FnMut(usize)) {
        match self {
            Expr::Value(_) => {}
            Expr::Index(slot) => each(*slot),
            Expr::Not(inner) | Expr::Minus(inner) => inner.slots(each),
            Expr::Binary(_, a, b) => {
                a.slots(each);
                b.slots(each);
            }
        }
    }
}

impl Operator {
    fn symbol(self) -> &'static str {
        use Operator as O;
        match self {
            O::Add => "+",
            O::Subtract => "-",
            O::Multiply => "*",
            O::Divide => "/",
            O::Remainder => "%",
            O::Equal => "==",
            O::NotEqual => "!=",
            O::Less => "<",
            O::LessEqual => "<=",
            O::Greater => ">",
            O::GreaterEqual => ">=",
            O::And => "and",
            O::Or => "or",
        }
    }

    fn apply(self, a: &Value, b: &Value) -> Result<Value, String> {
        if let (Value::Text(_), _) | (_, Value::Text(_)) = (a, b) {
            return self.apply_text(a, b);
        }
        let (x, y) = (a.int()?, b.int()?);
        let number = match self {
            Operator::Add => x.checked_add(y),
            Operator::Subtract => x.checked_sub(y),
            Operator::Multiply => x.checked_mul(y),
            Operator::Divide | Operator::Remainder if y == 0 => {
                return Err(format!("{x} {} 0 has no value", self.symbol()));
            }
            Operator::Divide => floor_divide(x, y),
            Operator::Remainder => Some(floor_remainder(x, y)),
            _ => return Ok(Value::Bool(self.holds(x.cmp(&y)))),
        };
        number.map(Value::Int).ok_or_else(|| format!("{x} {} {y} leaves 64 bits", self.symbol()))
    }

    fn apply_text(self, a: &Value, b: &Value) -> Result<Value, String> {
        // A list may have both numbers and text: `3` equals the text 3.
        let equal = a.to_string() == b.to_string();
        match self {
            Operator::Equal => Ok(Value::Bool(equal)),
            Operator::NotEqual => Ok(Value::Bool(!equal)),
            _ => Err(format!("`{}` does not work on text", self.symbol())),
        }
    }

    fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            _ => order.is_ge(),
        }
    }
}

/// Division rounding towards minus infinity; `y` is not 0.
fn floor_divide(x: i64, y: i64) -> Option<i64> {
    // None for the least number by -1, which has no positive counterpart.
    let quotient = x.checked_div(y)?;
    let rest = x % y;
    Some(if rest != 0 && (rest < 0) != (y < 0) { quotient - 1 } else { quotient })
}

/// The remainder of that division: it has the sign of `y`, which is not 0.
fn floor_remainder(x: i64, y: i64) -> i64 {
    // The same pair has the remainder 0, where plain `%` would end the program.
    let rest = x.wrapping_rem(y);
    if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Int(i64),
    Text(String),
    Name(String),
    Symbol(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Int(n) => write!(f, "{n}"),
            Token::Text(text) | Token::Name(text) => f.write_str(&netloom_config::quote(text)),
            Token::Symbol(symbol) => write!(f, "`{symbol}`"),
        }
    }
}

const SYMBOLS: &[&str] =
    &["..", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")"];

fn tokens(text: &str) -> Result<Vec<Token>, Problem> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        // Bounded here: the parser is recursive, and a file is anybody's.
        if found.len() >= MAX_TOKENS {
            return Err(Problem::Grammar(format!("more than {MAX_TOKENS} words and signs")));
        }
        let (token, length) = next_token(rest)?;
        found.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// The token at the start of a text, with its length in bytes.
fn next_token(text: &str) -> Result<(Token, usize), Problem> {
    let word = |is: fn(char) -> bool| text.find(|c| !is(c)).unwrap_or(text.len());
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let length = word(|c| c.is_ascii_digit());
        let number = text[..length].parse();
        return match number {
            Ok(n) => Ok((Token::Int(n), length)),
            Err(_) => Err(Problem::Grammar(format!("{} leaves 64 bits", &text[..length.min(30)]))),
        };
    }
    if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let length = word(|c| c.is_ascii_alphanumeric() || c == '_');
        return Ok((Token::Name(text[..length].to_owned()), length));
    }
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let inner = &text[1..];
        return match inner.find(quote) {
            Some(end) => Ok((Token::Text(inner[..end].to_owned()), end + 2)),
            None => Err(Problem::Grammar(format!("text without its closing {quote}"))),
        };
    }
    match SYMBOLS.iter().find(|s| text.starts_with(**s)) {
        Some(symbol) => Ok((Token::Symbol(symbol), symbol.len())),
        None => {
            let sign: String = text.chars().take(1).collect();
            Err(Problem::Grammar(format!("{} has no meaning here", netloom_config::quote(&sign))))
        }
    }
}

struct Parser<'i> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    indices: &'i [String],
    depth: usize,
}

impl<'i> Parser<'i> {
    fn new(text: &str, indices: &'i [String]) -> Result<Parser<'i>, Problem> {
        Ok(Parser { tokens: tokens(text)?.into_iter().peekable(), indices, depth: 0 })
    }

    /// Takes the next token when it is this symbol or word.
    fn take(&mut self, wanted: &str) -> bool {
        let is_next = match self.tokens.peek() {
            Some(Token::Symbol(symbol)) => *symbol == wanted,
            Some(Token::Name(name)) => name == wanted,
            _ => false,
        };
        if is_next {
            self.tokens.next();
        }
        is_next
    }

    fn unexpected(&mut self, wanted: &str) -> Problem {
        Problem::Grammar(match self.tokens.next() {
            Some(token) => format!("expected {wanted}, found {token}"),
            None => format!("expected {wanted}, found the end"),
        })
    }

    fn end(&mut self) -> Result<(), Problem> {
        match self.tokens.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("an operator or the end")),
        }
    }

    fn expression(&mut self) -> Result<Expr, Problem> {
        self.left_to_right(&[("or", Operator::Or)], |p| {
            p.left_to_right(&[("and", Operator::And)], Parser::negation)
        })
    }

    fn left_to_right(
        &mut self,
        operators: &[(&str, Operator)],
        operand: impl Fn(&mut Self) -> Result<Expr, Problem>,
    ) -> Result<Expr, Problem> {
        let mut left = operand(self)?;
        while let Some(&(_, operator)) = operators.iter().find(|(symbol, _)| self.take(symbol)) {
            left = Expr::Binary(operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Expr, Problem> {
        if !self.take("not") {
            return self.comparison();
        }
        self.deeper(|p| Ok(Expr::Not(Box::new(p.negation()?))))
    }

    fn comparison(&mut self) -> Result<Expr, Problem> {
        const COMPARISONS: &[(&str, Operator)] = &[
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessEqual),
            (">=", Operator::GreaterEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let left = self.sum()?;
        match COMPARISONS.iter().find(|(symbol, _)| self.take(symbol)) {
            Some(&(_, operator)) => {
                Ok(Expr::Binary(operator, Box::new(left), Box::new(self.sum()?)))
            }
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Expr, Problem> {
        self.left_to_right(&[("+", Operator::Add), ("-", Operator::Subtract)], |p| {
            let operators =
                [("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)];
            p.left_to_right(&operators, Parser::operand)
        })
    }

    fn operand(&mut self) -> Result<Expr, Problem> {
        if self.take("-") {
            return self.deeper(|p| Ok(Expr::Minus(Box::new(p.operand()?))));
        }
        if self.take("(") {
            let inner = self.deeper(Parser::expression)?;
            return if self.take(")") { Ok(inner) } else { Err(self.unexpected("`)`")) };
        }
        match self.tokens.peek() {
            Some(Token::Int(_) | Token::Text(_)) => {}
            // These words end an operand.
            Some(Token::Name(name)) if !matches!(name.as_str(), "and" | "or" | "not") => {}
            _ => return Err(self.unexpected("a value")),
        }
        match self.tokens.next() {
            Some(Token::Int(n)) => Ok(Expr::Value(Value::Int(n))),
            Some(Token::Text(text)) => Ok(Expr::Value(Value::Text(text.into()))),
            Some(Token::Name(name)) => self.name(name),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn name(&self, name: String) -> Result<Expr, Problem> {
        match name.as_str() {
            "true" => Ok(Expr::Value(Value::Bool(true))),
            "false" => Ok(Expr::Value(Value::Bool(false))),
            _ => match self.indices.iter().position(|i| *i == name) {
                Some(slot) => Ok(Expr::Index(slot)),
                None => Err(Problem::UnknownIndex(name)),
            },
        }
    }

    fn deeper(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Expr, Problem>,
    ) -> Result<Expr, Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Problem::Grammar(format!("nested more than {MAX_DEPTH} deep")));
        }
        let expr = inner(self)?;
        self.depth -= 1;
        Ok(expr)
    }
}

#[cfg(test)]
mod tests;
