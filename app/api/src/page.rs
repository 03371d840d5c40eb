//! The page that shows a lab in a browser: files inside the binary, and what a request from a browser must be like.
//!
//! `web/` has their sources. The files say nothing of any lab, so they are for everybody; whatever the page asks the lab needs
//! the token. The page has it from the fragment of its link and sends it in a header, which no other site's page can. A site that
//! makes its name mean this server (DNS rebinding) is told by that name, and has no token either. Headers forbid a browser to
//! run, load or frame anything else.

use axum::Router;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// What a browser may do for the page: load this server's own files and ask this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Headers of every answer on a port with the page.
const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
];

/// A file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! file {
    ($path:literal, $name:literal, $kind:literal) => {
        File {
            path: $path,
            kind: $kind,
            bytes: include_bytes!(concat!("../../../web/dist/", $name)),
        }
    };
}

const FILES: &[File] = &[
    file!("/", "index.html", "text/html; charset=utf-8"),
    file!("/app.js", "app.js", "text/javascript; charset=utf-8"),
    // Terminals: asked for when the first one is opened.
    file!("/terminal.js", "terminal.js", "text/javascript; charset=utf-8"),
    file!("/app.css", "app.css", "text/css; charset=utf-8"),
    // For other people's pages, which have a copy of it.
    file!("/netloom-map.js", "netloom-map.js", "text/javascript; charset=utf-8"),
    file!("/icon.svg", "icon.svg", "image/svg+xml"),
    file!("/licences.txt", "licences.txt", "text/plain; charset=utf-8"),
];

/// Adds the page's files to the routes of a port.
pub(crate) fn added<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    FILES.iter().fold(router, |router, file| {
        let headers = [(header::CONTENT_TYPE, file.kind), (header::CACHE_CONTROL, "no-cache")];
        router.route(file.path, get(move || async move { (headers, file.bytes).into_response() }))
    })
}

/// Whether a request asks for a file of the page, and for nothing else.
pub(crate) fn is_file(method: &Method, path: &str) -> bool {
    [Method::GET, Method::HEAD].contains(method) && FILES.iter().any(|file| file.path == path)
}

/// Gives an answer the headers of the page.
pub(crate) async fn guarded(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        answer.headers_mut().insert(HeaderName::from_static(name), value);
    }
    answer
}

/// Why a browser sends this on behalf of another page, if it does. `Host` is checked elsewhere.
pub(crate) fn foreign(method: &Method, path: &str, headers: &HeaderMap) -> Option<&'static str> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let own = headers.get(header::HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let is_own = |origin: &HeaderValue| {
        let authority = origin.to_str().ok().and_then(|text| text.strip_prefix("http://"));
        own.as_ref().is_some_and(|own| authority == Some(own.as_str()))
    };
    if !origins.all(is_own) {
        return Some("origin: not this server's page");
    }
    let has = |name: &str, values: &[&str]| {
        headers.get_all(name).iter().all(|value| values.iter().any(|known| value == known))
    };
    // A link to the page may stand anywhere: what opens as a document of its own learns nothing from the page that named it.
    let opens = is_file(method, path)
        && headers.contains_key("sec-fetch-dest")
        && has("sec-fetch-dest", &["document"])
        && has("sec-fetch-mode", &["navigate"]);
    if !opens && !has("sec-fetch-site", &["same-origin", "none"]) {
        return Some("sec-fetch-site: not this server's page");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, pairs: &[(&str, &str)]) -> Option<&'static str> {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        });
        foreign(&Method::GET, path, &pairs.collect())
    }

    #[test]
    fn an_origin_is_the_host_by_plain_http() {
        let host = ("host", "127.0.0.1:8474");
        assert_eq!(asked("/v1/lab", &[host]), None);
        assert_eq!(asked("/v1/lab", &[host, ("origin", "http://127.0.0.1:8474")]), None);
        for origin in [
            "null",
            "https://127.0.0.1:8474",
            "http://127.0.0.1",
            "http://127.0.0.1:84740",
            "http://localhost:8474",
            "http://evil.example",
            "http://127.0.0.1:8474, http://127.0.0.1:8474",
        ] {
            assert!(asked("/v1/lab", &[host, ("origin", origin)]).is_some(), "{origin}");
        }
        assert!(asked("/v1/lab", &[("origin", "http://127.0.0.1:8474")]).is_some(), "no host");
    }

    #[test]
    fn other_sites_may_open_the_page_and_nothing_else() {
        let host = ("host", "127.0.0.1:8474");
        let cross = ("sec-fetch-site", "cross-site");
        let opens = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert_eq!(asked("/", &[host, cross, opens[0], opens[1]]), None);
        assert!(asked("/v1/lab", &[host, cross, opens[0], opens[1]]).is_some());
        assert!(asked("/", &[host, cross]).is_some());
        assert!(asked("/", &[host, cross, opens[0], ("sec-fetch-dest", "iframe")]).is_some());
        assert!(asked("/app.js", &[host, cross, ("sec-fetch-dest", "script")]).is_some());
        for site in ["same-origin", "none"] {
            assert_eq!(asked("/v1/lab", &[host, ("sec-fetch-site", site)]), None);
        }
        assert!(asked("/v1/lab", &[host, ("sec-fetch-site", "same-site")]).is_some());
    }
}
