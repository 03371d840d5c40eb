//! Unrolls `for` and `if`: an entry of the file becomes one for each combination of its indices.
//!
//! Indices run from the outermost, which depends on no other, to the innermost; independent ones
//! in written order. Entries without `for` pass unchanged.
//!
//! Nodes inside a node are in the scope of its indices: both these and their own are filled in.

use std::sync::Arc;

use netloom_config::{Entry, Kind, Node, Place, Repetition, Report, quote};

use super::expr::{self, Bounds, Expr, RESERVED, Value};
use super::template::{Failure, Template, Text, report_problem};
use super::work::{Exhausted, Work};

/// Maximum indices of a `for`.
const MAX_INDICES: usize = 16;

/// The parser's context.
pub(crate) struct Context {
    pub report: Report,
    pub work: Work,
    /// Entries with `for` so far, to distinguish them.
    pub entries: usize,
    /// Repetitions of all of them so far.
    pub rounds: usize,
}

/// The indices of the enclosing entries, with their current values.
#[derive(Clone, Default)]
pub(crate) struct Scope<'s> {
    names: &'s [String],
    values: &'s [Value],
    pub repetition: Option<Arc<Repetition>>,
}

/// One entry to read: its name with place, its body, and its repetition.
pub(crate) struct Round<'n> {
    pub name: &'n str,
    pub place: Place,
    pub body: &'n Node,
    /// The body as written.
    pub raw: &'n Node,
    /// The scope for entries inside it.
    pub scope: Scope<'n>,
}

/// Reading the file cannot continue: too much work, or too many objects. The report says why.
pub(crate) struct Stop;

/// Calls `each` for the entry, or for each of its repetitions if it has a `for`.
pub(crate) fn unroll(
    name: &str,
    place: Place,
    body: &Node,
    scope: &Scope<'_>,
    context: &mut Context,
    each: &mut dyn FnMut(Round<'_>, &mut Context) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let spec = body.get("for");
    if let (None, Some(condition)) = (spec, body.get("if")) {
        context.report.error(condition.place, "`if` works only beside `for`");
    }
    if scope.names.is_empty() {
        if spec.is_none() {
            return each(Round { name, place, body, raw: body, scope: Scope::default() }, context);
        }
        context.entries += 1;
    } else if context.work.spend(body.weight()).is_err() {
        // The content of a repeated entry is read again in each repetition.
        return Err(too_much(place, context));
    }
    let compiled = Compiled::new(name, place, body, scope, &mut context.report);
    let Some(compiled) = compiled else { return Ok(()) };
    let mut slots = scope.values.to_vec();
    // Indices of this entry follow; they are set before anything reads them.
    slots.resize(compiled.names.len(), Value::Int(0));
    let mut run = Run { compiled: &compiled, slots, scope, raw: body, context, each };
    let result = run.level(0);
    // Messages after this entry belong to the one around it.
    run.context.report.set_repetition(scope.repetition.clone());
    result
}

fn too_much(place: Place, context: &mut Context) -> Stop {
    context.report.set_repetition(None);
    let message = "this `for` makes more than one file may ask for";
    let help = "use smaller ranges, or bounds like j: i+1..9 in the place of an `if`";
    context.report.error_with(place, message, Some(help.into()));
    Stop
}

/// The values of an index.
enum Source {
    Bounds(Bounds),
    List(Vec<Value>),
}

struct Index {
    place: Place,
    source: Source,
}

struct Compiled {
    entry_place: Place,
    /// The scope's indices, then its own.
    names: Vec<String>,
    /// How many belong to the scope.
    base: usize,
    /// Its own indices.
    indices: Vec<Index>,
    /// Its own indices from the outermost to the innermost.
    order: Vec<usize>,
    condition: Option<(Place, Expr)>,
    name: Text,
    name_place: Place,
    body: Template,
}

impl Compiled {
    fn new(
        name: &str,
        place: Place,
        body: &Node,
        scope: &Scope<'_>,
        report: &mut Report,
    ) -> Option<Compiled> {
        let spec = body.get("for");
        let entries = spec.map_or(Some([].as_slice()), |spec| entries(spec, report))?;
        let mut names = scope.names.to_vec();
        let base = names.len();
        names.extend(index_names(entries, scope.names, report)?);
        // All parts are read, and only then is given up: one run shows every error.
        let indices: Vec<_> = entries.iter().map(|e| index(e, &names, report)).collect();
        // Without `for` the error is already reported.
        let condition = body.get("if").filter(|_| spec.is_some());
        let condition = condition.map(|node| (node.place, condition_of(node, &names, report)));
        let name = Text::compile(name, &names, place, report);
        let template = Template::compile_body(body, &names, report);
        let indices = indices.into_iter().collect::<Option<Vec<_>>>()?;
        let entry_place = spec.map_or(place, |spec| spec.place);
        let order = order(&indices, base, &names, entry_place, report)?;
        let condition = match condition {
            Some((place, expr)) => Some((place, expr?)),
            None => None,
        };
        let (name, body) = (name?, template?);
        let name_place = place;
        let compiled = Compiled {
            entry_place,
            names,
            base,
            indices,
            order,
            condition,
            name,
            name_place,
            body,
        };
        Some(compiled)
    }
}

/// The entries of a `for`.
fn entries<'n>(spec: &'n Node, report: &mut Report) -> Option<&'n [Entry]> {
    let entries = spec.entries().filter(|entries| !entries.is_empty());
    if entries.is_none() {
        let help = "write for: {x: 0..9}".to_owned();
        let message = format!("for: expected a map of indices, found {}", spec.describe());
        report.error_with(spec.place, message, Some(help));
    }
    entries
}

