//! `netloom serve --page`: what is printed, what a browser would be opened with, and what is asked without one.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Run, machine, pair, wait_until};

/// The status of a request, and the answer.
fn ask(address: &str, path: &str, more: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(SOON)).expect("set a time");
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).expect("ask");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    (status.expect("a status"), text)
}

#[test]
fn the_link_opens_the_page_and_its_token_the_lab() {
    let machine = machine!();
    machine.up(&pair(""));
    // The only lab need not be named.
    let mut held = Held::start(machine.netloom(["serve", "--page", "--listen", "127.0.0.1:0"]));
    let (_serving, _how, page) = (held.line(), held.line(), held.line());
    let link = page.strip_prefix("page http://").expect("a link");
    let (address, token) = link.split_once("/#").expect("a token in the fragment");
    let (status, text) = ask(address, "/", "");
    assert!(status == 200 && text.contains("<title>netloom</title>"), "{text}");
    assert_eq!(ask(address, "/v1/lab", "").0, 403);
    let (status, text) = ask(address, "/v1/lab", &format!("authorization: Bearer {token}\r\n"));
    assert!(status == 200 && text.contains("\"name\":\"pair\""), "{text}");
    let evil = format!("authorization: Bearer {token}\r\norigin: http://evil.example\r\n");
    assert_eq!(ask(address, "/v1/lab", &evil).0, 403);
    drop(held);
    let args = ["serve", "--page", "--listen", "127.0.0.1:0", "--token-file", "token"];
    let mut held = Held::start(machine.netloom(args).dir(machine.scratch().path()));
    let (_serving, _how, page) = (held.line(), held.line(), held.line());
    let token = fs::read_to_string(machine.scratch().path().join("token")).expect("the token");
    assert!(!page.contains(token.trim()), "{page}");
    assert!(page.ends_with("/# with the token of 'token' behind #"), "{page}");
    drop(held);
    machine.netloom(["serve", "--page", "--name", "x"]).finish().code(2);
    machine.netloom(["down"]).finish().code(0);
    machine.netloom(["serve", "--page"]).finish().code(1).says("no lab is running");
    machine.down();
}

/// Notes its argument, and the file that this names; as a browser's start it takes its time.
const XDG_OPEN: &str = "#!/bin/sh
umask 077
stat -c %a \"$1\" >\"$NOTES/mode\"; cat \"$1\" >\"$NOTES/html\"; echo \"$#\" \"$1\" >\"$NOTES/part\" && mv \"$NOTES/part\" \"$NOTES/args\"
";

#[test]
fn a_browser_is_opened_without_telling_others_the_token() {
    let machine = machine!();
    machine.up(&pair(""));
    let scratch = machine.scratch().path().to_owned();
    let bin = scratch.join("bin");
    fs::create_dir(&bin).expect("make a folder");
    fs::write(bin.join("xdg-open"), XDG_OPEN).expect("write");
    fs::set_permissions(bin.join("xdg-open"), fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let serve = |args: &[&str]| -> Run {
        let args = [&["-l", "pair", "serve", "--listen", "127.0.0.1:0"], args].concat();
        machine.netloom(args).env("PATH", &path).env("NOTES", &scratch)
    };
    let mut held = Held::start(serve(&["--open"]));
    let (_serving, _how, page) = (held.line(), held.line(), held.line());
    let link = page.strip_prefix("page ").expect("a link").to_owned();
    let token = link.split_once("/#").expect("a token").1.to_owned();
    let args = held.until("xdg-open is started", || fs::read_to_string(scratch.join("args")).ok());
    let file = args.trim().strip_prefix("1 ").expect("one argument").to_owned();
    assert!(!file.contains(&token), "others could read it: {file}");
    assert_eq!(fs::read_to_string(scratch.join("mode")).expect("its mode"), "600\n");
    let html = fs::read_to_string(scratch.join("html")).expect("the file");
    assert!(html.contains(&format!("content=\"0; url={link}\"")), "{html}");
    assert_eq!(fs::metadata(&file).expect("it stays").mode() & 0o777, 0o600);
    netloom_tests_e2e::signal(held.pid(), rustix::process::Signal::INT);
    held.rest();
    wait_until("its file goes", SOON, || (!fs::exists(&file).expect("look")).then_some(()));
    // One that is killed leaves its file to the lab.
    fs::remove_file(scratch.join("args")).expect("remove");
    let mut held = Held::start(serve(&["--open"]));
    let args = held.until("xdg-open is started", || fs::read_to_string(scratch.join("args")).ok());
    let left = args.trim().strip_prefix("1 ").expect("one argument").to_owned();
    drop(held);
    assert!(fs::exists(&left).expect("look"), "{left}");
    // Without xdg-open the page is served all the same.
    fs::remove_file(bin.join("xdg-open")).expect("remove");
    let mut held = Held::start(serve(&["--open"]).env("PATH", &bin));
    let (_serving, _how, page) = (held.line(), held.line(), held.line());
    let said = held.error_line();
    assert!(
        said.contains("--open: xdg-open: start") && said.ends_with("open the link yourself"),
        "{said}"
    );
    let address = page.strip_prefix("page http://").and_then(|link| link.split('/').next());
    assert_eq!(ask(address.expect("an address"), "/", "").0, 200);
    drop(held);
    machine.down();
    assert!(!fs::exists(&left).expect("look"), "{left}");
}
