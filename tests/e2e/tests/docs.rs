//! The documents say what is there: their commands are run, their lab files are checked.
//!
//! In README.md and docs/guide/*.md a fence marked `console` is run: one shell a block, in order,
//! in one folder with `examples/` in it and one runtime directory, which is written as
//! `/run/netloom`. Lines after `$ ` are commands, the rest is what they print, on both streams. A
//! command must end with exit code 0 unless `$ echo $?` comes next. `…` stands for anything; numbers
//! that are whole words or follow `time=`, and their units, may differ; addresses may not, nor a number that is all that a
//! line has, nor how many packets a ping has sent and received, nor how many pairs answer: they are what the
//! example is about. A fence marked `yaml` is a whole lab file and valid; with `title=NAME` it is written into the
//! folder instead, as is one marked `python`.

use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use netloom_tests_e2e::{Machine, Run, machine, needs, root_only, workspace_root};
use serde_json::Value;

/// Stands for anything.
const ANYTHING: char = '…';

/// Printed after each command, before its exit code.
const MARK: &str = "@@ end of command, exit code ";

/// Where documents serve. On the machine itself somebody else may have that port, so there is another one instead.
const PORT: &str = "127.0.0.1:8474";

/// The other one.
fn own_port() -> &'static str {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| format!("127.0.0.1:{}", netloom_kit::free_port()))
}

/// A fenced block.
struct Block {
    line: usize,
    info: String,
    text: String,
}

/// A command and what the document says it prints.
#[derive(Debug, Default, PartialEq, Eq)]
struct Command {
    line: usize,
    text: String,
    shown: String,
}

#[test]
fn the_readme_runs() {
    let machine = machine!();
    run_document(&machine, "README.md", 5);
    machine.untouched();
}

#[test]
fn the_tour_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/tour.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_labs_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/labs.md", 10);
    machine.untouched();
}

#[test]
fn the_guide_to_the_lab_file_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/lab-file.md", 1);
    machine.untouched();
}

#[test]
fn the_guide_to_several_hosts_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/hosts.md", 3);
    machine.untouched();
}

#[test]
fn the_guide_to_tests_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/test.md", 2);
    machine.untouched();
}

#[test]
fn the_guide_for_those_who_come_from_elsewhere_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/coming-from.md", 10);
    machine.untouched();
}

#[test]
fn the_guide_to_labs_of_others_runs() {
    needs!("python3");
    let machine = machine!();
    run_document(&machine, "docs/guide/import.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_editors_and_fmt_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/editors.md", 4);
    machine.untouched();
}

#[test]
fn the_guide_to_examples_runs() {
    needs!("frr", "dnsmasq", "iperf3", "nft", "python3", "udhcpc");
    let machine = machine!();
    run_document(&machine, "docs/guide/examples.md", 10);
    machine.untouched();
}

#[test]
fn the_guide_to_python_runs() {
    needs!("pytest", "pytest-xdist", "curl", "python3");
    let machine = machine!();
    run_document(&machine, "docs/guide/python.md", 6);
    machine.untouched();
}

#[test]
fn the_guide_to_nodes_runs() {
    let machine = machine!();
    root_only!("limits and protection");
    run_document(&machine, "docs/guide/nodes.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_images_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/images.md", 2);
    machine.untouched();
}

#[test]
fn the_guide_to_wires_runs() {
    let machine = machine!();
    root_only!("limits and protection");
    run_document(&machine, "docs/guide/wires.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_what_does_not_arrive_runs() {
    needs!("python3", "ip", "nft");
    let machine = machine!();
    run_document(&machine, "docs/guide/why.md", 4);
    machine.untouched();
}

#[test]
fn the_guide_to_recordings_runs() {
    needs!("python3", "ip", "nft");
    let machine = machine!();
    run_document(&machine, "docs/guide/record.md", 12);
    machine.untouched();
}

#[test]
fn the_guide_to_walls_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/walls.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_switches_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/switch.md", 20);
    machine.untouched();
}

#[test]
fn the_guide_to_slices_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/slices.md", 9);
    machine.untouched();
}

#[test]
fn the_guide_to_openflow_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/openflow.md", 15);
    machine.untouched();
}

#[test]
fn the_guide_to_metrics_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/metrics.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_guarding_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/guard.md", 10);
    machine.untouched();
}

