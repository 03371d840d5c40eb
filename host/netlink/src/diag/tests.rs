//! Parsing of proc tables and kernel answers.

use proptest::prelude::*;

use super::table::{parse_inet, parse_packet};
use super::*;

const HEADS: &str = "  sl  local_address rem_address   st tx_queue rx_queue\n";

#[test]
#[cfg(target_endian = "little")]
fn tables_of_proc_are_read() {
    let text = format!(
        "{HEADS}   0: 0100007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1\n"
    );
    let found = parse_inet(Protocol::Tcp, &text);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].to_string(), "tcp 127.0.0.1:53 (listens)");
    assert_eq!((found[0].inode, found[0].remote), (77, None));
    let six = "00000000000000000000000001000000:1F90";
    let text = format!("{HEADS} 1: {six} {six} 01 0:0 0:0 0 0 0 9 1 0\n");
    assert_eq!(parse_inet(Protocol::Udp, &text)[0].to_string(), "udp [::1]:8080 to [::1]:8080");
    let text = "sk RefCnt Type Proto Iface R Rmem User Inode\nffff 3 3 0003 5 1 0 0 812\n";
    assert_eq!(parse_packet(text)[0].to_string(), "packet on interface 5");
}

#[test]
fn counts_are_by_protocol() {
    let one = packet(0, 1);
    let tcp = SocketInfo { protocol: Protocol::Tcp, ..one.clone() };
    let counts = Counts::of(&[tcp.clone(), one, tcp]);
    assert_eq!(counts, Counts { tcp: 2, packet: 1, ..Counts::default() });
}

proptest! {
    #[test]
    fn no_table_and_no_message_panics(text in "(?s).{0,200}", bytes: Vec<u8>, kind in 19u16..22) {
        parse_inet(Protocol::Raw, &text);
        parse_packet(&text);
        let message = Message { kind, flags: 0, sequence: 0, payload: &bytes };
        read_inet(Protocol::Tcp, &message);
        read_packet(&message);
    }
}
