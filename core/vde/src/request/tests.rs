//! Requests as clients of Debian 12 send them, and what is none.

use super::*;
use proptest::prelude::*;

/// What `vde_plug` of Debian 12 sends, as strace shows it: 122 bytes and its description.
fn of_vde_plug() -> Vec<u8> {
    let mut bytes = vec![0xce, 0xfa, 0xed, 0xfe, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let mut path = b"/tmp/s/.21979-00000".to_vec();
    path.resize(PATH, 0);
    bytes.extend(path);
    bytes.extend(b"vdeplug: user=root pid=21979");
    bytes
}

fn request() -> Request {
    Request {
        port: 0,
        path: b"/tmp/s/.21979-00000".to_vec(),
        description: "vdeplug: user=root pid=21979".into(),
    }
}

#[test]
#[cfg(target_endian = "little")]
fn what_vde_plug_sends_is_read_and_written() {
    let bytes = of_vde_plug();
    assert_eq!(bytes.len(), 150);
    assert_eq!(Request::read(&bytes), Ok(request()));
    assert_eq!(request().write(), bytes);
}

#[test]
#[cfg(target_endian = "little")]
fn a_port_stands_above_the_kind() {
    let mut bytes = of_vde_plug();
    bytes[8..12].copy_from_slice(&[0, 7, 0, 0]);
    assert_eq!(Request::read(&bytes).map(|found| found.port), Ok(7));
    for (word, refused) in [
        ([0, 0, 1, 0], Refused::Port(256)),
        ([0, 0xff, 0xff, 0xff], Refused::Port(-1)),
        ([1, 0, 0, 0], Refused::Kind(1)),
        ([9, 0, 0, 0], Refused::Kind(9)),
    ] {
        bytes[8..12].copy_from_slice(&word);
        assert_eq!(Request::read(&bytes), Err(refused));
    }
}

#[test]
#[cfg(target_endian = "little")]
fn the_first_version_has_a_station_address_and_no_version() {
    let mut bytes = of_vde_plug();
    // Without the version, and with six bytes before the address.
    bytes.splice(4..8, []);
    bytes.splice(8..8, [0; 6]);
    assert_eq!(Request::read(&bytes), Ok(request()));
}

#[test]
fn what_is_no_request_is_refused() {
    let good = request().write();
    for length in 0..122 {
        assert_eq!(Request::read(&good[..length]), Err(Refused::Short), "{length}");
    }
    assert_eq!(Request::read(&good[..122]).map(|found| found.description), Ok(String::new()));
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= byte;
        Request::read(&bytes)
    };
    assert_eq!(changed(0, 1), Err(Refused::Magic));
    assert!(matches!(changed(4, 1), Err(Refused::Version(_))));
    assert!(matches!(changed(4, 4), Err(Refused::Version(_))));
    assert_eq!(changed(12, 2), Err(Refused::Address), "a family that is not AF_UNIX");
    assert_eq!(changed(14, b'/'), Err(Refused::Address), "an abstract name");
    assert_eq!(changed(14, 1), Err(Refused::Address), "a path from elsewhere");
}

#[test]
fn a_description_is_one_line() {
    let mut bytes = request().write();
    bytes.truncate(122);
    bytes.extend(b" a\nb\x1b[2J\0secret");
    assert_eq!(Request::read(&bytes).map(|found| found.description), Ok("a b [2J".into()));
    bytes.truncate(122);
    bytes.extend([0xff; 400]);
    let found = Request::read(&bytes).map(|found| found.description.chars().count());
    assert_eq!(found, Ok(MOST - 122));
}

#[test]
fn an_answer_is_an_address() {
    let bytes = answer(b"/run/s/001.6").unwrap();
    assert_eq!(path(&bytes).unwrap(), b"/run/s/001.6");
    assert!(answer(&[b'/'; PATH - 1]).is_some() && answer(&[b'/'; PATH]).is_none());
}

#[test]
fn data_sockets_have_names_of_their_own() {
    assert_eq!((data_name(1, 6).as_str(), data_name(255, 1024).as_str()), ("001.6", "255.1024"));
    assert!(is_data_name("001.6") && is_data_name("255.1024"));
    for other in ["ctl", "mgmt", ".00001-00000", "1.6", "001.", "001", "0x1.6", "001.6x", ""] {
        assert!(!is_data_name(other), "{other}");
    }
    assert!(MOST_FOLDER + "/255.4294967295".len() < PATH);
}

proptest! {
    #[test]
    fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = bytes;
        let _ = Request::read(&bytes);
        let good = request().write();
        let head = bytes.len().min(14);
        bytes[..head].copy_from_slice(&good[..head]);
        if let Ok(found) = Request::read(&bytes) {
            prop_assert!(found.path.starts_with(b"/") && found.path.len() <= PATH);
            prop_assert!(!found.description.chars().any(char::is_control));
        }
    }

    #[test]
    fn what_is_written_is_read(port: u8, name in "/[a-z]{0,100}", description in "[a-zA-Z=:0-9]{0,100}") {
        let request = Request { port, path: name.into_bytes(), description };
        prop_assert_eq!(Request::read(&request.write()), Ok(request));
    }
}
