//! Verbs that tell: doctor, graph, schema, completions, man pages.

use netloom_tests_e2e::{Machine, machine, workspace_root};

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
fn schema_describes_the_file() {
    let schema = Machine::new().netloom(["schema"]).finish().code(0).json();
    for key in ["name", "nodes", "switches", "links"] {
        assert!(schema["properties"][key].is_object(), "no `{key}` in the schema");
    }
}

#[test]
fn completions_and_man_pages_come_from_the_flags() {
    let machine = Machine::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = machine.netloom(["completions", shell]).ok();
        assert!(
            text.contains("netloom complete-words") || text.contains("complete-words --"),
            "{shell}"
        );
    }
    machine.netloom(["completions", "tea"]).finish().code(2);
    std::fs::create_dir(machine.scratch().path().join("pages")).unwrap();
    machine.netloom(["man", "pages"]).ok();
    let page = std::fs::read_to_string(machine.scratch().path().join("pages/netloom.1"));
    let page = page.expect("pages/netloom.1");
    assert!(page.contains(".TH netloom 1") && page.contains("doctor"), "{page}");
}
