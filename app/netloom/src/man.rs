//! The manual: a page for each verb from its flags and examples, and netloom-lab(5) from the table of keys.
//!
//! [`crate::flags`] describes the verbs, `netloom_model` the lab file; this module adds only what is common
//! to all pages.

mod lab;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use crate::flags::BENCH;
use crate::flags::examples::{self, EXIT, Uses};

/// The footer of all pages.
const MANUAL: &str = "netloom manual";

const FILES: &[(&str, &str)] = &[
    (
        "/etc/netloom/LAB.yaml",
        "A lab that `systemctl start netloom@LAB` brings up and `stop` takes down, where netloom's package has put that unit.",
    ),
    ("/run/netloom/LAB/", "The state of a lab that root brought up; it is removed with the lab."),
    (
        "$XDG_RUNTIME_DIR/netloom/LAB/",
        "The same for other users; /tmp/netloom-UID/LAB/ where the variable is not set.",
    ),
    (
        "/var/lib/netloom/images/",
        "Root's images of containers; other users' are in $XDG_DATA_HOME/netloom/images/ or ~/.local/share/netloom/images/.",
    ),
    (
        "/var/lib/netloom/records/LAB/",
        "What `netloom record` keeps of a lab, likewise; it stays when the lab is taken down.",
    ),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    (
        "NETLOOM_LAB",
        "The lab that a verb is about, by name or by file, where -l does not say. Ignored in a node.",
    ),
    ("NETLOOM_DATA_DIR", "The folder of `images` and `records`, instead of those under FILES."),
    (
        "NETLOOM_RUNTIME_DIR",
        "The folder of labs, instead of those under FILES. It and those above it belong to the user or to root, and nobody \
         else may write to them.",
    ),
    ("NO_COLOR", "Output has no colours when this is set."),
    ("SHELL", "The program that netloom shell runs in a node."),
];

/// All pages: file name and text.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut command = crate::command_line::command();
    command.build();
    let mut pages = vec![("netloom-lab.5".to_owned(), lab::page())];
    of_verbs(&command, "", &mut pages);
    pages
}

fn of_verbs(command: &Command, path: &str, pages: &mut Vec<(String, String)>) {
    for verb in shown(command).filter(|verb| verb.get_name() != BENCH) {
        of_verbs(verb, format!("{path} {}", verb.get_name()).trim_start(), pages);
    }
    pages.push((format!("{}.1", name(command)), page(command, path)));
}

/// Subcommands of a verb that users call.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set())
}

/// `netloom-node-create`
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command, path: &str) -> String {
    let man = Man::new(command.clone());
    let mut text = title(name(command), "1");
    let mut add = |part: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail.
        drop(part(&mut bytes));
        append(&mut text, &String::from_utf8_lossy(&bytes));
    };
    add(&|to| man.render_name_section(to));
    add(&|to| man.render_synopsis_section(to));
    add(&|to| man.render_description_section(to));
    add(&|to| more(command).to_writer(to));
    add(&|to| man.render_options_section(to));
    if shown(command).next().is_some() {
        add(&|to| man.render_subcommands_section(to));
    }
    add(&|to| end(command, path).to_writer(to));
    text
}

/// The text after all flags in the help.
fn more(command: &Command) -> Roff {
    let mut roff = Roff::new();
    if let Some(text) = command.get_after_help() {
        // The exit status has its own section.
        let other = |line: &&str| !line.trim().is_empty() && !line.starts_with("Exit status:");
        for line in text.to_string().lines().filter(other) {
            roff.control("PP", []).text([roman(line)]);
        }
    }
    roff
}

/// The header of a page. It has no date: the same sources make the same page.
fn title(name: &str, section: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH {name} {section} \"\" \"netloom {version}\" \"{MANUAL}\"\n"
    )
}

/// Appends a part of a page without the renderer's preamble, which the page's header has.
fn append(text: &mut String, part: &str) {
    let lines = part
        .lines()
        .skip_while(|line| line.is_empty() || line.starts_with(".ie ") || line.starts_with(".el "));
    lines.for_each(|line| {
        text.push_str(line);
        text.push('\n');
    });
}

/// The sections common to all pages.
fn end(command: &Command, path: &str) -> Roff {
    let mut roff = Roff::new();
    if let Some(uses) = examples::of(path) {
        self::examples(&mut roff, uses);
        exit_status(&mut roff, uses);
    }
    terms(&mut roff, "FILES", FILES);
    terms(&mut roff, "ENVIRONMENT", ENVIRONMENT);
    see_also(&mut roff, command, path);
    roff
}

fn examples(roff: &mut Roff, uses: &Uses) {
    roff.control("SH", ["EXAMPLES"]);
    for (at, (line, what)) in uses.examples.iter().enumerate() {
        if at > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(capital(what) + ":")]);
        code(roff, line);
    }
}

fn exit_status(roff: &mut Roff, uses: &Uses) {
    roff.control("SH", ["EXIT STATUS"]);
    let own = |code: &str| uses.exit.iter().find(|(own, _)| *own == code).map(|(_, what)| *what);
    for (code, what) in EXIT {
        term(roff, code, own(code).unwrap_or(what));
    }
    for (_, what) in uses.exit.iter().filter(|(code, _)| *code == "*") {
        term(roff, "other", what);
    }
}

fn see_also(roff: &mut Roff, command: &Command, path: &str) {
    let mut pages: Vec<String> = shown(command).map(|verb| format!("{}(1)", name(verb))).collect();
    if let Some((above, _)) = path.rsplit_once(' ') {
        pages.push(format!("netloom-{}(1)", above.replace(' ', "-")));
    }
    if !path.is_empty() {
        pages.push("netloom(1)".to_owned());
    }
    pages.push("netloom-lab(5)".to_owned());
    roff.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
}

/// A section of terms with their meanings.
fn terms(roff: &mut Roff, section: &str, terms: &[(&str, &str)]) {
    roff.control("SH", [section]);
    terms.iter().for_each(|(word, what)| term(roff, word, what));
}

fn term(roff: &mut Roff, word: &str, what: &str) {
    tagged(roff, &[bold(word)], what);
}

fn tagged(roff: &mut Roff, tag: &[Inline], what: &str) {
    roff.control("TP", []).text(tag.to_vec()).text([roman(what)]);
}

fn paragraphs(roff: &mut Roff, text: &str) {
    for (at, line) in text.lines().filter(|line| !line.trim().is_empty()).enumerate() {
        if at > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(line)]);
    }
}

/// Verbatim lines.
fn code(roff: &mut Roff, lines: &str) {
    roff.control("RS", ["4"]).control("nf", []);
    for line in lines.lines() {
        roff.text([bold(line)]);
    }
    roff.control("fi", []).control("RE", []);
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
