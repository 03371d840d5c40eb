//! Works through a template, in bounded steps and to a bounded length.

use crate::clab::template::{Attempt, Base, Fault, Piece, Pipe, Template, Term, Value, fault};
use crate::clab::template_functions::{MOST_ITEMS, MOST_TEXT, function};
use crate::clab::template_parse::parse;
use crate::{Result, wrong};

/// How many pieces and commands are worked through.
const MOST_STEPS: u32 = 1_000_000;

/// How deep templates may call others.
const DEEPEST: u32 = 64;

/// The text that a template makes of variables.
pub(super) fn render(file: &str, text: &str, vars: Value) -> Result<String> {
    let fail = |fault: Fault| wrong(file, fault.line, fault.message);
    let template = parse(text).map_err(fail)?;
    run(&template, vars).map_err(fail)
}

/// The text of a template.
fn run(template: &Template, vars: Value) -> Attempt<String> {
    let scope = vec![(String::new(), vars.clone())];
    let mut runner = Runner { template, out: String::new(), scope, steps: 0, depth: 0, line: 1 };
    runner.body(&template.body, &vars)?;
    Ok(runner.out)
}

/// How a body ended.
#[derive(PartialEq)]
enum Flow {
    On,
    Break,
    Continue,
}

struct Runner<'a> {
    template: &'a Template,
    out: String,
    /// Variables, the innermost last; `$` itself has no name.
    scope: Vec<(String, Value)>,
    steps: u32,
    depth: u32,
    line: u32,
}

