//! Admission over TCP: callers that have the token, address this server, and are not a browser's page.
//!
//! Any process on the machine can connect to its ports, and any page that a browser shows can make it send requests there.
//! Such a request says where the page is from (`Origin`), or by which name the browser found this address (`Host`); a name
//! that is not this server's was pointed here by somebody else. A port may have a page of its own ([`page`]), which is admitted;
//! there everything else is refused with 403, so that no browser asks for a password or tries again elsewhere.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Uri, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::connections::Held;
use crate::reply::Rejection;
use crate::{Token, page, terminal};

/// Challenge to callers without the token (RFC 6750, section 3).
const CHALLENGE: &str = "Bearer realm=\"netloom\"";

/// The conditions of admission.
#[derive(Debug)]
pub struct Gate {
    token: Token,
    names: Vec<String>,
    page: bool,
}

/// Whom a request is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admitted {
    /// The holder of the token.
    Holder,
    /// Anybody, for a file of the page.
    Anybody,
}

impl Gate {
    /// Callers with this token that address the server by a literal address, as `localhost`, or by one of these names.
    pub fn new(token: Token, names: Vec<String>) -> Gate {
        Gate { token, names, page: false }
    }

    /// The same for a port that serves the page, too.
    #[must_use]
    pub fn with_page(self) -> Gate {
        Gate { page: true, ..self }
    }

    pub(crate) fn has_page(&self) -> bool {
        self.page
    }

