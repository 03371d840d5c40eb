//! A registry: manifests and layers by the distribution specification, with tokens.
//!
//! What a registry fails at for a while is tried again, with pauses that it may set. A registry on this machine may speak
//! plain HTTP; all others speak TLS. Credentials go to the registry and to the server of tokens that it names, never
//! where it redirects to.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use netloom_oci::address::{Address, escape};
use netloom_oci::challenge::Challenge;
use netloom_oci::manifest::MOST_BYTES;
use netloom_oci::reference::DOCKER;
use netloom_oci::{Digest, Reference, media};
use serde::Deserialize;

use crate::options::Patience;
use crate::transport::{Answer, Bounds, Client, is_no_http};
use crate::{Error, Result};

/// Bytes of a blob that a try must bring more than those before, or it counts as one without success.
const PROGRESS: u64 = 16 << 10;

/// As many redirections as are followed.
const MOST_REDIRECTIONS: usize = 5;

/// The longest pause that a registry may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often a pause looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// The host behind Docker's name.
const DOCKER_HOST: &str = "registry-1.docker.io";

/// A registry, asked for one image.
pub(crate) struct Registry<'a> {
    reference: &'a Reference,
    patience: Patience,
    client: Client,
    /// By TLS.
    tls: bool,
    /// Ends pauses: nobody waits any more.
    pub(crate) stop: AtomicBool,
    /// The value of the header `Authorization`.
    permit: Mutex<Option<String>>,
}

/// Takes a piece of a blob, and where in it that belongs.
pub(crate) type Take<'t> = dyn FnMut(u64, &[u8]) -> Result<()> + 't;

