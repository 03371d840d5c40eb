//! Verbs that tell: doctor, graph, schema, completions, man pages.

use std::collections::BTreeSet;
use std::path::Path;

use netloom_tests_e2e::{Machine, Run, machine, needed, workspace_root};

#[test]
fn doctor_lists_features() {
    let machine = Machine::new();
    let told = machine.netloom(["doctor"]).ok();
    assert!(told.contains("namespace"), "{told}");
    let json = machine.netloom(["doctor", "--json"]).finish().code(0).json();
    let list = json.as_array().or(json["features"].as_array());
    assert!(list.is_some_and(|list| list.len() >= 3), "{json}");
    machine.untouched();
}

#[test]
fn graph_draws_nodes_and_links() {
    let machine = machine!();
    machine.up_file(&workspace_root().join("examples/two-sites.yaml"));
    let dot = machine.netloom(["graph", "--dot"]).ok();
    assert!(dot.starts_with("graph") && dot.trim_end().ends_with('}'), "{dot}");
    let svg = machine.netloom(["graph", "--svg"]).ok();
    assert!(svg.contains("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for node in ["h1", "h2", "r1", "r2", "web", "s1"] {
        assert!(dot.contains(node) && svg.contains(node), "{node} is missing");
    }
    assert!(dot.matches(" -- ").count() >= 5, "{dot}");
    machine.down();
}

#[test]
fn graph_draws_a_file_into_a_file() {
    let machine = Machine::new();
    let lab = workspace_root().join("examples/two-sites.yaml");
    let picture = machine.scratch().path().join("lab.svg");
    let draw = |more: &[&str]| {
        let args = ["graph".as_ref(), lab.as_os_str(), "-o".as_ref(), picture.as_os_str()];
        let more = more.iter().map(std::ffi::OsStr::new);
        let said = machine.netloom(args.into_iter().chain(more)).finish().code(0);
        assert_eq!(said.text(), "");
        std::fs::read_to_string(&picture).expect("the picture")
    };
    let svg = draw(&[]);
    assert!(
        svg.starts_with("<svg")
            && svg.contains("<title>two-sites: 5 nodes, 1 switch, 5 links</title>"),
        "{svg}"
    );
    assert!(draw(&["--dot"]).starts_with("graph "));
    assert_eq!(draw(&["--svg"]), svg);
    let wrong = machine.scratch().path().join("no/lab.svg");
    let args = ["graph".as_ref(), lab.as_os_str(), "-o".as_ref(), wrong.as_os_str()];
    let refused = machine.netloom(args).finish().code(1);
    assert!(
        refused.errors().contains("no/lab.svg") && refused.errors().contains("No such file"),
        "{refused}"
    );
    machine.netloom(["graph", "no-such-lab"]).finish().code(1);
    machine.untouched();
}

const PLACED: &str = "name: placed\nnodes: {a: {}, b: {}}\nlinks: [[a, b]]\n\
                      x-layout: {a: [500, 60], b: [100, 460]}\n";

#[test]
fn a_running_lab_keeps_the_positions_of_its_file() {
    let machine = machine!();
    machine.up(PLACED);
    let place = |machine: &Machine, name: &str| -> Vec<f64> {
        let svg = machine.netloom(["graph", "--svg"]).ok();
        let node =
            svg.split("<g class=\"node").find(|text| text.contains(&format!("<title>{name} ")));
        let node = node.expect("the node").to_owned();
        let number = |key: &str| {
            let rest = node.split(&format!(" {key}=\"")).nth(1).expect("an attribute");
            rest.split('"').next().unwrap().parse().expect("a number")
        };
        vec![number("x"), number("y")]
    };
    let apart = |machine: &Machine| {
        let (a, b) = (place(machine, "a"), place(machine, "b"));
        [a[0] - b[0], a[1] - b[1]]
    };
    assert_eq!(apart(&machine), [400.0, -400.0]);
    let exported = machine.netloom(["export", "lab"]).ok();
    assert!(exported.contains("x-layout:\n  a: [500, 60]\n  b: [100, 460]\n"), "{exported}");
    // Changed positions leave the lab as it is, and are taken over.
    let file = machine.file(&PLACED.replace("460", "160"));
    machine.netloom(["apply".as_ref(), file.as_os_str()]).finish().code(0);
    assert_eq!(apart(&machine), [400.0, -100.0]);
    machine.down();
}

#[test]
fn schema_describes_the_file() {
    let schema = Machine::new().netloom(["schema"]).finish().code(0).json();
    for key in ["name", "nodes", "switches", "links"] {
        assert!(schema["properties"][key].is_object(), "no `{key}` in the schema");
    }
}

#[test]
fn completions_ask_netloom_itself() {
    let machine = Machine::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = machine.netloom(["completions", shell]).ok();
        assert!(
            text.contains("netloom complete-words") || text.contains("complete-words --"),
            "{shell}"
        );
    }
    machine.netloom(["completions", "tea"]).finish().code(2);
    machine.untouched();
}

