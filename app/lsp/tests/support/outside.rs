//! Bytes from outside as a client's messages, or as a lab file in its editor: whatever they are, nothing panics, every request has
//! one answer, and what is answered is framed and stands inside of the text.

use std::collections::HashMap;
use std::io::Cursor;

use netloom_lsp::{Compiled, serve_on};
use serde_json::{Value, json};

const URI: &str = "file:///lab.yaml";

/// Serves them; how many requests were answered with a result that is not null.
///
/// What begins as a message is one. Else the first line has the encoding and what is asked, as `h3:5` for a hover in line 3 at 5,
/// and the rest is the file: `c` completes, `d` looks for the definition, `p` and `r` rename, `a` asks for edits from there to the
/// end, `f` formats, and `e` types something there.
pub(crate) fn try_client(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with("Content-Length") => editor(text),
        _ => {
            let mut out = vec![];
            let served = serve_on(Cursor::new(bytes.to_vec()), &mut out, |_| Compiled::Good);
            assert!(served.is_ok() || !served.unwrap_err().to_string().is_empty());
            messages(&out).iter().filter(|message| !message["result"].is_null()).count()
        }
    }
}

fn editor(text: &str) -> usize {
    let (asked, file) = text.split_once('\n').unwrap_or(("", text));
    let mut asked = asked.split_whitespace();
    let encoding = asked.next().unwrap_or("utf-16");
    let hello =
        json!({"processId": null, "capabilities": {"general": {"positionEncodings": [encoding]}}});
    let document = json!({"uri": URI, "languageId": "yaml", "version": 1, "text": file});
    let mut input = vec![];
    send(&mut input, &request(0, "initialize", hello));
    send(&mut input, &told("textDocument/didOpen", json!({"textDocument": document})));
    let mut requests = 1;
    // More take their time and show nothing new.
    for (number, word) in asked.take(20).enumerate() {
        let id = number + 1;
        let Some(message) = about(id, word) else { continue };
        requests += usize::from(message.get("id").is_some());
        send(&mut input, &message);
    }
    send(&mut input, &request(100, "shutdown", Value::Null));
    send(&mut input, &told("exit", Value::Null));
    let mut out = vec![];
    assert_eq!(serve_on(Cursor::new(input), &mut out, |_| Compiled::Good).expect("it serves"), 0);
    let mut answers: HashMap<u64, Value> = HashMap::new();
    for message in messages(&out) {
        ranges(&message, file);
        if let Some(id) = message["id"].as_u64() {
            assert!(answers.insert(id, message).is_none(), "{id} is answered twice");
        }
    }
    assert_eq!(answers.len(), requests + 1);
    answers.values().filter(|answer| answer.get("result").is_some_and(|r| !r.is_null())).count()
}

/// The message for a word like `h3:5`.
fn about(id: usize, word: &str) -> Option<Value> {
    let kind = word.chars().next()?;
    let (line, character) = word[kind.len_utf8()..].split_once(':').unwrap_or(("0", "0"));
    let place = |text: &str| text.parse::<u32>().unwrap_or(0);
    let position = json!({"line": place(line), "character": place(character)});
    let document = json!({"uri": URI});
    let mut params = json!({"textDocument": document, "position": position});
    let range = json!({"start": position, "end": {"line": 9999, "character": 0}});
    let method = match kind {
        'h' => "hover",
        'c' => "completion",
        'd' => "definition",
        'p' => "prepareRename",
        'r' => {
            params["newName"] = json!("new-name");
            "rename"
        }
        'a' => {
            params["range"] = range;
            params["context"] = json!({"diagnostics": []});
            "codeAction"
        }
        'f' => {
            params["options"] = json!({"tabSize": 2, "insertSpaces": true});
            "formatting"
        }
        'e' => {
            let range = json!({"start": position, "end": position});
            let change = json!([{"range": range, "text": "{é\n\u{1f600}: \""}]);
            let identity = json!({"uri": URI, "version": id});
            let params = json!({"textDocument": identity, "contentChanges": change});
            return Some(told("textDocument/didChange", params));
        }
        _ => return None,
    };
    Some(request(id, &format!("textDocument/{method}"), params))
}

fn request(id: usize, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn told(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn send(input: &mut Vec<u8>, message: &Value) {
    let text = message.to_string();
    input.extend(format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes());
}

/// The messages that a server wrote.
fn messages(mut out: &[u8]) -> Vec<Value> {
    let mut found = vec![];
    while !out.is_empty() {
        let end = out.windows(4).position(|four| four == b"\r\n\r\n").expect("headers");
        let header = std::str::from_utf8(&out[..end]).expect("text");
        let length: usize =
            header.strip_prefix("Content-Length: ").expect("one").parse().expect("a length");
        let (body, rest) = out[end + 4..].split_at(length);
        found.push(serde_json::from_slice(body).expect("JSON"));
        out = rest;
    }
    found
}

/// Looks at all ranges of a message: each ends behind its start, in a line that is there.
fn ranges(value: &Value, file: &str) {
    // Each edit adds a line, and the last line may be empty.
    let most = file.split(['\n', '\r']).count() as u64 + 21;
    match value {
        Value::Object(parts) => {
            if let (Some(start), Some(end)) = (parts.get("start"), parts.get("end")) {
                let at = |place: &Value| (place["line"].as_u64(), place["character"].as_u64());
                assert!(at(start) <= at(end), "{value}");
                assert!(end["line"].as_u64().is_some_and(|line| line <= most), "{value} of {most}");
            }
            parts.values().for_each(|part| ranges(part, file));
        }
        Value::Array(parts) => parts.iter().for_each(|part| ranges(part, file)),
        _ => {}
    }
}
