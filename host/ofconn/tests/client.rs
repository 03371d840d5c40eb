//! The client against switches that do not do what they should.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use netloom_ofconn::Target;
use netloom_ofconn::client::{Client, ClientError, PATIENCE};
use netloom_openflow::hello::Hello;
use netloom_openflow::refusal::ErrorMessage;
use netloom_openflow::stream::Stream;
use netloom_openflow::{FlowMod, Match, Message, Reason, Version, decode, encode};

const BOTH: [Version; 2] = [Version::V10, Version::V13];

/// What a client gets from a switch that does this with each connection.
fn against<T>(
    switch: impl FnOnce(UnixStream) + Send + 'static,
    client: impl FnOnce(Result<Client, ClientError>) -> T,
) -> T {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("switch");
    let listener = UnixListener::bind(&path).expect("listens");
    let server = std::thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            switch(stream);
        }
    });
    let result = client(Client::connect(&Target::Unix(path), &BOTH));
    server.join().expect("the switch ends");
    result
}

/// The messages of a connection.
struct Peer(UnixStream, Stream);

impl Peer {
    fn next(&mut self) -> Option<(u32, Message)> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(bytes) = self.1.next_message().expect("whole messages") {
                let (header, message) = decode(bytes).expect("a message");
                return Some((header.xid, message));
            }
            match self.0.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.1.push(&buffer[..length]),
            }
        }
    }

    fn send(&mut self, version: Version, xid: u32, message: &Message) {
        let bytes = encode(version, xid, message).expect("it can be sent");
        let _ = self.0.write_all(&bytes);
    }

    /// Says hello, and hears it.
    fn greeted(stream: UnixStream, versions: &[Version]) -> Peer {
        let mut peer = Peer(stream, Stream::default());
        let highest = versions.iter().copied().max().expect("a version");
        peer.send(highest, 1, &Message::Hello(Hello::offering(versions)));
        assert!(matches!(peer.next(), Some((_, Message::Hello(_)))));
        peer
    }
}

fn flow() -> Message {
    Message::FlowMod(FlowMod::new(netloom_openflow::flow::FlowCommand::Add, Match::default()))
}

#[test]
fn the_highest_common_version_is_spoken() {
    for (theirs, expected) in [(&BOTH[..], Version::V13), (&BOTH[..1], Version::V10)] {
        let theirs = theirs.to_vec();
        let version = against(
            move |stream| drop(Peer::greeted(stream, &theirs)),
            |client| client.expect("a client").version(),
        );
        assert_eq!(version, expected);
    }
}

#[test]
fn what_is_no_switch_is_told() {
    let told = |first: &'static [u8]| {
        against(
            move |mut stream| drop(stream.write_all(first)),
            |client| client.expect_err("no switch").to_string(),
        )
    };
    for (first, words) in [
        (&b""[..], "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "closed the connection"),
        (&[4, 0, 0, 4, 0, 0, 0, 1], "shorter than its header"),
        (&[4, 5, 0, 8, 0, 0, 0, 1], "did not begin with a hello"),
        // A switch of 1.5 without a bitmap of versions speaks 1.3, too; one of 1.2 alone does not.
        (&[3, 0, 0, 8, 0, 0, 0, 1], "does not speak"),
        (&[4, 1, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0], "does not speak"),
    ] {
        let told = told(first);
        assert!(told.contains(words), "{first:?}: {told}");
    }
    let nobody = Client::connect(&Target::Unix("/nowhere/switch".into()), &BOTH);
    assert!(matches!(nobody, Err(ClientError::Failed { operation: "connect", .. })));
}

#[test]
fn refusals_belong_to_their_changes_however_many_there_are() {
    let switch = |stream| {
        let mut peer = Peer::greeted(stream, &BOTH);
        let mut seen = 0_u32;
        while let Some((xid, message)) = peer.next() {
            match message {
                Message::FlowMod(_) => {
                    if seen.is_multiple_of(3) {
                        let reason = Reason::FlowModFailedTableFull;
                        let error = ErrorMessage::new(Version::V13, reason, &[]);
                        peer.send(Version::V13, xid, &Message::Error(error));
                    }
                    seen += 1;
                    // In between it says what nobody asked for, and asks whether the client is there.
                    peer.send(Version::V13, 7, &Message::EchoRequest(vec![1]));
                }
                Message::BarrierRequest => peer.send(Version::V13, xid, &Message::BarrierReply),
                Message::EchoReply(data) => assert_eq!(data, [1]),
                other => panic!("{other:?}"),
            }
        }
    };
    let refused = against(switch, |client| {
        let mut client = client.expect("a client");
        client.change((0..2000).map(|_| flow())).expect("changes")
    });
    let expected: Vec<usize> = (0..2000).step_by(3).collect();
    assert_eq!(refused.iter().map(|refusal| refusal.at).collect::<Vec<_>>(), expected);
    assert!(refused.iter().all(|refusal| refusal.reason == "OFPFMFC_TABLE_FULL"));
}

#[test]
fn a_switch_that_is_silent_or_goes_is_not_waited_for_for_ever() {
    let silent = |stream| {
        let mut peer = Peer::greeted(stream, &BOTH);
        // Until the client has given up.
        while peer.next().is_some() {}
    };
    let error = against(silent, |client| {
        let mut client = client.expect("a client").within(Duration::from_millis(50));
        client.change([flow()]).expect_err("no answer")
    });
    assert!(error.to_string().contains("wait for an answer"), "{error}");
    let gone = |stream| drop(Peer::greeted(stream, &BOTH).next());
    let error = against(gone, |client| {
        client.expect("a client").within(PATIENCE).change([flow()]).expect_err("it is gone")
    });
    assert!(error.to_string().contains("closed the connection"), "{error}");
}
