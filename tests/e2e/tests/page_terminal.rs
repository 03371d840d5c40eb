//! Terminals of the lab's page: in Chromium, and spoken to byte by byte (RFC 6455).

use std::io::{Read, Write};
use std::net::TcpStream;

use netloom_tests_e2e::browser::Browser;
use netloom_tests_e2e::live::SOON;
use netloom_tests_e2e::{Machine, kill, machine, needs, pair, wait_until, with_command_line};

use super::page_browser::{Page, shows};

/// Whether a program with these words runs anywhere.
fn runs(words: &str) -> bool {
    !with_command_line(words).is_empty()
}

/// A number of seconds that no other test sleeps for.
fn seconds(which: u32) -> String {
    (1_000_000 + u64::from(std::process::id()) * 10 + u64::from(which)).to_string()
}

const LINES: &str = "[...document.querySelectorAll('.screen:not([hidden]) .xterm-rows > div')]";

/// Waits until a line of the terminal in front has this text, which the typed line has not.
fn line(browser: &Browser, text: &str) {
    browser.until(&format!(
        "{LINES}.some((e) => e.textContent.trim() === {})",
        serde_json::json!(text)
    ));
}

fn opened(machine: &Machine) -> (Page, Browser) {
    let page = Page::of(machine);
    let browser = Browser::start(machine.scratch(), (1440, 900));
    page.open(&browser);
    (page, browser)
}

/// Presses a node twice, and waits for its shell.
fn enter(browser: &Browser, node: &str) {
    browser.double_click_at(&format!(
        "(() => {{ const b = document.querySelector(\"[data-key='node {node}'] .shape\").getBoundingClientRect(); \
         return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
    ));
    browser.until("document.querySelector('.terminal-state')?.innerText === ''");
    browser.until("document.activeElement.classList.contains('xterm-helper-textarea')");
}

#[test]
fn a_node_that_is_pressed_twice_has_a_terminal_that_follows_its_size() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(&pair(""));
    let (page, browser) = opened(&machine);
    let loaded = browser.requested();
    assert!(!loaded.iter().any(|url| url.ends_with("/terminal.js")), "{loaded:?}");
    enter(&browser, "a");
    browser.keys("echo $((6 * 7)) $NETLOOM_NODE\n");
    line(&browser, "42 a");
    // As many rows and columns as it shows, before and after it has grown.
    let rows = || browser.value(&format!("{LINES}.length")).as_u64().expect("a number");
    let size = |turn: u32| {
        browser.keys(&format!("echo ={turn} $(stty size)=\n"));
        let found = format!(
            "{LINES}.map((e) => /^={turn} (\\d+) (\\d+)=$/.exec(e.textContent.trim())).find((m) => m)"
        );
        browser.until(&found);
        let found = browser.value(&format!("{found}.slice(1).map(Number)"));
        [0, 1].map(|at| found[at].as_u64().expect("a number"))
    };
    let [before, columns] = size(1);
    assert_eq!(before, rows());
    assert!(columns > 80, "{columns}");
    browser.click("#terminal-size");
    browser.until(&format!("{LINES}.length > {before}"));
    browser.run("document.querySelector('.xterm-helper-textarea').focus()");
    browser.until("document.activeElement.classList.contains('xterm-helper-textarea')");
    let [after, _] = size(2);
    assert!(after > before && after == rows(), "{before} {after}");
    // Colours of any kind, which xterm writes into styles, within the page's policy.
    browser.keys("printf '\\033[38;2;17;170;85mgreen\\033[0m\\n'\n");
    let green =
        "[...document.querySelectorAll('.xterm-rows span')].find((e) => e.textContent === 'green')";
    browser.until(green);
    let colour = browser.value(&format!("getComputedStyle({green}).color"));
    assert_ne!(
        colour,
        browser.value("getComputedStyle(document.querySelector('.xterm-rows')).color")
    );
    // Text beyond ASCII arrives whole.
    browser.keys("printf '%s' 'é€' | wc -c\n");
    line(&browser, "5");
    second_tab(&browser);
    page.is_clean(&browser);
    browser.picture(machine.scratch(), "page-terminal");
    drop(browser);
    drop(page);
    machine.down();
}