#[test]
fn the_guide_to_capturing_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/capture.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_generating_runs() {
    let machine = machine!();
    run_document(&machine, "docs/guide/generate.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_serving_runs() {
    let machine = machine!();
    root_only!("attaches BPF programs");
    run_document(&machine, "docs/guide/serve.md", 10);
    machine.untouched();
}

#[test]
fn the_guide_to_the_page_runs() {
    needs!("curl");
    let machine = machine!();
    run_document(&machine, "docs/guide/page.md", 12);
    machine.untouched();
}

#[test]
fn the_guide_to_measuring_runs() {
    let machine = machine!();
    root_only!("loads BPF programs");
    run_document(&machine, "docs/guide/measure.md", 5);
    machine.untouched();
}

#[test]
fn the_guide_to_the_lab_file_has_every_key() {
    let machine = Machine::new();
    let schema = machine.netloom(["schema"]).finish().code(0).json();
    let mut keys = vec![];
    collect_keys(&schema, &mut keys);
    assert!(keys.len() >= 30, "only {} keys in the schema", keys.len());
    let guide = read("docs/guide/lab-file.md") + &read("docs/guide/test.md");
    keys.retain(|(object, key)| !section_of(&guide, object).contains(&format!("`{key}`")));
    assert!(keys.is_empty(), "not in the guide, by section: {keys:?}");
}

/// The text under the heading about the keys of an object of the lab file.
fn section_of<'t>(guide: &'t str, object: &str) -> &'t str {
    let mut sections = guide.split("\n#");
    let about = |section: &&str| {
        let heading = section.lines().next().unwrap_or_default();
        heading.contains("Keys of") && heading.ends_with(&format!("`{object}`"))
    };
    sections.find(about).unwrap_or_default()
}