fn index_names(entries: &[Entry], around: &[String], report: &mut Report) -> Option<Vec<String>> {
    if entries.len() > MAX_INDICES {
        report.error(entries[MAX_INDICES].place, format!("for: more than {MAX_INDICES} indices"));
        return None;
    }
    let mut good = true;
    for entry in entries {
        let key = entry.key.as_str();
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(letters);
        if !is_name || RESERVED.contains(&key) {
            report.error(entry.place, format!("for: {} cannot name an index", quote(key)));
            good = false;
        }
        if around.iter().any(|name| name == key) {
            let problem = "is an index of the `for` around this one";
            report.error(entry.place, format!("for: {} {problem}", quote(key)));
            good = false;
        }
    }
    good.then(|| entries.iter().map(|e| e.key.clone()).collect())
}

fn index(entry: &Entry, names: &[String], report: &mut Report) -> Option<Index> {
    let node = &entry.value;
    let source = match &node.kind {
        Kind::Int(n) if *n >= 0 => Source::Bounds(Bounds::Count(Expr::Value(Value::Int(*n)))),
        Kind::Str => match expr::parse_bounds(&node.text, names) {
            Ok(bounds) => Source::Bounds(bounds),
            Err(problem) => {
                report_problem(problem, &node.text, names, node.place, report);
                return None;
            }
        },
        Kind::Seq(items) if items.iter().all(|i| list_value(i).is_some()) => {
            Source::List(items.iter().filter_map(list_value).collect())
        }
        _ => {
            let message = format!(
                "for.{}: expected a range like 0..9, a count, or a list of texts, found {}",
                entry.key,
                node.describe()
            );
            report.error(node.place, message);
            return None;
        }
    };
    check_constant(&source, entry, report)?;
    Some(Index { place: node.place, source })
}

/// A range that is always empty is a mistake.
fn check_constant(source: &Source, entry: &Entry, report: &mut Report) -> Option<()> {
    if let Source::Bounds(Bounds::Range(Expr::Value(Value::Int(a)), Expr::Value(Value::Int(b)))) =
        source
        && a > b
    {
        let message = format!("for.{}: the range {a}..{b} is empty; ranges go upwards", entry.key);
        report.error_with(entry.value.place, message, Some(format!("did you mean \"{b}..{a}\"?")));
        return None;
    }
    Some(())
}

fn list_value(node: &Node) -> Option<Value> {
    match &node.kind {
        Kind::Int(n) => Some(Value::Int(*n)),
        Kind::Str | Kind::Bool(_) | Kind::Float(_) => Some(Value::Text(node.text.as_str().into())),
        Kind::Null | Kind::Seq(_) | Kind::Map(_) => None,
    }
}