/// A second terminal in a tab, from the panel of a node, which ends and begins again by itself.
fn second_tab(browser: &Browser) {
    browser.click("[data-key='node b'] .shape");
    browser.click("#enter");
    browser.until("document.querySelectorAll('[role=tab]').length === 2");
    browser.until("document.querySelector('.terminal-state')?.innerText === ''");
    browser.until(
        "document.activeElement.closest('.screen')?.getAttribute('aria-label') === 'Terminal of b'",
    );
    browser.keys("echo $NETLOOM_NODE; exit 3\n");
    line(browser, "b");
    shows(browser, ".terminal-state", "ended with 3");
    browser.click("#terminal-again");
    browser.until("document.querySelector('.terminal-state')?.innerText === ''");
    browser.keys("echo again $NETLOOM_NODE\n");
    line(browser, "again b");
    browser.click("[role=tab]");
    line(browser, "5");
}

#[test]
fn what_runs_in_a_terminal_ends_with_it_and_with_its_page() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(&pair(""));
    let (page, browser) = opened(&machine);
    let ended = |words: &str| wait_until("it ends", SOON, || (!runs(words)).then_some(()));
    let starts = |words: &str| wait_until("it starts", SOON, || runs(words).then_some(()));
    let program = |which| format!("sleep {}", seconds(which));
    enter(&browser, "a");
    browser.keys(&format!("{}\n", program(1)));
    starts(&program(1));
    browser.click("#terminal-close");
    ended(&program(1));
    browser.until("!document.querySelector('.terminals')");
    // One that ignores the hang-up, and a page that goes.
    enter(&browser, "a");
    browser.keys(&format!("trap '' HUP; {}\n", program(2)));
    starts(&program(2));
    browser.open("about:blank");
    ended(&program(2));
    // And the server.
    page.open(&browser);
    enter(&browser, "b");
    browser.keys(&format!("{}\n", program(3)));
    starts(&program(3));
    drop(page);
    ended(&program(3));
    drop(browser);
    machine.down();
}

#[test]
fn a_terminal_lives_on_while_its_lab_is_adopted_and_ends_with_its_node() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    let file = machine.file(&pair(""));
    machine.up_file(&file);
    let (page, browser) = opened(&machine);
    enter(&browser, "a");
    browser.keys("kept=$((6 * 7)); echo $kept\n");
    line(&browser, "42");
    kill(machine.lab_process());
    browser.until("document.body.dataset.hearing === 'away'");
    browser.keys("echo alone $kept\n");
    line(&browser, "alone 42");
    machine.up_file(&file);
    browser.until("document.body.dataset.hearing === 'live'");
    browser.keys("echo adopted $kept\n");
    line(&browser, "adopted 42");
    assert_eq!(browser.text(".terminal-state"), "");
    // A shell ends with its node; the new node's begins when it is wanted.
    machine.netloom(["down"]).finish().code(0);
    browser.until("document.querySelector('.terminal-state')?.innerText.startsWith('ended')");
    machine.up_file(&file);
    browser.until("document.body.dataset.hearing === 'live'");
    browser.click("#terminal-again");
    browser.until("document.querySelector('.terminal-state')?.innerText === ''");
    browser.run("document.querySelector('.xterm-helper-textarea').focus()");
    browser.keys("echo new $kept $NETLOOM_NODE\n");
    line(&browser, "new a");
    drop(browser);
    drop(page);
    machine.down();
}

/// A caller of a terminal without a browser.
struct Caller(TcpStream);