#[test]
fn links_to_documents_and_examples_lead_somewhere() {
    let mut dead = vec![];
    let guide = std::fs::read_dir(workspace_root().join("docs/guide")).expect("the guide");
    let pages =
        guide.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let pages = pages.filter(|name| name.ends_with(".md")).map(|name| format!("docs/guide/{name}"));
    let others = ["README.md", "CONTRIBUTING.md", "SPECIFICATION.md", "docs/ARCHITECTURE.md"];
    for document in others.map(str::to_owned).into_iter().chain(pages) {
        let text = read(&document);
        let folder = Path::new(&document).parent().expect("a document lies in a folder");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            let path = plain(&folder.join(target));
            let copied =
                ["docs", "examples", "python", "tests"].iter().any(|top| path.starts_with(top));
            if copied && !workspace_root().join(&path).exists() {
                dead.push(format!("{document}: {target}"));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

fn read(document: &str) -> String {
    let path = workspace_root().join(document);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a document's blocks in order; it must have at least this many commands.
fn run_document(machine: &Machine, document: &str, least: usize) {
    let folder = machine.scratch().path();
    for name in ["examples", "python"] {
        std::os::unix::fs::symlink(workspace_root().join(name), folder.join(name))
            .unwrap_or_else(|error| panic!("link {name}: {error}"));
    }
    let mut ran = 0;
    for block in blocks(&read(document)) {
        let place = format!("{document}:{}", block.line);
        match block.info.split_once(' ').unwrap_or((&block.info, "")) {
            ("console", _) => ran += run_block(machine, &place, &commands(&block)),
            ("yaml", options) => match options.strip_prefix("title=") {
                Some(name) => drop(machine.scratch().file(name, &block.text)),
                None => check_file(machine, &place, &block.text),
            },
            ("python", options) => {
                let name = options.strip_prefix("title=").expect("a program of Python has a name");
                machine.scratch().file(name, &block.text);
            }
            _ => {}
        }
    }
    assert!(ran >= least, "{document} has only {ran} commands");
}

fn check_file(machine: &Machine, place: &str, text: &str) {
    let file = machine.scratch().file("lab-of-a-document.yaml", text);
    let done = machine.netloom(["check".as_ref(), file.as_os_str()]).finish();
    assert!(done.status.success(), "{place}: not a valid lab file\n{done}");
}

/// Runs the commands of a block in one shell and compares; gives their number.
fn run_block(machine: &Machine, place: &str, commands: &[Command]) -> usize {
    let runtime = machine.scratch().runtime_dir();
    let mut script = String::from("exec 2>&1\n");
    for command in commands {
        let text = command.text.replace("/run/netloom", &runtime.to_string_lossy());
        let text = text.replace(PORT, own_port());
        script += &until_shown(command, &text);
        // The code of the last command stays what `$?` says.
        script += &format!("{text}\ncode=$?; printf '\\n{MARK}%s\\n' $code; (exit $code)\n");
    }
    let binary = netloom_kit::Binary::find();
    let bin = binary.path().parent().expect("the binary lies in a folder").to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Run::new("/bin/sh")
        .args(["-c", &script])
        .env("PATH", format!("{}:{path}:/usr/sbin:/sbin", bin.display()))
        .env("NETLOOM_RUNTIME_DIR", &runtime)
        // Recordings and images are the test's own.
        .env("NETLOOM_DATA_DIR", machine.scratch().path().join("data"))
        // Nothing is written beside the sources that `python` leads to.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .dir(machine.scratch().path())
        .bound(Duration::from_secs(300))
        .finish();
    let printed = done.text().replace(&*runtime.to_string_lossy(), "/run/netloom");
    let printed = printed.replace(own_port(), PORT);
    let pieces: Vec<&str> = printed.split(&format!("\n{MARK}")).collect();
    assert_eq!(pieces.len(), commands.len() + 1, "{place}: the shell ended early\n{done}");
    for (at, command) in commands.iter().enumerate() {
        let output = if at == 0 { pieces[0] } else { after_code(pieces[at]) };
        let code = pieces[at + 1].lines().next().unwrap_or_default();
        let asked = commands.get(at + 1).is_some_and(|next| next.text == "echo $?");
        let shown = format!("{place}, `{}`: exit code {code}, printed\n{output}", command.text);
        assert!(asked || code == "0", "{shown}");
        if let Err(line) = matches(&command.shown, output) {
            panic!("{shown}\nbut the document has the line\n{line}");
        }
    }
    commands.len()
}

/// How many pairs answer is a state that a lab comes to, on a busy machine later than it is up: a command that shows
/// it is run until it shows what the document does, and then once more for the comparison.
fn until_shown(command: &Command, text: &str) -> String {
    let shown = command.shown.lines().filter(|line| is_reach(line));
    let tests: Vec<String> =
        shown.map(|line| format!("printf '%s\\n' \"$said\" | grep -qxF '{line}'")).collect();
    if tests.is_empty() {
        return String::new();
    }
    format!("until said=$({text} 2>&1); {}; do sleep 0.1; done\n", tests.join(" && "))
}

/// Whether a line tells how many pairs of nodes answer.
fn is_reach(line: &str) -> bool {
    line.ends_with(" pairs answer")
}

/// What follows the line with the exit code of the command before.
fn after_code(piece: &str) -> &str {
    piece.split_once('\n').map_or("", |(_, rest)| rest)
}

/// Every fenced block of a document.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = vec![];
    let mut open: Option<Block> = None;
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let info = info.trim().to_owned();
                open = Some(Block { line: number + 1, info, text: String::new() });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

fn commands(block: &Block) -> Vec<Command> {
    let mut found: Vec<Command> = vec![];
    for (number, line) in block.text.lines().enumerate() {
        if let Some(text) = line.strip_prefix("$ ") {
            let line = block.line + 1 + number;
            found.push(Command { line, text: text.to_owned(), shown: String::new() });
        } else if let Some(last) = found.last_mut() {
            last.shown += &format!("{line}\n");
        }
    }
    found
}

/// Whether what is printed is what is shown; else the first line shown that is not there.
fn matches(shown: &str, printed: &str) -> Result<(), String> {
    let printed = without_lateness(printed);
    let mut printed = printed.lines().map(words).filter(|words| !words.is_empty());
    let mut skip = false;
    for line in shown.lines() {
        if line.trim() == "…" {
            skip = true;
            continue;
        }
        let wanted = words(line);
        if wanted.is_empty() {
            continue;
        }
        let found = if skip {
            printed.any(|have| same(&wanted, &have))
        } else {
            printed.next().is_some_and(|have| same(&wanted, &have))
        };
        if !found {
            return Err(line.to_owned());
        }
        skip = false;
    }
    match printed.next() {
        Some(more) if !skip => Err(format!("(nothing more), found {more:?}")),
        _ => Ok(()),
    }
}

/// What is printed, without lines that tell how late a busy machine was, which no example shows. Behind the last of a step
/// stands how long that took, which is of the line before.
fn without_lateness(printed: &str) -> String {
    let mut kept = String::new();
    for line in printed.lines() {
        if !tells_lateness(line) {
            kept += &format!("\n{line}");
        } else if let Some(at) = line.rfind(" (").filter(|_| line.ends_with(" s)")) {
            kept += &line[at..];
        }
    }
    kept
}

/// Whether a line is one of `status`, of a test's step, of a measurement or of `ping` that tells how late something was.
fn tells_lateness(line: &str) -> bool {
    let (line, mark) = (line.trim_start(), "measured while ");
    let line = line.strip_prefix("netloom: warning: ").unwrap_or(line);
    line.starts_with("behind: ")
        || line.starts_with(mark)
        || line.starts_with("the machine did not keep up")
        || (line.starts_with("note: ") && line.contains(mark))
}

/// The words of a line; numbers become `#`, as does what stands for a missing one; units go.
fn words(line: &str) -> Vec<String> {
    let number =
        |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && word.parse::<f64>().is_ok();
    if matters(line) {
        return line.split_whitespace().map(str::to_owned).collect();
    }
    let plain = line.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', ';']));
    plain
        .filter(|word| !matches!(*word, "" | "s" | "ms" | "B" | "KiB" | "MiB" | "GiB"))
        .map(|word| match word.strip_prefix("time=") {
            Some(time) if number(time) => "time=#".to_owned(),
            _ if number(word) || word == "-" => "#".to_owned(),
            _ => word.to_owned(),
        })
        .collect()
}

/// Whether the numbers of a line are compared, too.
fn matters(line: &str) -> bool {
    line.trim().parse::<u64>().is_ok() || line.contains(" packets transmitted, ") || is_reach(line)
}

fn same(wanted: &[String], have: &[String]) -> bool {
    match wanted.split_first() {
        None => have.is_empty(),
        Some((first, rest)) if first == "…" => (0..=have.len()).any(|n| same(rest, &have[n..])),
        Some((first, rest)) => {
            have.split_first().is_some_and(|(h, more)| fits(first, h) && same(rest, more))
        }
    }
}

/// Whether a word is as wanted, where each `…` stands for anything.
fn fits(wanted: &str, have: &str) -> bool {
    let Some((head, rest)) = wanted.split_once(ANYTHING) else { return wanted == have };
    let Some(mut left) = have.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split(ANYTHING).collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(tail)
}

/// Keys by the title of their object.
fn collect_keys(schema: &Value, keys: &mut Vec<(String, String)>) {
    if let (Some(title), Some(properties)) =
        (schema["title"].as_str(), schema["properties"].as_object())
    {
        let title = title.trim_start_matches("netloom ");
        keys.extend(properties.keys().map(|key| (title.to_owned(), key.clone())));
    }
    match schema {
        Value::Object(map) => map.values().for_each(|inner| collect_keys(inner, keys)),
        Value::Array(list) => list.iter().for_each(|inner| collect_keys(inner, keys)),
        _ => {}
    }
}

#[test]
fn what_is_shown_is_compared() {
    let good = "h1  up  0.5 s  10.1.2.3/24\nd…e (12 KiB)\n…\nlast … line\n";
    let printed = "h1 up - 10.1.2.3/24\n\ndone 7 B\nmore\nand more\nlast in line\n";
    assert_eq!(matches(good, printed), Ok(()));
    assert!(matches(good, &printed.replace("10.1.2.3", "10.1.2.4")).is_err());
    assert!(matches(good, &printed.replace("last", "lost")).is_err());
    assert!(matches("a\n", "a\nb\n").is_err());
    assert!(fits("[…,1,…]", "[0,1,2]") && !fits("[…,1,…]", "[0,2,2]") && !fits("a…a", "a"));
    assert!(matches("", "unexpected\n").is_err());
    assert!(matches("20\n", "20\n").is_ok() && matches("20\n", "0\n").is_err());
    let ping = "2 packets transmitted, 2 received, …\n";
    assert!(matches(ping, "2 packets transmitted, 2 received, 0% packet loss\n").is_ok());
    assert!(matches(ping, "2 packets transmitted, 0 received, 100% packet loss\n").is_err());
    assert!(matches("0% loss\n", "100% loss\n").is_err());
    let (step, late) = ("  ok    a: done (0.1 s)\n", "measured while l was 12 ms late");
    assert_eq!(
        matches(step, &format!("  ok    a: done\n    {late}\n    {late} (0.2 s)\n")),
        Ok(())
    );
    assert!(matches(step, &format!("  ok    a: done\n    {late}\n")).is_err());
    let notes = format!(
        "behind: l\nnote: {late}\nnote: block 1 or 2: {late}\nnetloom: warning: {late}\n\
         netloom: warning: the machine did not keep up, so answers may have come too late; write --timeout 10000\n"
    );
    assert_eq!(matches("", &notes), Ok(()));
    assert!(matches("", "netloom: warning: dead: node \"a\"\n").is_err());
    let reach = "IPv4: 2 of 6 pairs answer\n";
    assert!(matches(reach, reach).is_ok() && matches(reach, &reach.replace('2', "3")).is_err());
}

#[test]
fn blocks_and_commands_are_found() {
    let text = "x\n```console\n$ one\nout\n$ two\n```\n```yaml title=a.yaml\nb: {}\n```\n";
    let found = blocks(text);
    assert_eq!(found[1].info, "yaml title=a.yaml");
    let [one, two] = &commands(&found[0])[..] else { panic!("two commands") };
    assert_eq!((one.text.as_str(), one.shown.as_str(), one.line), ("one", "out\n", 3));
    assert_eq!((two.text.as_str(), two.shown.as_str()), ("two", ""));
    assert_eq!(plain(Path::new("docs/guide/../adr/x.md")), Path::new("docs/adr/x.md"));
}
