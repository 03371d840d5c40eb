//! The lab's page on a port: its files for everybody, the lab for the token's holder, but never for other sites' pages.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use netloom_api::{Gate, Offer, Server, Token, serve_lab};

use super::fake::Served;

const FILES: [(&str, &str); 6] = [
    ("/", "text/html; charset=utf-8"),
    ("/app.js", "text/javascript; charset=utf-8"),
    ("/terminal.js", "text/javascript; charset=utf-8"),
    ("/app.css", "text/css; charset=utf-8"),
    ("/icon.svg", "image/svg+xml"),
    ("/licences.txt", "text/plain; charset=utf-8"),
];

/// A lab's port with its page.
struct Page {
    served: Served,
    _server: Server,
    port: u16,
    token: String,
}

/// What came back.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let all = self.head.lines().filter_map(|line| line.split_once(": "));
        all.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Page {
    fn new() -> Page {
        let served = Served::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let token = Token::random().unwrap();
        let gate = Gate::new(token.clone(), vec!["box".to_owned()]).with_page();
        // No test here gets as far as a shell.
        let offer = Offer { shell: Some(vec![]), ..Offer::default() };
        let server = serve_lab(listener, served.path(), gate, offer).unwrap();
        Page { served, _server: server, port, token: token.text().to_owned() }
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sends a request with just these headers.
    fn raw(&self, line: &str, headers: &[(&str, &str)]) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request = format!("{line} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = vec![];
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Asks with a good host and token, and these headers besides.
    fn ask(&self, line: &str, more: &[(&str, &str)]) -> Answer {
        let (host, token) = (self.host(), format!("Bearer {}", self.token));
        let headers = [("host", host.as_str()), ("authorization", token.as_str())];
        self.raw(line, &[&headers, more].concat())
    }
}

#[test]
fn files_are_for_everybody_and_the_lab_is_for_who_has_the_token() {
    let page = Page::new();
    let host = page.host();
    for (path, kind) in FILES {
        let answer = page.raw(&format!("GET {path}"), &[("host", &host)]);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
        assert!(!answer.body.is_empty() && !answer.body.contains(&page.token), "{path}");
        let head = page.raw(&format!("HEAD {path}"), &[("host", &host)]);
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
    }
    assert_eq!(page.ask("GET /v1/lab", &[]).status, 200);
    // Neither the lab nor anything else that is not a file, and no other method.
    for line in ["GET /v1/lab", "GET /v1/events", "GET /pnpm/", "GET /nothing", "GET //", "POST /"]
    {
        assert_eq!(page.raw(line, &[("host", &host)]).status, 403, "{line}");
    }
    let wrong = format!("Bearer {}", page.token.replace(|c: char| c.is_ascii_digit(), "f"));
    for value in [wrong.as_str(), "Bearer ", "Basic YTpi"] {
        let answer = page.raw("GET /v1/lab", &[("host", &host), ("authorization", value)]);
        assert_eq!((answer.status, answer.header("www-authenticate")), (403, None), "{value}");
    }
    let twice = [("authorization", "Bearer x")];
    assert_eq!(page.ask("GET /v1/lab", &twice).status, 403);
}

#[test]
fn a_name_that_was_pointed_here_gets_nothing() {
    let page = Page::new();
    let token = format!("Bearer {}", page.token);
    for host in ["127.0.0.1", "localhost:8474", "[::1]:8474", "box"] {
        let answer = page.raw("GET /v1/lab", &[("host", host), ("authorization", &token)]);
        assert_eq!(answer.status, 200, "{host}");
    }
    page.served.fake.asked.lock().unwrap().clear();
    // After rebinding a browser says the attacker's name, as host and, where it sends one, as origin.
    for host in
        ["evil.example", "evil.example:8474", "localhost.evil.example", "127.0.0.1.evil.example"]
    {
        let origin = format!("http://{host}");
        let headers = [("host", host), ("authorization", token.as_str()), ("origin", &origin)];
        for path in ["/", "/app.js", "/v1/lab"] {
            let line = format!("GET {path}");
            assert_eq!(page.raw(&line, &headers[..2]).status, 403, "{host} {path}");
            assert_eq!(page.raw(&line, &headers).status, 403, "{host} {path}");
        }
    }
    assert_eq!(page.raw("GET /", &[]).status, 403, "no host");
    assert_eq!(page.ask("GET /v1/lab", &[("host", "evil.example")]).status, 403, "two hosts");
    assert_eq!(page.served.fake.asked.lock().unwrap().len(), 0);
}

#[test]
fn other_sites_pages_get_nothing() {
    let page = Page::new();
    let own = format!("http://{}", page.host());
    assert_eq!(page.ask("GET /v1/lab", &[("origin", &own)]).status, 200);
    let same =
        [("origin", own.as_str()), ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")];
    assert_eq!(page.ask("GET /v1/lab", &same).status, 200);
    page.served.fake.asked.lock().unwrap().clear();
    for origin in ["null", "https://evil.example", "http://127.0.0.1:1", "http://localhost"] {
        for line in ["GET /v1/lab", "DELETE /v1/lab", "GET /", "OPTIONS /v1/lab"] {
            let answer = page.ask(line, &[("origin", origin)]);
            assert_eq!(answer.status, 403, "{line} {origin}");
            assert_eq!(answer.header("access-control-allow-origin"), None, "{line} {origin}");
        }
    }
    for site in ["cross-site", "same-site", "none, cross-site"] {
        assert_eq!(page.ask("GET /v1/lab", &[("sec-fetch-site", site)]).status, 403, "{site}");
        assert_eq!(page.ask("GET /app.js", &[("sec-fetch-site", site)]).status, 403, "{site}");
    }
    // A link in another page may lead here; a frame may not.
    let led = |dest: &'static str| {
        let headers = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        let host = page.host();
        let all = [&[("host", host.as_str())], &headers[..], &[("sec-fetch-dest", dest)]].concat();
        page.raw("GET /", &all).status
    };
    assert_eq!((led("document"), led("iframe"), led("object")), (200, 403, 403));
    assert_eq!(page.served.fake.asked.lock().unwrap().len(), 0);
}

/// What a browser sends for a WebSocket (RFC 6455, section 4.1).
const UPGRADE: [(&str, &str); 3] = [
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

#[test]
fn a_terminal_is_only_for_the_holder_of_the_token_and_its_own_page() {
    const TERMINAL: &str = "GET /v1/nodes/h1/terminal";
    let page = Page::new();
    let (host, own) = (page.host(), format!("http://{}", page.host()));
    let hex: String = page.token.bytes().map(|byte| format!("{byte:02x}")).collect();
    let offered = format!("netloom.terminal, netloom.token.{hex}");
    let opened = |host: &str, origin: &str, protocols: &str| {
        let own = [("host", host), ("origin", origin), ("sec-websocket-protocol", protocols)];
        page.raw(TERMINAL, &[&own[..], &UPGRADE].concat())
    };
    // Good, but that it is asked by `connection: close`.
    let answer = opened(&host, &own, &offered);
    assert_eq!(answer.status, 426, "{}", answer.body);
    page.served.fake.asked.lock().unwrap().clear();
    for wrong in [
        "netloom.terminal",
        "netloom.terminal, netloom.token.",
        "netloom.terminal, netloom.token.00",
        &format!("{offered}, netloom.token.{hex}"),
        &format!("netloom.terminal, netloom.token.{}", hex.replace('3', "4")),
        &format!("netloom.terminal, {}", page.token),
    ] {
        assert_eq!(opened(&host, &own, wrong).status, 403, "{wrong}");
    }
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"] {
        assert_eq!(opened(&host, origin, &offered).status, 403, "{origin}");
    }
    for host in ["evil.example", "evil.example:80", ""] {
        assert_eq!(opened(host, &own, &offered).status, 403, "{host}");
        assert_eq!(opened(host, &format!("http://{host}"), &offered).status, 403, "{host}");
    }
    let cross = [
        ("host", host.as_str()),
        ("sec-fetch-site", "cross-site"),
        ("sec-websocket-protocol", &offered),
    ];
    assert_eq!(page.raw(TERMINAL, &[&cross[..], &UPGRADE].concat()).status, 403);
    // A token as a protocol is for terminals alone.
    let elsewhere = [("host", host.as_str()), ("sec-websocket-protocol", offered.as_str())];
    for line in ["GET /v1/lab", "GET /v1/events", "DELETE /v1/lab", "GET /v1/nodes/h1"] {
        assert_eq!(page.raw(line, &elsewhere).status, 403, "{line}");
    }
    assert_eq!(page.served.fake.asked.lock().unwrap().len(), 0);
}

#[test]
fn a_port_for_looking_alone_changes_nothing() {
    let served = Served::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let token = Token::random().unwrap();
    let gate = Gate::new(token.clone(), vec![]).with_page();
    let offer = Offer { shell: Some(vec![]), read_only: true, ..Offer::default() };
    let server = serve_lab(listener, served.path(), gate, offer).unwrap();
    let page = Page { served, _server: server, port, token: token.text().to_owned() };
    for line in
        ["GET /", "GET /terminal.js", "GET /v1/lab", "GET /v1/nodes/h1", "GET /v1/openapi.json"]
    {
        assert_eq!(page.ask(line, &[]).status, 200, "{line}");
    }
    let document: serde_json::Value = serde_json::from_str(&netloom_api::openapi()).unwrap();
    page.served.fake.asked.lock().unwrap().clear();
    let mut refused = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if !matches!(operation["x-rights"].as_str(), Some("changes" | "destroys")) {
                continue;
            }
            let path = path.replace(['{', '}'], "");
            let answer = page.ask(&format!("{} {path}", method.to_uppercase()), &[]);
            assert_eq!(answer.status, 403, "{method} {path}");
            assert!(answer.body.contains("--read-only"), "{}", answer.body);
            refused += 1;
        }
    }
    assert!(refused >= 15, "{refused}");
    for line in ["GET /v1/nodes/h1/terminal", "POST /pnpm/", "GET /nowhere", "PATCH /v1/lab"] {
        assert_eq!(page.ask(line, &[]).status, 403, "{line}");
    }
    assert_eq!(page.served.fake.asked.lock().unwrap().len(), 0);
}