fn condition_of(node: &Node, names: &[String], report: &mut Report) -> Option<Expr> {
    if matches!(node.kind, Kind::Null | Kind::Seq(_) | Kind::Map(_)) {
        report.error(
            node.place,
            format!("if: expected an expression like \"x < y\", found {}", node.describe()),
        );
        return None;
    }
    match expr::parse(&node.text, names) {
        Ok(expr) => Some(expr),
        Err(problem) => {
            report_problem(problem, &node.text, names, node.place, report);
            None
        }
    }
}

/// Which of the entry's own indices the bounds of an index name.
fn needs(index: &Index, base: usize) -> Vec<usize> {
    let mut slots = Vec::new();
    match &index.source {
        Source::Bounds(Bounds::Range(a, b)) => {
            a.slots(&mut |s| slots.push(s));
            b.slots(&mut |s| slots.push(s));
        }
        Source::Bounds(Bounds::Count(n)) => n.slots(&mut |s| slots.push(s)),
        Source::List(_) => {}
    }
    slots.into_iter().filter_map(|slot: usize| slot.checked_sub(base)).collect()
}

fn order(
    indices: &[Index],
    base: usize,
    names: &[String],
    place: Place,
    report: &mut Report,
) -> Option<Vec<usize>> {
    let needs: Vec<Vec<usize>> = indices.iter().map(|index| needs(index, base)).collect();
    let mut order: Vec<usize> = Vec::new();
    while order.len() < indices.len() {
        // The first that is ready, each time: independent ones stay in written order.
        let ready = |s: &usize| !order.contains(s) && needs[*s].iter().all(|n| order.contains(n));
        match (0..indices.len()).find(ready) {
            Some(slot) => order.push(slot),
            None => {
                let cycle = cycle(&needs, &order, &names[base..]);
                report.error(
                    place,
                    format!("for: the indices depend on each other in a circle: {cycle}"),
                );
                return None;
            }
        }
    }
    Some(order)
}

/// A cycle among the slots that are not in `done`, as `i -> j -> i`.
fn cycle(needs: &[Vec<usize>], done: &[usize], names: &[String]) -> String {
    let open = |s: &usize| !done.contains(s);
    // Whatever is not ordered needs something else that is not: the walk must meet itself.
    let mut walk: Vec<usize> = (0..needs.len()).filter(open).take(1).collect();
    while let Some(&last) = walk.last() {
        let Some(next) = needs[last].iter().copied().find(open) else { break };
        if let Some(start) = walk.iter().position(|s| *s == next) {
            walk.drain(..start);
            walk.push(next);
            break;
        }
        walk.push(next);
    }
    walk.iter().map(|s| names[*s].as_str()).collect::<Vec<_>>().join(" -> ")
}

struct Run<'r> {
    compiled: &'r Compiled,
    slots: Vec<Value>,
    scope: &'r Scope<'r>,
    raw: &'r Node,
    context: &'r mut Context,
    each: &'r mut dyn FnMut(Round<'_>, &mut Context) -> Result<(), Stop>,
}

