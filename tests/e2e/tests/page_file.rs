//! The lab's file on its page: read, changed with its steps shown first, and saved, in Chromium.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;

use netloom_tests_e2e::browser::Browser;
use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{Machine, machine, needs, pair, wait_until};

use super::page_browser::Page;

/// Changes the text as a person would, by a statement about `text`.
fn change(browser: &Browser, statement: &str) {
    browser.run(&format!(
        "const box = document.querySelector('#file-text'); let text = box.value; {statement}; \
         Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(box, text); \
         box.dispatchEvent(new Event('input', {{bubbles: true}}));"
    ));
}

/// The lab's nodes by name: in the lab they are in the order of its file.
fn nodes(machine: &Machine) -> Vec<String> {
    let mut names = machine.nodes();
    names.sort();
    names
}

/// Waits until the steps have just these lines.
fn steps(browser: &Browser, lines: &[&str]) {
    let lines = serde_json::json!(lines);
    browser.until("document.querySelector('#file-steps')");
    let found = browser
        .value("[...document.querySelectorAll('#file-steps .steps li')].map((e) => e.innerText)");
    assert_eq!(found, lines);
}

#[test]
fn a_changed_file_is_applied_after_its_steps_were_shown() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(&pair(""));
    machine.ok("node create c");
    let page = Page::of(&machine);
    let browser = Browser::start(machine.scratch(), (1440, 900));
    page.open(&browser);
    browser.click("#file");
    // What was changed by hand is in it.
    browser.until("/^  c:/m.test(document.querySelector('#file-text')?.value)");
    browser.click("#file-plan");
    browser.until("document.querySelector('#file-steps')");
    steps(&browser, &[]);
    change(&browser, "text = text.replace(/^nodes:\\n/m, 'nodes:\\n  d: {}\\n')");
    browser.click("#file-plan");
    steps(&browser, &["+ node d"]);
    browser.picture(machine.scratch(), "page-file");
    assert_eq!(nodes(&machine), ["a", "b", "c"], "nothing is done yet");
    browser.click("#file-apply");
    browser.until("document.querySelector('#file-steps .said')?.innerText === 'Done: 1 step.'");
    assert_eq!(nodes(&machine), ["a", "b", "c", "d"]);
    browser.until("document.querySelector(\"[data-key='node d']\")");
    // What is wrong is said in the words of `check`, with its place.
    change(&browser, "text = text.replace('nodes:', 'node:')");
    browser.click("#file-plan");
    browser.until("document.querySelector('dialog .trouble')?.innerText.includes('node')");
    page.refused(&browser, &[400]);
    // Steps that were shown and are not those of now are not done.
    browser.click("#file-read");
    // The wrong text before has a `d`, too.
    browser.until("/^nodes:\\n(  .*\\n)*  d:/m.test(document.querySelector('#file-text').value)");
    change(&browser, "text = text.replace(/^  d: \\{\\}\\n/m, '')");
    browser.click("#file-plan");
    browser.until("document.querySelector('#file-steps .bad')?.innerText.startsWith('- node d')");
    machine.ok("node delete d");
    browser.click("#file-apply");
    browser.until("document.querySelector('dialog .trouble')?.innerText.includes('expected')");
    page.refused(&browser, &[409]);
    // With the places of the map, saved, and a lab file.
    browser.click("#file-places");
    browser.until("document.querySelector('#file-text').value.includes('\\nx-layout:\\n')");
    browser.click("#file-save");
    let path = browser.downloads().join("pair.yaml");
    let saved = || std::fs::read_to_string(&path).ok().filter(|text| text.contains("x-layout:"));
    let text = wait_until("it is saved", SOON, saved);
    assert!(text.contains("\n  c:"), "{text}");
    machine.netloom([OsStr::new("check"), path.as_os_str()]).ok();
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}

#[test]
fn a_file_comes_and_goes_over_http() {
    let machine = machine!();
    machine.up(&pair(""));
    let ask = |page: &Page, method: &str, body: &str| {
        let link = page.link.strip_prefix("http://").expect("a link");
        let (address, token) = link.split_once("/#").expect("a token");
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(SOON)).expect("set a time");
        let head = format!(
            "{method} /v1/lab/file HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("ask");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let status: u16 =
            text.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        let body = text.split_once("\r\n\r\n").expect("a body").1.to_owned();
        (status, body)
    };
    let page = Page::of(&machine);
    let (status, body) = ask(&page, "GET", "");
    let file: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert!(status == 200 && file["text"].as_str().is_some_and(|text| text.contains("nodes:")));
    let changed = file["text"].as_str().expect("a text").replace("nodes:\n", "nodes:\n  c: {}\n");
    let wanted = serde_json::json!({"text": changed}).to_string();
    let (status, body) = ask(&page, "POST", &wanted);
    let told: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (status, &told["steps"][0]["line"], &told["done"]),
        (200, &"+ node c".into(), &false.into())
    );
    let wrong = serde_json::json!({"text": changed, "expected": "0"}).to_string();
    let (status, body) = ask(&page, "POST", &wrong);
    assert!(
        status == 409 && body.contains("other steps than the expected ones"),
        "{status} {body}"
    );
    for wrong in
        ["", "{}", "{\"text\": 1}", "{\"text\": \"\", \"x\": 1}", "{\"text\": \"nodes: [\"}"]
    {
        assert_eq!(ask(&page, "POST", wrong).0, 400, "{wrong}");
    }
    assert_eq!(nodes(&machine), ["a", "b"]);
    let right = serde_json::json!({"text": changed, "expected": told["digest"]}).to_string();
    assert_eq!(ask(&page, "POST", &right).0, 200);
    assert_eq!(nodes(&machine), ["a", "b", "c"]);
    drop(page);
    let page = Page::with(&machine, &["--read-only"]);
    assert_eq!(ask(&page, "GET", "").0, 200);
    assert_eq!(ask(&page, "POST", &wanted).0, 403);
    drop(page);
    machine.down();
}