impl Runner<'_> {
    fn step(&mut self) -> Attempt<()> {
        self.steps += 1;
        match self.steps > MOST_STEPS || self.out.len() > MOST_TEXT {
            true => fault(
                self.line,
                format!(
                    "the template does not end: more than {MOST_STEPS} steps, or 8 MiB of text"
                ),
            ),
            false => Ok(()),
        }
    }

    /// Counts the copy of a value by its size.
    fn charge(&mut self, value: &Value) -> Attempt<()> {
        let size = weight(value);
        if size > MOST_TEXT {
            return fault(self.line, "a value of more than 8 MiB");
        }
        // Copies cost time and memory: a loop over a long list must not hide behind few steps.
        self.steps = self.steps.saturating_add(u32::try_from(size / 64).unwrap_or(u32::MAX));
        self.step()
    }

    /// A body with variables of its own.
    fn body(&mut self, pieces: &[Piece], dot: &Value) -> Attempt<Flow> {
        let outer = self.scope.len();
        let mut flow = Flow::On;
        for piece in pieces {
            flow = self.piece(piece, dot)?;
            if flow != Flow::On {
                break;
            }
        }
        self.scope.truncate(outer);
        Ok(flow)
    }

    fn piece(&mut self, piece: &Piece, dot: &Value) -> Attempt<Flow> {
        self.step()?;
        match piece {
            Piece::Text(text) => self.out.push_str(text),
            Piece::Show(pipe) => {
                let value = self.pipe(pipe, dot)?;
                if pipe.names.is_empty() {
                    self.out.push_str(&value.to_string());
                } else {
                    self.bind(pipe, vec![value])?;
                }
            }
            Piece::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.condition(condition, dot)?.is_true() {
                        return self.body(body, dot);
                    }
                }
                return self.body(otherwise, dot);
            }
            Piece::With { what, body, otherwise } => {
                let value = self.condition(what, dot)?;
                return match value.is_true() {
                    true => self.body(body, &value),
                    false => self.body(otherwise, dot),
                };
            }
            Piece::Range { what, body, otherwise } => {
                return self.range(what, body, otherwise, dot);
            }
            Piece::Call { name, with, line } => self.call(name, with.as_ref(), *line, dot)?,
            Piece::Break => return Ok(Flow::Break),
            Piece::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    /// A pipe whose variables, if any, live on in the body.
    fn condition(&mut self, pipe: &Pipe, dot: &Value) -> Attempt<Value> {
        let value = self.pipe(pipe, dot)?;
        if !pipe.names.is_empty() {
            self.bind(pipe, vec![value.clone()])?;
        }
        Ok(value)
    }

    fn bind(&mut self, pipe: &Pipe, values: Vec<Value>) -> Attempt<()> {
        for (name, value) in pipe.names.iter().zip(values) {
            if pipe.declares {
                self.scope.push((name.clone(), value));
                continue;
            }
            match self.scope.iter_mut().rev().find(|(known, _)| known == name) {
                Some((_, old)) => *old = value,
                None => return fault(pipe.line, format!("variable ${name} is not declared")),
            }
        }
        Ok(())
    }

    fn range(
        &mut self,
        what: &Pipe,
        body: &[Piece],
        otherwise: &[Piece],
        dot: &Value,
    ) -> Attempt<Flow> {
        let value = self.pipe(what, dot)?;
        let items: Vec<(Value, Value)> = match value {
            Value::List(items) => {
                let number = |n: usize| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
                items.into_iter().enumerate().map(|(n, v)| (number(n), v)).collect()
            }
            // Sorted by key, as Go ranges over maps.
            Value::Map(map) => map.into_iter().map(|(k, v)| (Value::Text(k), v)).collect(),
            Value::Int(n) if n > MOST_ITEMS => return self.too_long(),
            Value::Int(n) => (0..n).map(|n| (Value::Int(n), Value::Int(n))).collect(),
            Value::Nothing => vec![],
            other => return fault(what.line, format!("cannot range over {other}")),
        };
        if items.is_empty() {
            return self.body(otherwise, dot);
        }
        for (key, item) in items {
            let outer = self.scope.len();
            self.step()?;
            match what.names.len() {
                0 => {}
                1 => self.bind(what, vec![item.clone()])?,
                _ => self.bind(what, vec![key, item.clone()])?,
            }
            let flow = self.body(body, &item)?;
            self.scope.truncate(outer);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::On)
    }

    fn too_long<T>(&self) -> Attempt<T> {
        fault(self.line, format!("a list of more than {MOST_ITEMS} items"))
    }

    fn call(&mut self, name: &str, with: Option<&Pipe>, line: u32, dot: &Value) -> Attempt<()> {
        let template = self.template;
        let Some(body) = template.named.get(name) else {
            return fault(line, format!("no template {name:?} is defined"));
        };
        let value = match with {
            Some(pipe) => self.pipe(pipe, dot)?,
            None => Value::Nothing,
        };
        self.depth += 1;
        if self.depth > DEEPEST {
            return fault(line, format!("templates call each other more than {DEEPEST} deep"));
        }
        // A template that is called sees no variable but `$`, which is what it was given.
        let scope = std::mem::replace(&mut self.scope, vec![(String::new(), value.clone())]);
        self.body(body, &value)?;
        self.scope = scope;
        self.depth -= 1;
        Ok(())
    }

    fn pipe(&mut self, pipe: &Pipe, dot: &Value) -> Attempt<Value> {
        self.line = pipe.line;
        let mut last: Option<Value> = None;
        for command in &pipe.commands {
            self.step()?;
            last = Some(self.command(command, last, dot)?);
        }
        Ok(last.unwrap_or(Value::Nothing))
    }

    fn command(&mut self, words: &[Term], last: Option<Value>, dot: &Value) -> Attempt<Value> {
        let Some((first, rest)) = words.split_first() else { return Ok(Value::Nothing) };
        if let Base::Function(name) = &first.base {
            let mut given = vec![];
            for word in rest {
                given.push(self.term(word, dot)?);
            }
            given.extend(last);
            let value = function(name, given).map_err(|mut fault| {
                fault.line = self.line;
                fault
            })?;
            self.charge(&value)?;
            return Ok(value);
        }
        if !rest.is_empty() || last.is_some() {
            return fault(self.line, "only functions have arguments");
        }
        self.term(first, dot)
    }

    fn term(&mut self, term: &Term, dot: &Value) -> Attempt<Value> {
        let mut value = match &term.base {
            Base::Dot => dot.clone(),
            Base::Value(value) => value.clone(),
            Base::Variable(name) => {
                match self.scope.iter().rev().find(|(known, _)| known == name) {
                    Some((_, value)) => value.clone(),
                    None => return fault(self.line, format!("variable ${name} is not declared")),
                }
            }
            Base::Pipe(pipe) => self.pipe(pipe, dot)?,
            Base::Function(_) => self.command(std::slice::from_ref(term), None, dot)?,
        };
        self.charge(&value)?;
        for field in &term.fields {
            value = match value {
                Value::Map(mut map) => map.remove(field).unwrap_or(Value::Nothing),
                Value::Nothing => Value::Nothing,
                _ => return fault(self.line, format!("no field {field:?} in {value}")),
            };
        }
        Ok(value)
    }
}