impl Caller {
    /// Asks for a terminal; the status of the answer.
    fn ask(link: &str, node: &str) -> (u16, Caller) {
        let (address, token) =
            link.strip_prefix("http://").and_then(|link| link.split_once("/#")).expect("a link");
        let hex: String = token.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(SOON)).expect("set a time");
        let head = format!(
            "GET /v1/nodes/{node}/terminal HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\nconnection: Upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: netloom.terminal, netloom.token.{hex}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("ask");
        let mut answer = vec![];
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).to_lowercase();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        if status == 101 {
            // The key's answer is that of RFC 6455, section 1.3; the token does not come back.
            assert!(
                answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
                "{answer}"
            );
            assert!(answer.contains("sec-websocket-protocol: netloom.terminal\r\n"), "{answer}");
        }
        (status, Caller(stream))
    }

    /// Sends a frame: 1 a text, 2 bytes, 9 a ping. Masked with zeros, as what is sent stays readable so.
    fn send(&mut self, kind: u8, bytes: &[u8]) {
        let length = u8::try_from(bytes.len()).ok().filter(|length| *length < 126).expect("short");
        let frame = [&[0x80 | kind, 0x80 | length, 0, 0, 0, 0][..], bytes].concat();
        self.0.write_all(&frame).expect("send");
    }

    /// The next frame: its kind and bytes.
    fn next(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a frame");
        let mut longer = vec![
            0;
            match head[1] {
                126 => 2,
                127 => 8,
                _ => 0,
            }
        ];
        self.0.read_exact(&mut longer).expect("its length");
        let length = match longer.is_empty() {
            true => usize::from(head[1]),
            false => longer.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)),
        };
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).expect("its bytes");
        (head[0] & 0xF, bytes)
    }
}

/// What the server sends at most before the caller has taken something.
const WINDOW: usize = 256 << 10;

#[test]
fn a_terminal_whose_reader_stalls_waits_for_it() {
    let machine = machine!();
    machine.up(&pair(""));
    let page = Page::of(&machine);
    assert_eq!(Caller::ask(&page.link, "nobody").0, 404);
    let (status, mut caller) = Caller::ask(&page.link, "a");
    assert_eq!(status, 101);
    let word = format!("y{}", seconds(4));
    caller.send(1, br#"{"size":[80,24]}"#);
    caller.send(2, format!("exec yes {word}\n").as_bytes());
    let mut shown = 0;
    while shown < WINDOW {
        let (kind, bytes) = caller.next();
        assert_eq!(kind, 2);
        shown += bytes.len();
    }
    assert!(shown < WINDOW + (64 << 10), "{shown}");
    // It goes on writing, but what it writes is kept back: the next that comes is the answer to this.
    caller.send(9, b"there?");
    assert_eq!(caller.next(), (10, b"there?".to_vec()));
    assert!(runs(&format!("yes {word}")));
    caller.send(1, format!("{{\"taken\":{shown}}}").as_bytes());
    let (kind, bytes) = caller.next();
    assert!(kind == 2 && String::from_utf8_lossy(&bytes).contains('y'), "{kind}");
    // One that says what nobody may is left.
    caller.send(1, b"what?");
    wait_until("it ends", SOON, || (!runs(&format!("yes {word}"))).then_some(()));
    drop(page);
    machine.down();
}

#[test]
fn a_page_for_looking_alone_has_no_terminals() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(&pair(""));
    let page = Page::with(&machine, &["--read-only"]);
    assert_eq!(Caller::ask(&page.link, "a").0, 403);
    let browser = Browser::start(machine.scratch(), (1200, 800));
    page.open(&browser);
    browser.click("[data-key='node a'] .shape");
    browser.click("#enter");
    browser.until("document.querySelector('.terminal-state')?.innerText.includes('--read-only')");
    browser.click("[data-link='a:eth0--b:eth0'] .line");
    browser.click("#cable");
    browser.until("document.querySelector('aside .trouble')?.innerText.includes('--read-only')");
    assert_eq!(machine.link("a:eth0--b:eth0")["down"], false);
    drop(browser);
    drop(page);
    machine.down();
}