/// An answer that is not data.
enum Refusal {
    /// Once more after a pause: why, and for how long.
    Later(String, Option<Duration>),
    /// Never: the answering server is not the right one.
    Hopeless(String),
    /// For good.
    Final(Error),
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl<'a> Registry<'a> {
    /// Finds out how the registry speaks.
    pub(crate) fn open(reference: &'a Reference, patience: Patience) -> Result<Registry<'a>> {
        let bounds = Bounds { connect: patience.connect, stall: patience.stall };
        let mut registry = Registry {
            reference,
            patience,
            client: Client::new(bounds),
            tls: true,
            stop: AtomicBool::new(false),
            permit: Mutex::new(None),
        };
        let address = registry.address("/v2/".to_owned());
        if address.is_loopback() {
            // Plain text first: a server of TLS refuses that at once.
            registry.tls = false;
            let address = registry.address("/v2/".to_owned());
            let answer =
                registry.again("connect", || match registry.client.get(&address, &[], 0) {
                    Ok(answer) => Ok(answer.head.status != 400),
                    Err(e) if is_no_http(&e) => Ok(false),
                    Err(e) => Err(later(&e)),
                })?;
            registry.tls = !answer;
        }
        Ok(registry)
    }

    fn address(&self, path: String) -> Address {
        let host = match self.reference.registry.as_str() {
            DOCKER => DOCKER_HOST,
            other => other,
        };
        Address::of(host, self.tls, path)
    }

    fn path(&self, kind: &str, version: &str) -> String {
        format!("/v2/{}/{kind}/{version}", self.reference.path)
    }

    /// A manifest or an index, with its media type.
    pub(crate) fn manifest(&self, version: &str) -> Result<(Vec<u8>, Option<String>)> {
        let step = format!("manifest {version}");
        let address = self.address(self.path("manifests", version));
        // Without it registries send old formats.
        let headers = [("Accept", media::ACCEPTED)];
        self.again(&step, || {
            let mut answer = self.ask(&address, &headers, &step, 0)?;
            let media = answer.head.get("content-type").map(str::to_owned);
            let text = answer.whole(MOST_BYTES).map_err(|e| later(&e))?;
            Ok((text, media))
        })
    }

    /// A small blob.
    pub(crate) fn document(&self, digest: &Digest) -> Result<Vec<u8>> {
        let step = format!("config {digest}");
        let address = self.address(self.path("blobs", &digest.to_string()));
        self.again(&step, || {
            let mut answer = self.ask(&address, &[], &step, 0)?;
            answer.whole(MOST_BYTES).map_err(|e| later(&e))
        })
    }

    /// Hands a blob of some `bytes` from the byte `begin` on to `take`, which is told where a piece belongs, and says where it has got to. A
    /// cut-off blob is asked for again from there.
    pub(crate) fn blob(
        &self,
        (digest, step): (&Digest, &str),
        bytes: u64,
        begin: u64,
        take: &mut Take<'_>,
    ) -> Result<()> {
        let address = self.address(self.path("blobs", &digest.to_string()));
        let at = std::cell::Cell::new(begin);
        let mut highest = begin;
        let mut tries = 0;
        loop {
            let done = self.once_blob((&address, step), bytes, &at, take);
            let (why, pause) = match done {
                Ok(()) => return Ok(()),
                Err(Refusal::Final(e)) => return Err(e),
                Err(Refusal::Hopeless(why)) => return Err(self.failed(step, why)),
                Err(Refusal::Later(why, pause)) => (why, pause),
            };
            // Only bytes that had not come before are progress: a server may begin again from 0 at any time. A few do not count.
            tries = if at.get() > highest + PROGRESS { 1 } else { tries + 1 };
            highest = highest.max(at.get());
            self.pause(step, &why, pause, tries)?;
        }
    }

    fn once_blob(
        &self,
        (address, step): (&Address, &str),
        bytes: u64,
        at: &std::cell::Cell<u64>,
        take: &mut Take<'_>,
    ) -> std::result::Result<(), Refusal> {
        let range = format!("bytes={}-", at.get());
        let ranged = [("Range", range.as_str())];
        let headers = if at.get() > 0 { &ranged[..] } else { &[] };
        let mut answer = self.ask(address, headers, step, bytes)?;
        if answer.head.status == 206 {
            // Bytes of another place would only be found wrong by the digest, at the end.
            if answer.head.begins_at() != Some(at.get()) {
                return Err(Refusal::Later(
                    "it sends another part than was asked for".into(),
                    None,
                ));
            }
        } else {
            // It ignored the range and sends all: RFC 9110 allows that.
            at.set(0);
        }
        loop {
            let data = answer.next().map_err(|e| later(&e))?;
            if data.is_empty() {
                return Ok(());
            }
            take(at.get(), data).map_err(Refusal::Final)?;
            at.set(at.get() + data.len() as u64);
        }
    }

    /// Does something again while it may succeed.
    fn again<T>(
        &self,
        step: &str,
        mut one: impl FnMut() -> std::result::Result<T, Refusal>,
    ) -> Result<T> {
        let mut tries = 0;
        loop {
            match one() {
                Ok(done) => return Ok(done),
                Err(Refusal::Final(e)) => return Err(e),
                Err(Refusal::Hopeless(why)) => return Err(self.failed(step, why)),
                Err(Refusal::Later(why, pause)) => {
                    tries += 1;
                    self.pause(step, &why, pause, tries)?;
                }
            }
        }
    }

    /// Waits before the next try, or gives up.
    fn pause(&self, step: &str, why: &str, asked: Option<Duration>, tries: u32) -> Result<()> {
        let failed = |why: String| {
            let image = self.reference.familiar();
            Error::Registry { image, step: format!("{}: {step}", self.reference.registry), why }
        };
        if tries >= self.patience.tries {
            return Err(failed(format!("{why} ({tries} tries)")));
        }
        if let Some(asked) = asked.filter(|asked| *asked > LONGEST_PAUSE) {
            return Err(failed(format!("{why}; it asks to wait {} s", asked.as_secs())));
        }
        // Bounded before the shift, which would overflow.
        let grown = self.patience.pause.saturating_mul(1 << tries.min(8).saturating_sub(1));
        let until = Instant::now() + asked.unwrap_or(grown).min(LONGEST_PAUSE);
        // In short steps: a failure elsewhere ends the pause.
        while Instant::now() < until {
            if self.stop.load(Ordering::Relaxed) {
                return Err(failed(why.to_owned()));
            }
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// One request, with a token if the registry wants one, along its redirections.
    fn ask(
        &self,
        address: &Address,
        headers: &[(&str, &str)],
        step: &str,
        bytes: u64,
    ) -> std::result::Result<Answer, Refusal> {
        let mut answer = self.follow(address, headers, bytes)?;
        // Only after a refusal: public images need no token, and tokens end.
        if answer.head.status == 401 {
            self.ask_permit(&answer)?;
            answer = self.follow(address, headers, bytes)?;
        }
        match answer.head.status {
            200 | 206 => Ok(answer),
            401 | 403 => Err(Refusal::Final(self.denied(answer.head.status))),
            404 if step.starts_with("manifest") => {
                let (image, place) = (self.reference.familiar(), self.reference.registry.clone());
                Err(Refusal::Final(Error::NotFound { image, place }))
            }
            429 | 408 | 500..=599 => {
                let pause = answer.head.retry_after().map(Duration::from_secs);
                let status = answer.head.status;
                let words = if status == 429 { ": too many requests" } else { "" };
                Err(Refusal::Later(format!("it answers {status}{words}"), pause))
            }
            status => Err(Refusal::Final(Error::Registry {
                image: self.reference.familiar(),
                step: format!("{}: {step}", self.reference.registry),
                why: format!("it answers {status}"),
            })),
        }
    }

    fn follow(
        &self,
        address: &Address,
        headers: &[(&str, &str)],
        bytes: u64,
    ) -> std::result::Result<Answer, Refusal> {
        let mut to = address.clone();
        for _ in 0..=MOST_REDIRECTIONS {
            let permit = self.permit.lock().map(|permit| permit.clone()).unwrap_or_default();
            // A redirection often leads to a store of blobs of another owner.
            let permit = permit.filter(|_| to.is_same_origin(address));
            let own = permit.as_deref().map(|permit| ("Authorization", permit));
            let all: Vec<(&str, &str)> = headers.iter().copied().chain(own).collect();
            let answer = self.client.get(&to, &all, bytes).map_err(|e| later(&e))?;
            if !matches!(answer.head.status, 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let location = answer.head.get("location").unwrap_or_default();
            to = to.follow(location).map_err(|e| Refusal::Final(e.into()))?;
        }
        Err(Refusal::Later(format!("it redirects more than {MOST_REDIRECTIONS} times"), None))
    }

    /// Gets a token, or takes name and password.
    fn ask_permit(&self, answer: &Answer) -> std::result::Result<(), Refusal> {
        let challenge = answer.head.all("www-authenticate").find_map(Challenge::read);
        let login = logins::find(self.reference);
        let permit = match challenge {
            Some(Challenge::Basic) => login.map(|login| format!("Basic {login}")),
            Some(Challenge::Bearer { realm, service, scope }) => {
                Some(self.token(&realm, service, scope, login)?)
            }
            None => None,
        };
        let permit = permit.ok_or_else(|| Refusal::Final(self.denied(401)))?;
        if let Ok(mut place) = self.permit.lock() {
            *place = Some(permit);
        }
        Ok(())
    }

    fn token(
        &self,
        realm: &str,
        service: Option<String>,
        scope: Option<String>,
        login: Option<String>,
    ) -> std::result::Result<String, Refusal> {
        let mut to = Address::parse(realm).map_err(|e| Refusal::Final(e.into()))?;
        // A token's server in plain text could be anybody, except on this machine.
        let is_here = to.is_loopback() && self.address(String::new()).is_loopback();
        if !(to.tls || is_here) {
            let why = format!("it gives tokens at {to}, which is not https");
            return Err(Refusal::Final(self.failed("token", why)));
        }
        // Some registries name no scope; without one a token gives no rights.
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.reference.path));
        let mut separator = if to.path.contains('?') { '&' } else { '?' };
        for (name, value) in [("service", service.as_deref()), ("scope", Some(scope.as_str()))] {
            if let Some(value) = value {
                to.path.push_str(&format!("{separator}{name}={}", escape(value)));
                separator = '&';
            }
        }
        let login = login.map(|login| format!("Basic {login}"));
        let headers: Vec<(&str, &str)> =
            login.as_deref().map(|login| ("Authorization", login)).into_iter().collect();
        let mut answer = self.client.get(&to, &headers, 0).map_err(|e| later(&e))?;
        match answer.head.status {
            200 => {}
            401 | 403 => return Err(Refusal::Final(self.denied(answer.head.status))),
            status @ (429 | 500..=599) => {
                let pause = answer.head.retry_after().map(Duration::from_secs);
                return Err(Refusal::Later(format!("{to} answers {status}"), pause));
            }
            status => {
                let why = format!("{to} answers {status}");
                return Err(Refusal::Final(self.failed("token", why)));
            }
        }
        let text = answer.whole(MOST_BYTES).map_err(|e| later(&e))?;
        let token: Option<Token> = serde_json::from_slice(&text).ok();
        // Servers of tokens give it by either name, or both: `access_token` is OAuth 2.0's (distribution,
        // token authentication).
        let token = token.and_then(|t| t.token.or(t.access_token)).filter(|t| !t.is_empty());
        let none = || self.failed("token", format!("{to} gives none"));
        Ok(format!("Bearer {}", token.ok_or_else(|| Refusal::Final(none()))?))
    }

    fn failed(&self, step: &str, why: String) -> Error {
        let image = self.reference.familiar();
        Error::Registry { image, step: format!("{}: {step}", self.reference.registry), why }
    }

    fn denied(&self, status: u16) -> Error {
        Error::Denied {
            image: self.reference.familiar(),
            registry: self.reference.registry.clone(),
            why: status.to_string(),
            logins: logins::words(),
        }
    }
}

/// What may succeed at another time.
fn later(e: &io::Error) -> Refusal {
    // A certificate does not become another.
    match e.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => Refusal::Hopeless(e.to_string()),
        _ => Refusal::Later(e.to_string(), None),
    }
}

/// Logins that other programs have kept: containers-auth.json(5), and Docker's configuration.
mod logins {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::{DOCKER, DOCKER_HOST, Deserialize, Engine, Reference};

    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        auths: BTreeMap<String, Login>,
    }

    #[derive(Deserialize)]
    struct Login {
        #[serde(default)]
        auth: Option<String>,
    }

    /// Name and password for an image, as `Basic` wants them.
    pub(super) fn find(image: &Reference) -> Option<String> {
        files().into_iter().find_map(|path| {
            let file: File = crate::store::read(&path).ok()?;
            pick(&file.auths, image)
        })
    }

    /// That of the longest key that the image's name begins with, part by part.
    fn pick(auths: &BTreeMap<String, Login>, image: &Reference) -> Option<String> {
        let weighed = auths.iter().filter_map(|(key, login)| Some((weight(key, image)?, login)));
        let (_, login) = weighed.max_by_key(|(weight, _)| *weight)?;
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(login.auth.as_ref()?.trim()).ok()?;
        // Not what was read: line ends in it would break the header.
        bytes.contains(&b':').then(|| base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    /// How much of an image's name a key says, and whether as it is written today; `None` if it is of another.
    fn weight(key: &str, image: &Reference) -> Option<(usize, bool)> {
        let bare = ["https://", "http://"].iter().find_map(|scheme| key.strip_prefix(scheme));
        let (host, path) = match (bare, key.split_once('/')) {
            // An address of earlier versions of Docker, whose path is the protocol's version.
            (Some(bare), _) => (bare.split('/').next().unwrap_or_default(), ""),
            (None, Some((host, "v1/" | "v2/"))) => (host, ""),
            (None, Some((host, path))) => (host, path.trim_end_matches('/')),
            (None, None) => (key, ""),
        };
        // Docker files its own registry under old names, too.
        let host = if ["index.docker.io", DOCKER_HOST].contains(&host) { DOCKER } else { host };
        let rest = image.path.strip_prefix(path)?;
        let whole = path.is_empty() || rest.is_empty() || rest.starts_with('/');
        (host == image.registry && whole).then_some((path.len(), bare.is_none()))
    }

    pub(super) fn words() -> String {
        let files: Vec<String> = files().iter().map(|path| path.display().to_string()).collect();
        files.join(" and ")
    }

    fn files() -> Vec<PathBuf> {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = set("HOME").unwrap_or_default();
        // In the order of containers-auth.json(5).
        let ours = set("REGISTRY_AUTH_FILE")
            .or_else(|| set("XDG_RUNTIME_DIR").map(|dir| dir.join("containers/auth.json")))
            .unwrap_or_else(|| home.join(".config/containers/auth.json"));
        let docker = set("DOCKER_CONFIG").unwrap_or_else(|| home.join(".docker"));
        vec![ours, docker.join("config.json")]
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_longest_key_of_a_name_has_its_login() {
            let text = [
                "r.io",
                "r.io/team",
                "r.io/team/app",
                "r.io/tea",
                "https://r.io/v1/",
                "r.io:5000",
                "https://index.docker.io/v1/",
                "docker.io/team",
                "https://old.io/v2/",
                "older.io/v1/",
            ];
            let engine = base64::engine::general_purpose::STANDARD;
            let auths: BTreeMap<String, Login> = text
                .iter()
                .map(|key| {
                    let auth = Some(engine.encode(format!("{key}:secret")));
                    ((*key).to_owned(), Login { auth })
                })
                .collect();
            for (image, key) in [
                ("r.io/team/app:1", Some("r.io/team/app")),
                ("r.io/team/application", Some("r.io/team")),
                ("r.io/teamwork/app", Some("r.io")),
                ("r.io:5000/team/app", Some("r.io:5000")),
                ("alpine", Some("https://index.docker.io/v1/")),
                ("team/app", Some("docker.io/team")),
                ("old.io/v2/app", Some("https://old.io/v2/")),
                ("older.io/app", Some("older.io/v1/")),
                ("other.io/team/app", None),
            ] {
                let login = pick(&auths, &image.parse().unwrap());
                let wanted = key.map(|key| engine.encode(format!("{key}:secret")));
                assert_eq!(login, wanted, "{image}");
            }
        }
    }
}
