//! Captures of links from the lab's page: as a stream over HTTP, and saved by Chromium.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use netloom_tests_e2e::browser::Browser;
use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, machine, needs, pair, wait_until, with_command_line};

use super::page_browser::{Page, shows};

const LINK: &str = "a:eth0--b:eth0";

/// The protocols of IPv4 packets in a pcapng file of whole blocks, and `None` for each other frame.
fn protocols(file: &[u8]) -> Vec<Option<u8>> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes"));
    assert_eq!(word(0), 0x0A0D_0D0A, "a section header");
    let (mut at, mut found) = (0, vec![]);
    while at < file.len() {
        let length = usize::try_from(word(at + 4)).expect("fits");
        // The last one may not have come whole.
        if at + length > file.len() {
            break;
        }
        assert_eq!(word(at + length - 4) as usize, length, "the block at {at}");
        // An enhanced packet block: its frame begins behind 28 bytes.
        if word(at) == 6 {
            let frame = &file[at + 28..];
            found.push((frame[12..14] == [8, 0]).then_some(frame[23]));
        }
        at += length;
    }
    found
}

const ICMP: Option<u8> = Some(1);

/// The chunks of an answer (RFC 9112, section 7.1).
struct Chunks(BufReader<TcpStream>);

impl Chunks {
    /// Asks; the head of the answer, and what follows.
    fn ask(link: &str, path: &str) -> (String, Chunks) {
        let link = link.strip_prefix("http://").expect("a link");
        let (address, token) = link.split_once("/#").expect("a token");
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(SOON)).expect("set a time");
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("ask");
        let (mut answer, mut head) = (BufReader::new(stream), String::new());
        while !head.ends_with("\r\n\r\n") {
            assert!(answer.read_line(&mut head).expect("an answer") > 0, "{head}");
        }
        (head, Chunks(answer))
    }

    fn next(&mut self) -> Vec<u8> {
        let mut size = String::new();
        self.0.read_line(&mut size).expect("a chunk");
        let size = usize::from_str_radix(size.trim(), 16).expect("its size");
        let mut bytes = vec![0; size + 2];
        self.0.read_exact(&mut bytes).expect("its bytes");
        bytes.truncate(size);
        bytes
    }
}

/// How many captures this machine's servers run.
fn captures(machine: &Machine) -> usize {
    let runtime = machine.scratch().runtime_dir().display().to_string();
    let is_own = |pid: &i32| {
        let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&all).contains(&runtime)
    };
    with_command_line("capture-process").iter().filter(|pid| is_own(pid)).count()
}

#[test]
fn a_links_frames_come_as_a_file_while_somebody_reads_them() {
    let machine = machine!();
    machine.up(&pair(""));
    machine.answers("a", "b");
    let page = Page::with(&machine, &["--read-only"]);
    let path = format!("/v1/links/{LINK}/capture");
    let (head, _) = Chunks::ask(&page.link, "/v1/links/nothing/capture");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    for query in
        ["?filter=tcp+port+x", "?filter=%FF", "?filters=tcp", "?filter=tcp&filter=udp", "?own=x"]
    {
        let (head, _) = Chunks::ask(&page.link, &format!("{path}{query}"));
        assert!(head.starts_with("HTTP/1.1 400 "), "{query}: {head}");
    }
    // A measurement marks packets.
    let (head, _) = Chunks::ask(&page.link, "/v1/nodes/a/measure?to=b");
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    let (head, mut chunks) = Chunks::ask(&page.link, &format!("{path}?filter=icmp"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/x-pcapng\r\n"), "{head}");
    let ping = Held::start(machine.exec("a", &["ping", "-4", "-i", "0.2", "b"]));
    let datagram =
        "import socket; socket.socket(2, 2).sendto(b'x', (socket.gethostbyname('b'), 9))";
    machine.python("a", datagram, &[]).finish().code(0);
    let mut file = chunks.next();
    while protocols(&file).len() < 6 {
        file.extend(chunks.next());
    }
    let found = protocols(&file);
    assert!(found.iter().all(|protocol| *protocol == ICMP), "{found:?}");
    // It ends with its reader.
    assert_eq!(captures(&machine), 1);
    drop(chunks);
    wait_until("it ends", SOON, || (captures(&machine) == 0).then_some(()));
    drop(ping);
    drop(page);
    machine.down();
}

#[test]
fn a_capture_goes_on_beside_other_panels_and_is_saved() {
    needs!("chromium", "chromedriver");
    let machine = machine!();
    machine.up(&pair(""));
    machine.answers("a", "b");
    let page = Page::of(&machine);
    let browser = Browser::start(machine.scratch(), (1440, 900));
    page.open(&browser);
    browser.click(&format!("[data-link='{LINK}'] .line"));
    browser.type_into("input[name=capture-filter]", "icmp or");
    browser.click("#capture-start");
    browser.until("document.querySelector('aside .trouble')?.innerText.includes('icmp or')");
    page.refused(&browser, &[400]);
    browser.type_into("input[name=capture-filter]", " icmp6");
    let command =
        format!("netloom -l pair capture link:{LINK} -w FILE.pcapng --filter 'icmp or icmp6'");
    shows(&browser, ".capture ~ .command code", &command.replace('\'', "\\'"));
    browser.click("#capture-start");
    browser.until("document.querySelector('#capture-stop')");
    let ping = Held::start(machine.exec("a", &["ping", "-4", "-i", "0.2", "b"]));
    // Nobody looks for a while.
    browser.click("[data-key='node a'] .shape");
    browser.until("!document.querySelector('#captured')");
    browser.click(&format!("[data-link='{LINK}'] .line"));
    browser.until("parseInt(document.querySelector('#captured')?.innerText) >= 6");
    browser.click("#capture-stop");
    browser.until("document.querySelector('#capture-save')");
    wait_until("it ends", SOON, || (captures(&machine) == 0).then_some(()));
    browser.picture(machine.scratch(), "page-capture");
    browser.click("#capture-save");
    let path = browser.downloads().join("a-eth0--b-eth0.pcapng");
    let saved = || std::fs::read(&path).ok().filter(|file| !file.is_empty());
    let found = protocols(&wait_until("it is saved", SOON, saved));
    assert!(found.iter().filter(|protocol| **protocol == ICMP).count() >= 4, "{found:?}");
    drop(ping);
    page.is_clean(&browser);
    drop(browser);
    drop(page);
    machine.down();
}