/// Every page by file name, as `netloom man` writes them.
fn pages(machine: &Machine) -> Vec<(String, String)> {
    let folder = machine.scratch().path().join("pages");
    std::fs::create_dir(&folder).unwrap();
    machine.netloom(["man", "pages"]).ok();
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
    let read = entries.map(|e| {
        let name = e.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(e.path()).unwrap())
    });
    read.collect()
}

#[test]
fn every_verb_has_a_page_with_examples_and_exit_status() {
    let machine = Machine::new();
    let pages = pages(&machine);
    assert!(pages.len() > 40, "{}", pages.len());
    for (name, page) in pages.iter().filter(|(name, _)| name.ends_with(".1")) {
        let verb = name.trim_end_matches(".1");
        assert!(page.contains(&format!(".TH {verb} 1 ")), "{name}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "FILES"] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{name}: no {section}");
        }
        for section in ["\"EXIT STATUS\"", "ENVIRONMENT", "\"SEE ALSO\""] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{name}: no {section}");
        }
        // What stands there is what the help shows.
        let help = machine.netloom(verb.split('-').skip(1).chain(["--help"])).finish();
        let first =
            help.text().lines().find_map(|line| line.strip_prefix("  netloom ").map(str::to_owned));
        if let (Some(0), Some(example)) = (help.status.code(), first) {
            let plain = page.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\(aq", "'");
            assert!(plain.contains(&example), "{name}: no {example:?}");
        }
        assert!(!page.contains("complete\\-words") && !page.contains("\\-process"), "{name}");
    }
    machine.untouched();
}

#[test]
fn the_page_of_the_lab_file_has_every_key() {
    let machine = Machine::new();
    let schema = machine.netloom(["schema"]).finish().code(0).json();
    let pages = pages(&machine);
    let (_, page) = pages.iter().find(|(name, _)| name == "netloom-lab.5").expect("netloom-lab.5");
    let mut keys = BTreeSet::new();
    keys_of(&schema, &mut keys);
    assert!(keys.len() > 60, "{}", keys.len());
    for key in keys {
        let tag = format!("\n\\fB{}\\fR: ", key.replace('-', "\\-"));
        assert!(page.contains(&tag), "no {key:?}");
    }
    machine.untouched();
}

fn keys_of(schema: &serde_json::Value, found: &mut BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(map) => {
            let keys = map.get("properties").and_then(|keys| keys.as_object());
            found.extend(keys.into_iter().flat_map(|keys| keys.keys().cloned()));
            map.values().for_each(|inner| keys_of(inner, found));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|inner| keys_of(inner, found)),
        _ => {}
    }
}

fn has_nothing_to_say(formatter: &Path, args: &[&str]) {
    let machine = Machine::new();
    for (name, page) in pages(&machine) {
        let done = Run::new(formatter).args(args.iter()).input(page).finish().code(0);
        assert_eq!(done.text() + &done.errors(), "", "{name}");
    }
    machine.untouched();
}

#[test]
fn groff_has_nothing_to_say_of_the_pages() {
    has_nothing_to_say(&needed!("groff"), &["-man", "-ww", "-z", "-Tutf8"]);
}

#[test]
fn mandoc_has_nothing_to_say_of_the_pages() {
    has_nothing_to_say(&needed!("mandoc"), &["-Tlint", "-Werror"]);
}