#[test]
fn a_browser_may_load_only_what_this_server_has() {
    let page = Page::new();
    let evil = [("origin", "http://evil.example")];
    for answer in
        [page.ask("GET /", &[]), page.ask("GET /v1/lab", &[]), page.ask("GET /v1/lab", &evil)]
    {
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "),
            "{policy}"
        );
        for part in [
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|own| own == part), "{part}: {policy}");
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
    }
    // What the policy would refuse is not there: scripts and styles in the text, and addresses elsewhere.
    let html = page.ask("GET /", &[]).body;
    let lower = html.to_lowercase();
    assert!(
        lower.matches("<script").count()
            == lower.matches("<script type=\"module\" src=\"/").count(),
        "{html}"
    );
    for refused in
        ["<style", " style=", " onload=", " onclick=", "javascript:", "http:", "https:", "//"]
    {
        assert!(!lower.contains(refused), "{refused}: {html}");
    }
    let mut named = 0;
    for attribute in ["src=\"", "href=\""] {
        for after in html.split(attribute).skip(1) {
            let path = after.split('"').next().unwrap();
            assert!(FILES.iter().any(|(known, _)| *known == path), "{path}");
            named += 1;
        }
    }
    assert_eq!(named, 3);
    let css = page.ask("GET /app.css", &[]).body;
    assert!(!css.contains("url(") && !css.contains("@import"), "it loads something");
}

#[test]
fn a_port_without_the_page_has_none_of_it() {
    let served = Served::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let token = Token::random().unwrap();
    let server =
        serve_lab(listener, served.path(), Gate::new(token.clone(), vec![]), Offer::default())
            .unwrap();
    let page = Page { served, _server: server, port, token: token.text().to_owned() };
    let (host, own) = (page.host(), format!("http://{}", page.host()));
    assert_eq!(page.raw("GET /", &[("host", &host)]).status, 401);
    assert_eq!(page.ask("GET /", &[]).status, 404);
    let refused = page.ask("GET /v1/lab", &[("origin", &own)]);
    assert_eq!((refused.status, refused.header("content-security-policy")), (403, None));
}
