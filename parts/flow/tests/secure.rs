//! Controllers reached by TLS: both ends show who they are, or nothing is said.
//!
//! The certificates in `tls/` are valid for a hundred years; their keys are in there, too, and protect nothing.

use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netloom_flow::Application;
use netloom_flow::application::Tls;
use netloom_flow::control::requests::ControllerState;
use netloom_kit::isolated;
use netloom_openflow::Version;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::world::{Listening, Peer, Switch, controller, raise_lo, wait};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// A copy of a key in this folder that is its owner's alone.
fn private(folder: &Path, name: &str) -> PathBuf {
    let key = folder.join(name);
    std::fs::copy(file(name), &key).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    key
}

/// What the switch is told; its key is in this folder.
fn files(folder: &Path) -> Tls {
    let key = Some(private(folder, "switch-key.pem"));
    let (authorities, certificate) = (file("authority.pem"), Some(file("switch.pem")));
    Tls { authorities, certificate, key, name: None }
}

/// The folder of a switch that is told this.
fn folder(told: &Application) -> &Path {
    told.state.parent().unwrap()
}

fn chain(name: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(file(&format!("{name}-key.pem"))).unwrap();
    (vec![certificate], key)
}

fn roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("authority.pem")).unwrap()).unwrap();
    Arc::new(roots)
}

/// The controller's side of a connection that it accepted, with these key files.
fn controlling(stream: TcpStream, who: &str) -> rustls::StreamOwned<ServerConnection, TcpStream> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(), Arc::clone(&provider));
    let (chain, key) = chain(who);
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    rustls::StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream)
}

#[test]
fn a_controller_with_a_signed_certificate_is_spoken_to() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| {
            told.controllers = vec![controller(&format!("tls:{}", listening.address()))];
            told.tls = Some(files(folder(told)));
        });
        let mut peer = Peer::over(controlling(listening.accept_stream(), "controller"));
        peer = peer.greeted(Version::V13);
        for number in 0..3000 {
            peer.add(&format!("udp,tp_dst={number},actions=output:1"));
        }
        peer.barrier();
        // Answers longer than a socket takes at once.
        assert_eq!(peer.flows().len(), 3000);
        let shown = switch.show();
        assert_eq!(shown.controllers[0].state, ControllerState::Connected);
        assert!(shown.controllers[0].target.starts_with("tls:"));
    });
}

#[test]
fn one_that_nobody_signed_for_is_not() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| {
            told.controllers = vec![controller(&format!("tls:{}", listening.address()))];
            told.tls = Some(files(folder(told)));
        });
        let mut impostor = controlling(listening.accept_stream(), "impostor");
        assert!(impostor.conn.complete_io(&mut impostor.sock).is_err());
        wait("it says why", || {
            let reason = switch.show().controllers[0].reason.clone()?;
            reason.contains("certificate").then_some(())
        });
        // Neither is one that does not speak TLS.
        let mut plain = listening.accept_silent();
        plain.write(&[4, 0, 0, 8, 0, 0, 0, 0]);
        drop(plain);
        let peer = Peer::over(controlling(listening.accept_stream(), "controller"));
        peer.greeted(Version::V13).barrier();
    });
}

#[test]
fn whoever_connects_must_be_signed_for_too() {
    isolated!({
        raise_lo();
        let free = Listening::new().address();
        let switch = Switch::start();
        let target = controller(&format!("ptls:{}:127.0.0.1", free.port()));
        switch.control().set_controllers(vec![target], Some(files(switch.folder.path()))).unwrap();
        let connect = |own: Option<&str>| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots());
            let config = match own.map(chain) {
                Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
                None => config.with_no_client_auth(),
            };
            let name = ServerName::try_from("switch").unwrap();
            let tls = ClientConnection::new(Arc::new(config), name).unwrap();
            rustls::StreamOwned::new(tls, TcpStream::connect(free).unwrap())
        };
        Peer::over(connect(Some("controller"))).greeted(Version::V13).barrier();
        for own in [None, Some("impostor")] {
            let mut stream = connect(own);
            // In TLS 1.3 the client hears of it only when it reads.
            let end = std::io::Read::read(&mut stream, &mut [0; 1]);
            assert!(end.is_err() || end.is_ok_and(|length| length == 0), "{own:?}");
        }
        assert!(switch.show().connections.len() <= 1);
    });
}

#[test]
fn files_that_cannot_be_read_are_named() {
    isolated!({
        let switch = Switch::start();
        let control = switch.control();
        let folder = switch.folder.path();
        let files = || files(folder);
        let others = Some(private(folder, "controller-key.pem"));
        let open = folder.join("open.pem");
        std::fs::copy(file("switch-key.pem"), &open).unwrap();
        std::fs::set_permissions(&open, Permissions::from_mode(0o640)).unwrap();
        let wrong = [
            (Tls { authorities: "/no/such".into(), ..files() }, "/no/such"),
            (Tls { authorities: file("switch-key.pem"), ..files() }, "there is no certificate"),
            (Tls { certificate: Some("/no/such".into()), ..files() }, "/no/such"),
            (Tls { key: Some("/no/such".into()), ..files() }, "/no/such: No such file"),
            (Tls { key: None, ..files() }, "go together"),
            (Tls { key: others, ..files() }, "TLS: "),
            (Tls { key: Some(open), ..files() }, "open.pem: a private key that others"),
            (Tls { name: Some("a b".into()), ..files() }, "\"a b\" is neither"),
        ];
        for (files, says) in wrong {
            assert!(files.check().unwrap_err().to_string().contains(says), "{says}");
            let refused = control.set_controllers(vec![], Some(files)).unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
        }
        // One that needs them says so.
        let target = controller("tls:127.0.0.1:1");
        raise_lo();
        let listening = Listening::new();
        let secure = controller(&format!("tls:{}", listening.address()));
        control.set_controllers(vec![target, secure], None).unwrap();
        wait("it says what is missing", || {
            let reasons = switch.show().controllers.into_iter().filter_map(|known| known.reason);
            reasons.into_iter().find(|reason| reason.contains("no authorities")).map(drop)
        });
    });
}

#[test]
fn the_name_in_its_certificate_is_compared_if_one_was_told() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let mut told = None;
        let switch = Switch::with(|application| {
            application.controllers = vec![controller(&format!("tls:{}", listening.address()))];
            told = Some(files(folder(application)));
            application.tls =
                told.clone().map(|tls| Tls { name: Some("elsewhere.example".into()), ..tls });
        });
        let mut other = controlling(listening.accept_stream(), "controller");
        assert!(other.conn.complete_io(&mut other.sock).is_err());
        wait("it says why", || {
            let reason = switch.show().controllers[0].reason.clone()?;
            reason.contains("elsewhere.example").then_some(())
        });
        drop(other);
        let right = told.map(|tls| Tls { name: Some("controller".into()), ..tls });
        let controllers = vec![controller(&format!("tls:{}", listening.address()))];
        switch.control().set_controllers(controllers, right).unwrap();
        let peer = Peer::over(controlling(listening.accept_stream(), "controller"));
        peer.greeted(Version::V13).barrier();
    });
}