fn weight(value: &Value) -> usize {
    let inner = match value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(weight).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        _ => 0,
    };
    inner + 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(text: &str) -> Value {
        let mut report = netloom_config::Report::new("vars");
        Value::from(&netloom_config::load(text.as_bytes(), &mut report).unwrap())
    }

    fn rendered(text: &str) -> std::result::Result<String, String> {
        let vars = vars("n: 3\nname: x\nlist: [a, b]\nmap: {k: {v: 7}}\n");
        render("t", text, vars).map_err(|e| e.to_string())
    }

    #[test]
    fn what_topologies_use() {
        for (text, want) in [
            ("a {{ .name }}{{/* c */}} b", "a x b"),
            ("a {{- .n -}}  b", "a3b"),
            ("{{ range $i, $x := .list }}{{ $i }}{{ $x }};{{ end }}", "0a;1b;"),
            ("{{ range $i := seq 1 .n }}{{ $i }}{{ end }}", "123"),
            ("{{ range until 3 }}{{ . }}{{ end }}", "012"),
            ("{{ range .none }}x{{ else }}y{{ end }}", "y"),
            ("{{ if eq .n 3 }}a{{ else if .name }}b{{ else }}c{{ end }}", "a"),
            ("{{ if and (gt .n 1) (not .none) }}y{{ end }}", "y"),
            ("{{ with .map.k }}{{ .v }}{{ $.n }}{{ end }}", "73"),
            ("{{ $a := 1 }}{{ $a = add $a 2 }}{{ $a }}", "3"),
            ("{{ printf \"r%02d-%s\" .n .name | print }}", "r03-x"),
            ("{{ index .list 1 }}{{ index .map \"k\" \"v\" }}{{ len .list }}", "b72"),
            ("{{ define \"l\" }}<{{ . }}>{{ end }}{{ template \"l\" .n }}", "<3>"),
            ("{{ math.Mul 2 (math.Sub 5 1) }} {{ mod 7 3 }}", "8 1"),
            ("{{ range .list }}{{ if eq . \"b\" }}{{ break }}{{ end }}{{ . }}{{ end }}", "a"),
            ("{{ .none | default \"d\" }}{{ `raw\"` }}", "draw\""),
        ] {
            assert_eq!(rendered(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_never_ends_is_refused() {
        for text in [
            "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}",
            "{{ range seq 60000 }}{{ range seq 60000 }}{{ range seq 60000 }}x{{ end }}{{ end }}{{ end }}",
            "{{ seq 1 100000000000 }}",
            "{{ define \"a\" }}{{ template \"a\" }}{{ template \"a\" }}{{ end }}\n{{ template \"a\" }}",
        ] {
            let error = rendered(text).unwrap_err();
            assert!(error.contains("t:1: ") || error.contains("t:2: "), "{error}");
        }
    }

    #[test]
    fn errors_have_a_line() {
        for (text, want) in [
            ("\n{{ nonsense 1 }}", "t:2: error: function \"nonsense\" is not known"),
            ("\n\n{{ if .x }}", "t:3: error: no {{ end }} for this {{ if }}"),
            ("{{ end }}", "t:1: error: {{ end }} without a beginning"),
            ("{{ .x", "t:1: error: {{ is not closed"),
            ("{{ template \"no\" }}", "t:1: error: no template \"no\" is defined"),
            ("{{ div 1 0 }}", "t:1: error: division by zero"),
            ("{{ \"abc }}", "t:1: error: a quote is not closed"),
        ] {
            assert_eq!(rendered(text).unwrap_err(), want, "{text}");
        }
    }
}
