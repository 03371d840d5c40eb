//! A list of faults: blocks of `key: value` lines, apart by empty lines; `#` begins a comment.
//!
//! | key | value |
//! |---|---|
//! | `fault` | its name; `invented` before it says that it is on no list |
//! | `domain` | what it is of |
//! | `needs` | a name of `tests/needs.txt` |
//! | `root` | `only`, if an ordinary user cannot plant it |
//! | `edit` | `OLD => NEW`: a change of the lab file |
//! | `plant` | a step, see [`Step`] |
//! | `ask` | the words after `netloom why` |
//! | `sound` | the same of a flow that does not suffer |
//! | `cause` | what is to be named: `NAME at PLACE`, or several with ` or ` between them; `nothing` where the flow arrives |
//! | `also` | what may be named as well, since it is true |

use anyhow::{Context, Result, bail};

/// A cause and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) cause: String,
    pub(super) place: String,
}

/// What is done to plant a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `NODE$ COMMAND`: by the node's shell, to its end.
    Run { node: String, command: String },
    /// `start NODE$ COMMAND`: not waited for, and ended with the lab.
    Start { node: String, command: String },
    /// `netloom WORDS`.
    Netloom(Vec<String>),
    /// `until NODE$ COMMAND => TEXT`: repeated until its output has the text.
    Until { node: String, command: String, text: String },
    /// `end NODE`: its init is killed.
    End(String),
}

/// A fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) lab: String,
    pub(super) domain: String,
    pub(super) invented: bool,
    pub(super) root_only: bool,
    pub(super) needs: Vec<String>,
    pub(super) edits: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
    pub(super) ask: Vec<String>,
    pub(super) sound: Vec<Vec<String>>,
    /// Empty where the flow arrives.
    pub(super) causes: Vec<Named>,
    pub(super) also: Vec<Named>,
}

pub(super) fn parse(lab: &str, text: &str) -> Result<Vec<Fault>> {
    let mut all: Vec<Fault> = Vec::new();
    let mut now: Option<Fault> = None;
    let lines = text.lines().chain(std::iter::once(""));
    for (at, line) in lines.enumerate().filter(|(_, line)| !line.starts_with('#')) {
        if line.trim().is_empty() {
            all.extend(now.take());
            continue;
        }
        let (key, value) =
            line.split_once(':').with_context(|| format!("line {}: no key", at + 1))?;
        let fault = now.get_or_insert_with(|| Fault { lab: lab.to_owned(), ..Fault::default() });
        put(fault, key.trim(), value.trim()).with_context(|| format!("line {}", at + 1))?;
    }
    for fault in &all {
        let whole = !fault.name.is_empty() && !fault.domain.is_empty() && !fault.ask.is_empty();
        if !whole {
            bail!("fault {:?} lacks its name, its domain or what to ask", fault.name);
        }
    }
    Ok(all)
}

fn put(fault: &mut Fault, key: &str, value: &str) -> Result<()> {
    match key {
        "fault" => value.clone_into(&mut fault.name),
        "invented" => {
            fault.invented = true;
            value.clone_into(&mut fault.name);
        }
        "domain" => value.clone_into(&mut fault.domain),
        "needs" => fault.needs.push(value.to_owned()),
        "root" if value == "only" => fault.root_only = true,
        "edit" => {
            let (old, new) = value.split_once(" => ").context("an edit is OLD => NEW")?;
            fault.edits.push((old.to_owned(), new.replace("\\n", "\n")));
        }
        "plant" => fault.steps.push(step(value)?),
        "ask" => fault.ask = words(value),
        "sound" => fault.sound.push(words(value)),
        "cause" if value == "nothing" => {}
        "cause" => fault.causes = named(value)?,
        "also" => fault.also.extend(named(value)?),
        other => bail!("no key `{other}`"),
    }
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn named(text: &str) -> Result<Vec<Named>> {
    let one = |text: &str| {
        let (cause, place) = text.split_once(" at ").context("a cause is NAME at PLACE")?;
        Ok(Named { cause: cause.trim().to_owned(), place: place.trim().to_owned() })
    };
    text.split(" or ").map(one).collect()
}

fn step(text: &str) -> Result<Step> {
    if let Some(rest) = text.strip_prefix("netloom ") {
        return Ok(Step::Netloom(words(rest)));
    }
    if let Some(node) = text.strip_prefix("end ") {
        return Ok(Step::End(node.trim().to_owned()));
    }
    let in_node = |text: &str| {
        let (node, command) = text.split_once("$ ").context("a command is NODE$ COMMAND")?;
        Ok::<_, anyhow::Error>((node.trim().to_owned(), command.trim().to_owned()))
    };
    if let Some(rest) = text.strip_prefix("start ") {
        let (node, command) = in_node(rest)?;
        return Ok(Step::Start { node, command });
    }
    if let Some(rest) = text.strip_prefix("until ") {
        let (command, wanted) = rest.rsplit_once(" => ").context("until COMMAND => TEXT")?;
        let (node, command) = in_node(command)?;
        return Ok(Step::Until { node, command, text: wanted.to_owned() });
    }
    let (node, command) = in_node(text)?;
    Ok(Step::Run { node, command })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_by_their_keys() {
        let text = "# a comment\nfault: one\ndomain: link\nplant: r1$ ip link\nplant: until r1$ cat x => up\n\
                    plant: end r2\nedit: s1: {} => s1: {kind: shm}\nask: h1 web icmp\nsound: h2 web icmp\n\
                    cause: no_route at node r1 or no_carrier at link a--b\n\ninvented: two\ndomain: x\nask: a b\ncause: nothing\n";
        let all = parse("office", text).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].name.as_str(), all[0].invented), ("one", false));
        let run = Step::Run { node: "r1".into(), command: "ip link".into() };
        let until = Step::Until { node: "r1".into(), command: "cat x".into(), text: "up".into() };
        assert_eq!(all[0].steps, [run, until, Step::End("r2".into())]);
        assert_eq!(all[0].edits, [("s1: {}".into(), "s1: {kind: shm}".into())]);
        assert_eq!(all[0].causes[1].place, "link a--b");
        assert!(all[1].invented && all[1].causes.is_empty());
    }

    #[test]
    fn what_is_no_fault_is_refused_with_its_line() {
        for (text, told) in [
            ("fault: one\nno key here", "line 2"),
            ("fault: one\nwhat: x", "`what`"),
            ("fault: one\ncause: no_route", "NAME at PLACE"),
            ("fault: one\ndomain: x", "lacks"),
        ] {
            let error = format!("{:#}", parse("office", text).unwrap_err());
            assert!(error.contains(told), "{error}");
        }
    }
}