impl Run<'_> {
    /// Runs the index of this level and all inner ones.
    fn level(&mut self, level: usize) -> Result<(), Stop> {
        let compiled = self.compiled;
        let Some(&slot) = compiled.order.get(level) else { return self.round() };
        match &compiled.indices[slot].source {
            Source::List(values) => {
                for value in values {
                    self.step(level, slot, value.clone())?;
                }
                Ok(())
            }
            Source::Bounds(bounds) => {
                self.spend(Work::OPERATION * bounds.size())?;
                self.bounds(level, slot, bounds)
            }
        }
    }

    /// Runs an index over a range or count.
    fn bounds(&mut self, level: usize, slot: usize, bounds: &Bounds) -> Result<(), Stop> {
        let compiled = self.compiled;
        match self.range(bounds) {
            Ok((first, last)) => {
                let mut next = first;
                while next <= last {
                    self.step(level, slot, Value::Int(next))?;
                    next += 1;
                }
            }
            Err(why) => {
                let known = compiled.order[..level].to_vec();
                self.error(compiled.indices[slot].place, &known, why);
            }
        }
        Ok(())
    }

    fn spend(&mut self, units: usize) -> Result<(), Stop> {
        let spent = self.context.work.spend(units);
        spent.map_err(|exhausted| self.exhausted(exhausted))
    }

    fn step(&mut self, level: usize, slot: usize, value: Value) -> Result<(), Stop> {
        // Before the body, also for combinations that `if` drops: they cost time, too.
        self.spend(Work::COMBINATION)?;
        self.slots[self.compiled.base + slot] = value;
        self.level(level + 1)
    }

    /// First and last value; the last is below `i64::MAX`, so that counting past it is safe.
    fn range(&self, bounds: &Bounds) -> Result<(i64, i64), String> {
        let (first, last) = match bounds {
            Bounds::Range(a, b) => {
                (a.evaluate(&self.slots)?.int()?, b.evaluate(&self.slots)?.int()?)
            }
            Bounds::Count(n) => match n.evaluate(&self.slots)?.int()? {
                count if count >= 0 => (0, count - 1),
                count => return Err(format!("a count of {count}")),
            },
        };
        match last {
            i64::MAX => Err(format!("a range to {last}")),
            _ => Ok((first, last)),
        }
    }

    /// All indices are set: makes one entry.
    fn round(&mut self) -> Result<(), Stop> {
        let compiled = self.compiled;
        if let Some((place, condition)) = &compiled.condition {
            self.spend(Work::OPERATION * condition.size())?;
            match condition.evaluate(&self.slots).and_then(|v| v.truth()) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(why) => {
                    // The other combinations may be right: their errors are told as well.
                    self.error(*place, &compiled.order, why);
                    return Ok(());
                }
            }
        }
        let repetition = self.repetition(&compiled.order);
        self.context.report.set_repetition(repetition.clone());
        let (name, body) = match self.fill() {
            Ok(filled) => filled,
            Err(Failure::NoValue(place, why)) => {
                self.context.report.error(place, why);
                return Ok(());
            }
            Err(Failure::Exhausted) => return Err(self.exhausted(Exhausted)),
        };
        let place = compiled.name_place;
        let scope = Scope { names: &compiled.names, values: &self.slots, repetition };
        let round = Round { name: &name, place, body: &body, raw: self.raw, scope };
        (self.each)(round, self.context)
    }

    fn fill(&mut self) -> Result<(String, Node), Failure> {
        let Context { report, work, .. } = &mut *self.context;
        let name = self.compiled.name.fill(&self.slots, self.compiled.name_place, work)?;
        Ok((name, self.compiled.body.fill(&self.slots, report, work)?))
    }

    /// This repetition, with the values of these indices in written order, outer ones first.
    fn repetition(&mut self, known: &[usize]) -> Option<Arc<Repetition>> {
        if known.is_empty() {
            return self.scope.repetition.clone();
        }
        self.context.rounds += 1;
        let mut known = known.to_vec();
        known.sort_unstable();
        let Compiled { names, base, .. } = self.compiled;
        let own = known.iter().map(|s| base + s);
        let own = own.map(|slot| format!("{}={}", names[slot], short(&self.slots[slot])));
        let around = self.scope.repetition.as_ref();
        let values: Vec<String> = around.map(|a| a.values.clone()).into_iter().chain(own).collect();
        let entry = around.map_or(self.context.entries, |a| a.entry);
        let values = values.join(", ");
        Some(Arc::new(Repetition { entry, round: self.context.rounds, values }))
    }

    fn error(&mut self, place: Place, known: &[usize], why: String) {
        let repetition = self.repetition(known);
        self.context.report.set_repetition(repetition);
        self.context.report.error(place, why);
    }

    fn exhausted(&mut self, Exhausted: Exhausted) -> Stop {
        too_much(self.compiled.entry_place, self.context)
    }
}

/// A value for a message, on one short line.
fn short(value: &Value) -> String {
    match value {
        Value::Text(text) if text.len() > 20 || text.contains(char::is_control) => quote(text),
        _ => value.to_string(),
    }
}