    fn check(
        &self,
        method: &Method,
        version: Version,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Admitted, Rejection> {
        let is_file = self.page && page::is_file(method, uri.path());
        // The page first: a foreign page must not learn by the status whether its token is right.
        let checked = self.check_page(method, uri, headers).and_then(|()| {
            self.check_host(version, uri, headers)?;
            match is_file {
                true => Ok(Admitted::Anybody),
                false => {
                    // A page sends headers of its own with everything but a WebSocket.
                    let may_offer = self.page && terminal::is_asked(uri.path());
                    self.check_token(headers, may_offer).map(|()| Admitted::Holder)
                }
            }
        });
        match self.page {
            true => checked.map_err(|rejection| rejection.with_status(StatusCode::FORBIDDEN)),
            false => checked,
        }
    }

    /// Refuses what a browser sends for a page that is not this server's.
    fn check_page(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        let why = match self.page {
            true => page::foreign(method, uri.path(), headers),
            false => headers
                .contains_key(header::ORIGIN)
                .then_some("origin: pages of browsers are not answered"),
        };
        why.map_or(Ok(()), |why| Err(Rejection::new(StatusCode::FORBIDDEN, why)))
    }

    fn check_host(
        &self,
        version: Version,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Rejection> {
        let refused = |status, words: &str| Err(Rejection::new(status, words));
        let other = "host: not this server's name; use its address, or `netloom serve --host NAME`";
        let mut hosts = headers.get_all(header::HOST).iter();
        match (hosts.next(), hosts.next()) {
            (None, _) if version < Version::HTTP_11 => {}
            (Some(host), None) if self.is_meant(host.as_bytes()) => {}
            (Some(_), None) => return refused(StatusCode::MISDIRECTED_REQUEST, other),
            _ => return refused(StatusCode::BAD_REQUEST, "host: must be there once"),
        }
        // A whole URI goes before the header (RFC 9112, section 3.2.2).
        if uri.authority().is_some_and(|host| !self.is_meant(host.as_str().as_bytes())) {
            return refused(StatusCode::MISDIRECTED_REQUEST, other);
        }
        Ok(())
    }

    /// Checks the token; `may_offer`: it may also be offered as a protocol.
    fn check_token(&self, headers: &HeaderMap, may_offer: bool) -> Result<(), Rejection> {
        let refused = |status, words: &str| Err(Rejection::new(status, words));
        let mut tokens = headers.get_all(header::AUTHORIZATION).iter();
        match (tokens.next(), tokens.next()) {
            (Some(given), None) if self.token.is_in(given.as_bytes()) => Ok(()),
            (Some(_), None) => {
                refused(StatusCode::UNAUTHORIZED, "authorization: not the token of this server")
            }
            (_, Some(_)) => refused(StatusCode::BAD_REQUEST, "authorization: must be there once"),
            (None, None) if may_offer && self.token.is_offered(headers) => Ok(()),
            (None, None) => {
                let words = "authorization: missing; send `Authorization: Bearer TOKEN`";
                refused(StatusCode::UNAUTHORIZED, words)
            }
        }
    }

    /// Whether the value of a `Host` header means this server.
    fn is_meant(&self, host: &[u8]) -> bool {
        let Ok(authority) = Authority::try_from(host) else { return false };
        // `Host` has no user (RFC 9110, section 7.2).
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host();
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        // An address cannot be pointed elsewhere, as a name can (DNS rebinding).
        if address.unwrap_or(host).parse::<IpAddr>().is_ok() {
            return true;
        }
        // The root of names may be written.
        let host = host.strip_suffix('.').unwrap_or(host);
        let names = self.names.iter().map(String::as_str).chain(["localhost"]);
        names.into_iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

/// Passes on what the gate admits; closes the connection of others.
pub(crate) async fn admitted(
    State(gate): State<Arc<Gate>>,
    request: Request,
    next: Next,
) -> Response {
    match gate.check(request.method(), request.version(), request.uri(), request.headers()) {
        Ok(admitted) => {
            // A connection that anybody may have gives way to those of the token's holder.
            let held = request.extensions().get::<Held>();
            if let Some(held) = held.filter(|_| admitted == Admitted::Holder) {
                held.admit();
            }
            next.run(request).await
        }
        Err(rejection) => {
            let close = [(header::CONNECTION, "close")];
            let challenge = [(header::WWW_AUTHENTICATE, CHALLENGE)];
            match rejection.status {
                401 => (close, challenge, rejection).into_response(),
                _ => (close, rejection).into_response(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_uri_is_meant_like_a_host() {
        let gate = Gate::new(Token::chosen("0123456789abcdef").unwrap(), vec![]);
        let ask = |uri: &'static str, more: &[&'static str]| {
            let tokens = std::iter::once(&"Bearer 0123456789abcdef").chain(more);
            let mut headers: HeaderMap =
                tokens.map(|token| (header::AUTHORIZATION, token.parse().unwrap())).collect();
            headers.insert(header::HOST, "localhost".parse().unwrap());
            let uri = Uri::from_static(uri);
            let asked = gate.check(&Method::GET, Version::HTTP_11, &uri, &headers);
            asked.map_err(|rejection| rejection.status)
        };
        assert_eq!(ask("/v1/lab", &[]), Ok(Admitted::Holder));
        assert_eq!(ask("http://127.0.0.1:80/v1/lab", &[]), Ok(Admitted::Holder));
        assert_eq!(ask("http://evil.example/v1/lab", &[]), Err(421));
        assert_eq!(ask("http://evil@localhost/v1/lab", &[]), Err(421));
        assert_eq!(ask("/v1/lab", &["Bearer 0123456789abcdee"]), Err(400));
    }

    #[test]
    fn only_addresses_and_names_of_the_server_are_meant() {
        let gate = Gate::new(Token::random().unwrap(), vec!["Box".to_owned(), "a.b".to_owned()]);
        for good in [
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]:80",
            "[::1]",
            "192.0.2.1:1",
            "localhost",
            "LOCALHOST:8474",
            "box",
            "BOX.",
            "a.b:1",
        ] {
            assert!(gate.is_meant(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil@localhost",
            "127.0.0.1.evil.example",
            "b",
            "::1:80",
            "a.b/",
            "a b",
            "\u{ff}",
        ] {
            assert!(!gate.is_meant(bad.as_bytes()), "{bad}");
        }
    }
}
