//! `netloom lsp`: lab files in editors, by framed messages on standard input and output.

use std::io::{Read, Write};

use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, Run, machine, needs, workspace_root};
use serde_json::{Value, json};

const URI: &str = "file:///labs/lab.yaml";

/// The parameters of `initialize`.
fn hello(process: Value, capabilities: Value) -> Value {
    json!({"processId": process, "rootUri": null, "capabilities": capabilities})
}

/// An editor.
struct Editor {
    server: Held,
    next: u64,
}

impl Editor {
    fn start(machine: &Machine) -> Editor {
        Editor::with(machine, json!({}))
    }

    /// One with such abilities.
    fn with(machine: &Machine, capabilities: Value) -> Editor {
        let mut editor = Editor { server: Held::start(machine.netloom(["lsp"])), next: 0 };
        let told = editor.ask("initialize", hello(Value::Null, capabilities));
        assert_eq!(told["result"]["serverInfo"]["name"], "netloom", "{told}");
        editor.tell("initialized", json!({}));
        editor
    }

    fn send(&mut self, body: &str) {
        let input = self.server.child().stdin.as_mut().expect("stdin is piped");
        write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("write to the server");
        input.flush().expect("write to the server");
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    fn read(&mut self) -> Value {
        let mut length = None;
        loop {
            let line = self.server.line();
            match line.split_once(": ") {
                Some(("Content-Length", number)) => length = number.parse::<usize>().ok(),
                _ if line.is_empty() => break,
                _ => panic!("a header: {line}"),
            }
        }
        let mut body = vec![0; length.expect("a length")];
        let output = self.server.child().stdout.as_mut().expect("stdout is piped");
        output.read_exact(&mut body).expect("a message");
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Sends a request and reads its answer.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        loop {
            let message = self.read();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn open(&mut self, uri: &str, text: &str) {
        let document = json!({"uri": uri, "languageId": "yaml", "version": 1, "text": text});
        self.tell("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// The next diagnostics.
    fn diagnostics(&mut self) -> Value {
        loop {
            let message = self.read();
            if message["method"] == "textDocument/publishDiagnostics" {
                return message["params"].clone();
            }
        }
    }

    fn at(&mut self, method: &str, line: u32, character: u32) -> Value {
        let params = json!({"textDocument": {"uri": URI}, "position": {"line": line, "character": character}});
        self.ask(method, params)
    }

    /// The labels that are offered.
    fn offered(&mut self, line: u32, character: u32) -> Vec<String> {
        let told = self.at("textDocument/completion", line, character);
        let items = told["result"].as_array().unwrap_or_else(|| panic!("{told}"));
        items.iter().map(|item| item["label"].as_str().expect("a label").to_owned()).collect()
    }

    fn end(mut self) {
        assert_eq!(self.ask("shutdown", Value::Null)["result"], Value::Null);
        self.tell("exit", Value::Null);
        self.server.rest();
    }
}

/// A diagnostic as `netloom check` prints it.
fn printed(file: &str, diagnostic: &Value) -> String {
    let message =
        diagnostic["message"].as_str().expect("a message").replace("\nhelp: ", "\n  help: ");
    let start = &diagnostic["range"]["start"];
    let number = |value: &Value| value.as_u64().expect("a number") + 1;
    format!("{file}:{}:{}: error: {message}", number(&start["line"]), number(&start["character"]))
}

#[test]
fn an_editor_is_told_what_check_says() {
    let machine = machine!();
    let mut editor = Editor::start(&machine);
    let folder = workspace_root().join("tests/e2e/bad");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // A text of an editor is Unicode already.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if !name.ends_with(".yaml") {
            continue;
        }
        let wanted = std::fs::read_to_string(path.with_extension("expected")).unwrap();
        editor.open(&format!("file:///bad/{name}"), &text);
        let told = editor.diagnostics();
        let list = told["diagnostics"].as_array().unwrap();
        assert!(!list.is_empty(), "{name}");
        for diagnostic in list {
            let message = diagnostic["message"].as_str().unwrap();
            // What is about the whole lab has no place in the output of `check`.
            let whole = format!("netloom: {name}: error: {message}\n");
            assert!(
                wanted.contains(&printed(&name, diagnostic)) || wanted == whole || !text.is_ascii(),
                "{name}: {diagnostic}\n{wanted}"
            );
        }
        let counted = wanted.matches(": error: ").count();
        assert_eq!(list.len(), counted, "{name}: {wanted}");
        seen += 1;
    }
    assert!(seen > 50, "{seen}");
    editor.end();
    machine.untouched();
}

#[test]
fn warnings_stand_at_their_node_and_end_when_they_are_mended() {
    let machine = machine!();
    let mut editor = Editor::start(&machine);
    let text = "nodes:\n  a: {}\n  m: {}\n  b: {}\nlinks: [[a, m], [m, b]]\n";
    editor.open(URI, text);
    let told = editor.diagnostics();
    let warning = &told["diagnostics"][0];
    machine.file(text);
    let checked = machine.netloom(["check", "lab.yaml"]).finish().code(0).errors();
    assert_eq!(checked, format!("warning: {}\n", warning["message"].as_str().unwrap()));
    assert_eq!(warning["severity"], 2, "{told}");
    assert_eq!(
        warning["range"],
        json!({"start": {"line": 2, "character": 2}, "end": {"line": 2, "character": 3}})
    );
    let params = json!({"textDocument": {"uri": URI}, "range": warning["range"],
        "context": {"diagnostics": [warning]}});
    let told = editor.ask("textDocument/codeAction", params);
    assert_eq!(told["result"][0]["title"], "write forwarding: true", "{told}");
    let edit = &told["result"][0]["edit"]["changes"][URI][0];
    let change = json!({"range": edit["range"], "text": edit["newText"]});
    let params = json!({"textDocument": {"uri": URI, "version": 2}, "contentChanges": [change]});
    editor.tell("textDocument/didChange", params);
    let told = editor.diagnostics();
    assert_eq!((&told["diagnostics"], &told["version"]), (&json!([]), &json!(2)), "{told}");
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": URI}}));
    assert_eq!(editor.diagnostics()["diagnostics"], json!([]));
    let told = editor.at("textDocument/hover", 0, 0);
    assert_eq!(told["error"]["message"], "this text is not open", "{told}");
    editor.end();
    machine.untouched();
}

#[test]
fn columns_count_in_the_units_that_were_agreed_on() {
    let machine = machine!();
    let text = "x-\u{e9}\u{1f600}: 1\nnodes: {\"\u{e9}\u{1f600}\": {}, h1: {forwardin: 1}}\n";
    for (offered, agreed, column) in [
        (json!(null), json!(null), 24),
        (json!(["utf-7", "utf-16"]), json!("utf-16"), 24),
        (json!(["utf-8", "utf-16"]), json!("utf-8"), 27),
        (json!(["utf-32"]), json!("utf-32"), 23),
    ] {
        let mut editor = Editor { server: Held::start(machine.netloom(["lsp"])), next: 0 };
        let told = editor.ask(
            "initialize",
            hello(Value::Null, json!({"general": {"positionEncodings": offered}})),
        );
        assert_eq!(told["result"]["capabilities"]["positionEncoding"], agreed, "{told}");
        editor.open(URI, text);
        let told = editor.diagnostics();
        let all = told["diagnostics"].as_array().expect("diagnostics");
        let own =
            all.iter().find(|d| d["message"].as_str().is_some_and(|m| m.contains("forwardin")));
        let start = &own.unwrap_or_else(|| panic!("{told}"))["range"]["start"];
        assert_eq!(start, &json!({"line": 1, "character": column}), "{offered}");
        // What is typed there goes where the client means.
        let end = json!({"line": 1, "character": column + 9});
        let change = json!([{"range": {"start": start, "end": end}, "text": "mtu"}]);
        let params = json!({"textDocument": {"uri": URI, "version": 2}, "contentChanges": change});
        editor.tell("textDocument/didChange", params);
        let told = editor.diagnostics().to_string();
        assert!(told.contains("unknown key \\\"mtu\\\""), "{told}");
        editor.end();
    }
    machine.untouched();
}

#[test]
fn a_quick_fix_for_each_mistake_leads_to_a_good_lab() {
    let machine = machine!();
    let mut editor = Editor::start(&machine);
    let mut text =
        "nodes:\n  h1: {forwardin: yes}\n  h2:\n    tty: true\n    limits: {cpu: 2}\nlinks:\n\
                    - h1-sw\n- [h2, sw]\n- ends: [h1, h22]\n  delay: 10\n"
            .to_owned();
    editor.open(URI, &text);
    let (mut titles, mut version) = (vec![], 1);
    loop {
        let told = editor.diagnostics();
        let all = told["diagnostics"].as_array().expect("diagnostics").clone();
        let Some(first) = all.first() else { break };
        let params = json!({"textDocument": {"uri": URI}, "range": first["range"],
            "context": {"diagnostics": []}});
        let told = editor.ask("textDocument/codeAction", params);
        let action = &told["result"][0];
        titles
            .push(action["title"].as_str().unwrap_or_else(|| panic!("{first}: {told}")).to_owned());
        assert!(titles.len() < 20, "{titles:?}");
        let edits = action["edit"]["changes"][URI].as_array().expect("edits");
        text = edited(&text, edits);
        version += 1;
        let change = json!([{"range": edits[0]["range"], "text": edits[0]["newText"]}]);
        let params =
            json!({"textDocument": {"uri": URI, "version": version}, "contentChanges": change});
        editor.tell("textDocument/didChange", params);
    }
    machine.file(&text);
    machine.netloom(["check", "lab.yaml"]).ok();
    for title in [
        "write forwarding",
        "write true",
        "leave it out",
        "add the switch sw",
        "write h2",
        "write 10ms",
    ] {
        assert!(titles.iter().any(|own| own == title), "{title}: {titles:?}");
    }
    editor.end();
    machine.untouched();
}

/// A text with edits of its ASCII lines, in their order.
fn edited(text: &str, edits: &[Value]) -> String {
    let starts: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let at = |place: &Value| {
        let number =
            |key: &str| usize::try_from(place[key].as_u64().expect("a number")).expect("small");
        starts[number("line")] + number("character")
    };
    let mut text = text.to_owned();
    for edit in edits.iter().rev() {
        let range = at(&edit["range"]["start"])..at(&edit["range"]["end"]);
        text.replace_range(range, edit["newText"].as_str().expect("a text"));
    }
    text
}

const MENTIONS: &str = "nodes:
  r1: {forwarding: true}   # r1 stays in comments
  r11: {}
  'h1': {routes: [{to: default, via: r1}]}
  t:
    children:
      nodes: {r1: {}, c: {routes: [{to: default, via: r1}]}}
switches:
  s1: {kind: shm, ports: {\"r1:p0\": {number: 5}}, mirrors: [{from: [\"r1:p0\"], to: h1}]}
  of: {kind: openflow, controllers: \"node:r1:6653\"}
links:
  - h1-r1
  - \"r11 -- r1\"
  - [\"r1:p0\", s1]
  - ends: [r1, r11]
    subnet: 10.9.0.0/24
    addresses: {r1: 10.9.0.1/24}
    drop: udp and host r1 and not host r11
  - [h1, s1]
  - [t/c, r1]
  - [t/r1, s1]
  - [r11, of]
  - {ends: [h1, of], name: r1}
expect:
  - reaches: [h1, [r1, r11]]
  - cannot-reach: {from: [r11], to: r1}
  - route: {node: h1, to: r1, via: r1}
  - do: {exec: {r1: ping -c 1 r1}}
  - do: {down: h1:eth0--r1:eth0}
  - do: {down: r1}
place: {r1: east, \"r*\": west}
x-layout: {r1: [1, 2]}
routing: none
";

#[test]
fn a_new_name_is_written_wherever_the_old_one_is_meant() {
    let machine = machine!();
    machine.file(MENTIONS);
    machine.netloom(["check", "lab.yaml"]).ok();
    let mut editor = Editor::start(&machine);
    editor.open(URI, MENTIONS);
    let told = editor.diagnostics();
    // Where libpcap is missing, a warning says so.
    assert!(told["diagnostics"].as_array().unwrap().iter().all(|d| d["severity"] == 2), "{told}");
    let told = editor.at("textDocument/prepareRename", 11, 8);
    let wanted = json!({"range": {"start": {"line": 11, "character": 7}, "end": {"line": 11, "character": 9}},
        "placeholder": "r1"});
    assert_eq!(told["result"], wanted, "{told}");
    let told = editor.at("textDocument/prepareRename", 10, 1);
    assert_eq!(told["error"]["message"], "no node or switch is named here");
    let ask = json!({"textDocument": {"uri": URI}, "position": {"line": 11, "character": 8}, "newName": "core"});
    let told = editor.ask("textDocument/rename", ask);
    let edits = told["result"]["changes"][URI].as_array().unwrap_or_else(|| panic!("{told}"));
    let renamed = edited(MENTIONS, edits);
    let wanted = MENTIONS
        .replace("  r1: {f", "  core: {f")
        .replace("via: r1}]}\n  t:", "via: core}]}\n  t:")
        .replace("c: {routes: [{to: default, via: r1}]}", "c: {routes: [{to: default, via: core}]}")
        .replace("\"r1:p0\"", "\"core:p0\"")
        .replace("node:r1:6653", "node:core:6653")
        .replace("h1-r1", "h1-core")
        .replace("r11 -- r1", "r11 -- core")
        .replace("ends: [r1, r11]", "ends: [core, r11]")
        .replace("addresses: {r1:", "addresses: {core:")
        .replace("host r1 and", "host core and")
        .replace("[t/c, r1]", "[t/c, core]")
        .replace("[r1, r11]", "[core, r11]")
        .replace("to: r1}\n", "to: core}\n")
        .replace("to: r1, via: r1", "to: core, via: core")
        .replace("exec: {r1: ping", "exec: {core: ping")
        .replace("h1:eth0--r1:eth0", "h1:eth0--core:eth0")
        .replace("place: {r1:", "place: {core:")
        .replace("x-layout: {r1:", "x-layout: {core:");
    assert_eq!(renamed, wanted);
    // A node in a node has its parents' names elsewhere.
    let ask = json!({"textDocument": {"uri": URI}, "position": {"line": 20, "character": 7}, "newName": "in"});
    let told = editor.ask("textDocument/rename", ask);
    let edits = told["result"]["changes"][URI].as_array().unwrap_or_else(|| panic!("{told}"));
    let wanted = MENTIONS.replace("nodes: {r1: {}, c", "nodes: {in: {}, c").replace("t/r1", "t/in");
    assert_eq!(edited(MENTIONS, edits), wanted);
    machine.file(&renamed);
    machine.netloom(["check", "lab.yaml"]).ok();
    editor.end();
    machine.untouched();
}

#[test]
fn it_ends_with_its_client() {
    let machine = machine!();
    // What is asked too early, and what comes after the end.
    let mut editor = Editor { server: Held::start(machine.netloom(["lsp"])), next: 0 };
    let told = editor.at("textDocument/hover", 0, 0);
    assert_eq!(told["error"]["code"], -32002, "{told}");
    editor.tell("textDocument/didOpen", json!({}));
    editor.ask("initialize", hello(Value::Null, json!({})));
    editor.ask("shutdown", Value::Null);
    let told = editor.at("textDocument/hover", 0, 0);
    assert_eq!(told["error"]["code"], -32600, "{told}");
    editor.tell("exit", Value::Null);
    editor.server.rest();
    // Without `shutdown` the code is 1, as the protocol has it; at the end of the input 0.
    let exit = "Content-Length: 33\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}";
    machine.netloom(["lsp"]).input(exit).finish().code(1);
    machine.netloom(["lsp"]).input("").finish().code(0);
    let told = machine.netloom(["lsp"]).input(&exit[..30]).finish().code(1);
    told.says("language client: its input ends within a message");
    // A client that dies while another process holds its pipe open: this one.
    let pipe = machine.scratch().path().join("pipe");
    Run::new("mkfifo").args([&pipe]).ok();
    let script = "\"$1\" lsp <\"$0\" & echo $$; wait";
    let binary = netloom_kit::Binary::find();
    let shell = Run::new("sh").args(["-c", script]).args([&pipe]).args([binary.path()]);
    let mut shell = Held::start(shell);
    let pid: u64 = shell.line().parse().expect("a pid");
    let mut input = std::fs::File::options().write(true).open(&pipe).expect("open the pipe");
    let params = hello(json!(pid), json!({}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let body = body.to_string();
    write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("write to it");
    assert!(shell.line().starts_with("Content-Length"));
    shell.child().kill().expect("end the client");
    let mut rest = String::new();
    // The server's end closes the output.
    let output = shell.child().stdout.as_mut().expect("stdout is piped");
    output.read_to_string(&mut rest).expect("its answer");
    drop(input);
    assert!(rest.contains("serverInfo"), "{rest}");
    machine.untouched();
}

const LAB: &str = "nodes:\n  h1: {}\n  r1:\n    forwarding: true\n  h2:\n    routes: [{to: default, via: r1}]\n\
                   links:\n  - [h1, r1]\n  - ends: [\"h2:eth0\", r1]\n    delay: 10ms\n";

#[test]
fn an_editor_completes_explains_finds_and_renames() {
    let machine = machine!();
    let mut editor = Editor::start(&machine);
    editor.open(URI, LAB);
    assert_eq!(editor.diagnostics()["diagnostics"], json!([]));
    // Keys, words, nodes.
    assert!(editor.offered(3, 4).iter().any(|label| label == "limits"));
    assert!(editor.offered(3, 16).iter().any(|label| label == "ipv6"));
    let ends = editor.offered(7, 5);
    for name in ["h1", "h2", "r1", "internet"] {
        assert!(ends.iter().any(|label| label == name), "{ends:?}");
    }
    assert!(editor.offered(8, 15).iter().any(|label| label == "h2:eth0"));
    // The manual, and what is planned.
    let told = editor.at("textDocument/hover", 9, 6);
    let text = told["result"]["contents"]["value"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("**delay**") && text.contains("How long every packet is held"),
        "{told}"
    );
    let told = editor.at("textDocument/hover", 7, 6);
    let text = told["result"]["contents"]["value"].as_str().unwrap_or_default();
    machine.file(LAB);
    assert!(text.contains("h1\n  eth0  10.") && text.contains("/"), "{told}");
    // The definition.
    let told = editor.at("textDocument/definition", 5, 32);
    assert_eq!(told["result"]["range"]["start"], json!({"line": 2, "character": 2}), "{told}");
    // A new name, everywhere.
    let rename = |name: &str| json!({"textDocument": {"uri": URI}, "position": {"line": 8, "character": 22}, "newName": name});
    let told = editor.ask("textDocument/rename", rename("core"));
    let edits = told["result"]["changes"][URI].as_array().unwrap_or_else(|| panic!("{told}"));
    assert_eq!(edits.len(), 4, "{told}");
    let mut lines: Vec<String> = LAB.lines().map(str::to_owned).collect();
    for edit in edits.iter().rev() {
        let at = |side: &str| {
            usize::try_from(edit["range"][side]["character"].as_u64().unwrap()).unwrap()
        };
        let line = usize::try_from(edit["range"]["start"]["line"].as_u64().unwrap()).unwrap();
        lines[line].replace_range(at("start")..at("end"), edit["newText"].as_str().unwrap());
    }
    let renamed = lines.join("\n") + "\n";
    assert_eq!(renamed, LAB.replace("r1", "core"));
    for (name, part) in [("h1", "is there already"), ("a b", "name"), ("", "name")] {
        let told = editor.ask("textDocument/rename", rename(name));
        assert!(
            told["error"]["message"].as_str().is_some_and(|words| words.contains(part)),
            "{told}"
        );
    }
    editor.end();
    machine.untouched();
}

#[test]
fn an_editor_formats_as_fmt_does() {
    let machine = machine!();
    let mut editor = Editor::start(&machine);
    let text = "nodes:\n    h1:   {}  # é\nlinks:\n- [h1,nowhere]";
    editor.open(URI, text);
    let ask =
        json!({"textDocument": {"uri": URI}, "options": {"tabSize": 2, "insertSpaces": true}});
    let told = editor.ask("textDocument/formatting", ask.clone());
    let neat = machine.netloom(["fmt", "-"]).input(text).ok();
    assert_eq!(told["result"][0]["newText"], neat.as_str(), "{told}");
    assert_eq!(told["result"][0]["range"]["end"], json!({"line": 3, "character": 14}), "{told}");
    let change = json!([{"text": neat}]);
    let params = json!({"textDocument": {"uri": URI, "version": 2}, "contentChanges": change});
    editor.tell("textDocument/didChange", params);
    assert_eq!(editor.ask("textDocument/formatting", ask)["result"], json!([]));
    editor.end();
    machine.untouched();
}

#[test]
fn what_a_client_gets_wrong_is_answered() {
    let machine = machine!();
    let mut editor = Editor::start(&machine);
    editor.open(URI, "nodes: {h1: {ru\n\t\u{1f600}: \"");
    assert_eq!(editor.diagnostics()["diagnostics"].as_array().map(Vec::len), Some(1));
    for (line, character) in [(0, 14), (1, 3), (1, 5), (7, 0), (u32::MAX, u32::MAX)] {
        for method in ["completion", "hover", "definition"] {
            let told = editor.at(&format!("textDocument/{method}"), line, character);
            assert!(told.get("error").is_none(), "{method} {line}:{character}: {told}");
        }
    }
    let refused = |told: Value, code: i64| assert_eq!(told["error"]["code"], code, "{told}");
    refused(editor.ask("textDocument/foldingRange", json!({})), -32601);
    refused(editor.ask("\u{1b}[2J", json!([])), -32601);
    refused(editor.ask("textDocument/hover", json!({"position": -1})), -32602);
    refused(editor.ask("initialize", json!({})), -32600);
    refused(editor.ask("textDocument/rename", json!({"textDocument": {"uri": URI}})), -32602);
    // What is not a message is answered, and ends nothing; notifications have no answer.
    editor.send("{\"jsonrpc\": ");
    assert_eq!(editor.read()["error"]["code"], -32700);
    editor.send(&"[".repeat(1 << 20));
    assert_eq!(editor.read()["error"]["code"], -32700);
    editor.tell("$/unknown", json!({}));
    editor.tell("textDocument/didChange", json!({"textDocument": 7}));
    // Depth, copies and size are bounded as for `check`.
    for (text, part) in [
        ("[".repeat(100_000), "recursion limit"),
        ("x".repeat(9 << 20), "at most 8388608"),
        ("a: &a [x, x]\nb: &b [*a, *a, *a]\n".to_owned(), "unknown key"),
    ] {
        editor.open("file:///large.yaml", &text);
        let told = editor.diagnostics();
        let message = told["diagnostics"][0]["message"].as_str().unwrap_or_default();
        assert!(message.contains(part), "{part}: {message}");
    }
    editor.end();
    // What never was a client.
    let told = machine.netloom(["lsp"]).input("nodes: {}\n").finish().code(1);
    told.says("a header of a message is expected, as \"Content-Length: 120\", not \"nodes: {}\"");
    machine.untouched();
}

/// What a client of pygls does with a server.
const CLIENT: &str = r#"
import asyncio, sys
from lsprotocol import types
from pygls.lsp.client import LanguageClient

URI = "file:///labs/lab.yaml"
TEXT = "nodes:\n  h1: {forwardin: true}\n  h2: {}\nlinks:\n- [h1, h2]\n"

async def main():
    client = LanguageClient("test", "1")
    told = asyncio.Queue()
    client.feature("textDocument/publishDiagnostics")(lambda params: told.put_nowait(params))
    await client.start_io(sys.argv[1], "lsp")
    hello = await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
    assert hello.capabilities.rename_provider and hello.capabilities.hover_provider, hello
    client.initialized(types.InitializedParams())
    item = types.TextDocumentItem(uri=URI, language_id="yaml", version=1, text=TEXT)
    client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
    found = (await told.get()).diagnostics
    assert found[0].message == 'nodes.h1: unknown key "forwardin"\nhelp: did you mean "forwarding"?', found
    document = types.TextDocumentIdentifier(uri=URI)
    context = types.CodeActionContext(diagnostics=found)
    actions = await client.text_document_code_action_async(
        types.CodeActionParams(text_document=document, range=found[0].range, context=context))
    edit = actions[0].edit.changes[URI][0]
    change = types.TextDocumentContentChangePartial(range=edit.range, text=edit.new_text)
    client.text_document_did_change(types.DidChangeTextDocumentParams(
        text_document=types.VersionedTextDocumentIdentifier(uri=URI, version=2), content_changes=[change]))
    assert not (await told.get()).diagnostics
    at = dict(text_document=document, position=types.Position(line=4, character=8))
    hover = await client.text_document_hover_async(types.HoverParams(**at))
    assert "eth0" in hover.contents.value, hover
    place = await client.text_document_definition_async(types.DefinitionParams(**at))
    assert place.range.start == types.Position(line=2, character=2), place
    items = await client.text_document_completion_async(types.CompletionParams(**at))
    assert {"h1", "h2", "internet"} <= {item.label for item in items}, items
    edits = await client.text_document_rename_async(types.RenameParams(new_name="web", **at))
    assert len(edits.changes[URI]) == 2, edits
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    edits = await client.text_document_formatting_async(
        types.DocumentFormattingParams(text_document=document, options=options))
    assert edits[0].new_text.endswith("links:\n  - [h1, h2]\n"), edits
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    print("done")

asyncio.run(main())
"#;

#[test]
fn a_client_of_pygls_drives_it() {
    needs!("pygls");
    let machine = machine!();
    let python = "/usr/local/lib/netloom-peers/pygls/bin/python";
    let binary = netloom_kit::Binary::find();
    let said = Run::new(python).args(["-c", CLIENT]).args([binary.path()]).ok();
    assert_eq!(said, "done\n");
    machine.untouched();
}
