//! TLS between a switch and its controllers (OpenFlow 1.3.5 section 6.3.4): by `rustls`, with files in PEM.
//!
//! Each side shows a certificate that an authority of the other has signed. The name in a controller's is compared if the
//! switch was told one. Nothing here blocks.

use std::io::{self, BufReader, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::net::{RecvFlags, SendFlags};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor as signed_by, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};

use netloom_sys::setup::open_of_lab;

use crate::target::Tls;
use crate::{Error, Result};

/// Reads of the socket before others have their turn.
const READS: usize = 16;

impl Tls {
    /// Reads the files, as a switch that is told them does.
    ///
    /// # Errors
    /// [`Error::Refused`] with the file and what is wrong with it.
    pub fn check(&self) -> Result<()> {
        Configs::read(self).map(drop)
    }
}

/// What connections are made with.
#[derive(Clone, Debug)]
pub struct Configs {
    client: Arc<ClientConfig>,
    /// Whom controllers must be.
    name: Option<ServerName<'static>>,
    /// Only with a certificate.
    server: Option<Arc<ServerConfig>>,
}

impl Configs {
    /// Reads the files.
    ///
    /// # Errors
    /// [`Error::Refused`] with the file.
    pub fn read(files: &Tls) -> Result<Configs> {
        let wrong = |e: rustls::Error| Error::refused(format!("TLS: {e}"));
        let provider = Arc::new(ring::default_provider());
        let name = files.name.as_deref().map(name).transpose()?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.authorities)? {
            roots.add(certificate).map_err(|e| {
                Error::refused(format!("{}: no authority: {e}", files.authorities.display()))
            })?;
        }
        let roots = Arc::new(roots);
        let own = match (&files.certificate, &files.key) {
            (Some(certificate), Some(key)) => Some((certificates(certificate)?, private(key)?)),
            (None, None) => None,
            _ => return Err(Error::refused("TLS: a certificate and its key go together")),
        };
        // The verifier of rustls always compares a name, which the switch may not have been told.
        let verifier = Signed {
            roots: Arc::clone(&roots),
            provider: Arc::clone(&provider),
            name: name.clone(),
        };
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let Some((chain, key)) = own else {
            let client = Arc::new(client.with_no_client_auth());
            return Ok(Configs { client, name, server: None });
        };
        let client = client.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(wrong)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|e| Error::refused(format!("TLS: {e}")))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(wrong)?;
        Ok(Configs { client: Arc::new(client), name, server: Some(Arc::new(server)) })
    }

    /// A connection to a controller.
    ///
    /// # Errors
    /// [`Error::Refused`]: TLS cannot be begun.
    pub fn connect(&self, socket: OwnedFd, to: IpAddr) -> Result<Secure> {
        // A name must be given; an address is not sent to the other end (RFC 6066 section 3).
        let name = self.name.clone().unwrap_or_else(|| ServerName::IpAddress(to.into()));
        let tls = ClientConnection::new(Arc::clone(&self.client), name)
            .map_err(|e| Error::refused(format!("TLS: {e}")))?;
        Ok(Secure { socket, tls: tls.into() })
    }

    /// A connection of somebody who connected to the switch.
    ///
    /// # Errors
    /// [`Error::Refused`]: there is no certificate, or TLS cannot be begun.
    pub fn accept(&self, socket: OwnedFd) -> Result<Secure> {
        let server = self.server.as_ref();
        let server = server.ok_or_else(|| Error::refused("TLS: to listen needs a certificate"))?;
        let tls = ServerConnection::new(Arc::clone(server))
            .map_err(|e| Error::refused(format!("TLS: {e}")))?;
        Ok(Secure { socket, tls: tls.into() })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |reason: String| Error::refused(format!("{}: {reason}", path.display()));
    let file = open_of_lab(path).map_err(|e| wrong(e.to_string()))?;
    let all = CertificateDer::pem_reader_iter(BufReader::new(file));
    let all: std::result::Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|e| wrong(e.to_string()))?;
    if all.is_empty() { Err(wrong("there is no certificate in it".into())) } else { Ok(all) }
}

/// A private key from a file that is its owner's alone.
fn private(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let shown = path.display();
    let wrong = |reason: String| Error::refused(format!("{shown}: {reason}"));
    let file = open_of_lab(path).map_err(|e| wrong(e.to_string()))?;
    let mode = file.metadata().map_err(|e| wrong(e.to_string()))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(wrong(format!(
            "a private key that others may read or write (mode {mode:04o}); chmod 600 {shown}"
        )));
    }
    PrivateKeyDer::from_pem_reader(BufReader::new(file)).map_err(|e| wrong(e.to_string()))
}

fn name(text: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(text.to_owned())
        .map_err(|_| Error::refused(format!("TLS: {text:?} is neither a host name nor an address")))
}

/// Accepts what an authority has signed, for the name if there is one.
#[derive(Debug)]
struct Signed {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    name: Option<ServerName<'static>>,
}

impl ServerCertVerifier for Signed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        signed_by(&certificate, &self.roots, intermediates, now, algorithms)?;
        if let Some(name) = &self.name {
            verify_server_name(&certificate, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection within TLS.
#[derive(Debug)]
pub struct Secure {
    socket: OwnedFd,
    tls: Connection,
}

impl Secure {
    /// Reads; 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there; `InvalidData` with what TLS has against the other end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for _ in 0..READS {
            match self.tls.reader().read(buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.tls.read_tls(&mut Socket(self.socket.as_fd()))? == 0 {
                return Ok(0);
            }
            let processed = self.tls.process_new_packets();
            // Handshakes go on, and a refusal is told to the other end.
            let flushed = self.flush();
            processed
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {e}")))?;
            flushed?;
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Writes; returns how many bytes were taken.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room, or before TLS is agreed on.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        // What was taken before has to be gone first: otherwise it would be held here without a
        // bound.
        if !self.takes() || self.tls.wants_write() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.tls.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    /// Passes on what is held here, as far as there is room.
    ///
    /// # Errors
    /// The connection's.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(self.socket.as_fd())) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Whether something is held here.
    pub fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Whether it can be written at all.
    pub fn takes(&self) -> bool {
        !self.tls.is_handshaking()
    }
}

impl AsFd for Secure {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket that does not block.
struct Socket<'a>(BorrowedFd<'a>);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self.0, buffer, RecvFlags::DONTWAIT).map(|(length, _)| length)?)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
