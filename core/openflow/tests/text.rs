//! Flow entries, groups and meters as text and back.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::group::GroupCommand;
use netloom_openflow::meter::{BandKind, MeterCommand};
use netloom_openflow::text::{
    TextError, flow, group, meter, print_flow, print_group, print_instructions, print_match,
    print_meter,
};
use netloom_openflow::{Field, FlowMod, Instruction, Message, Oxm, Version, encode};
use proptest::prelude::*;

use super::outside_text::try_text;
use super::samples::samples;
use super::texts::texts;

fn read(text: &str, version: Version) -> Result<FlowMod, TextError> {
    flow(FlowCommand::Add, text, version)
}

#[test]
fn what_is_printed_reads_back() {
    for version in [Version::V10, Version::V13] {
        for text in texts(version) {
            let change = read(text, version).expect(text);
            encode(version, 1, &Message::FlowMod(change.clone())).expect(text);
            let printed = print_flow(&change);
            assert_eq!(read(&printed, version), Ok(change), "{text}\n{printed}");
        }
    }
    for sample in samples() {
        match sample.message {
            Message::FlowMod(change) if !sample.words.is_empty() => {
                let printed = print_flow(&change);
                let back = flow(change.command, &printed, sample.version).expect(&printed);
                assert_eq!(print_flow(&back), printed);
            }
            Message::GroupMod(change) => {
                assert_eq!(group(change.command, &print_group(&change)), Ok(change));
            }
            Message::MeterMod(change) if !sample.words.is_empty() => {
                assert_eq!(meter(change.command, &print_meter(&change)), Ok(change));
            }
            _ => {}
        }
    }
}

#[test]
fn other_spellings() {
    let one = |text: &str| read(text, Version::V13).expect(text);
    let fields = |text: &str| print_match(&one(text).matching);
    assert_eq!(fields("ip,ip_dst=10.0.0.0/255.0.0.0 actions=2"), "ip,ipv4_dst=10.0.0.0/8");
    assert_eq!(fields("eth_type=0x800,nw_proto=6,actions=drop"), "tcp");
    assert_eq!(fields("nw_dst=0.0.0.0/0,actions=drop"), "");
    assert_eq!(fields("tp_dst=80,tcp,actions=drop"), "tcp,tcp_dst=80");
    assert_eq!(fields("vlan_tci=0x1000/0x1000,actions=drop"), "vlan_vid=0x1000/0x1000");
    assert_eq!(one("actions=controller"), one("actions=output:CONTROLLER"));
    let filter = one("cookie=0x10/0xf0,out_port=3,out_group=4,actions=drop");
    assert_eq!((filter.cookie, filter.cookie_mask, filter.out_group), (0x10, 0xf0, 4));
    assert_eq!(read(&print_flow(&filter), Version::V13), Ok(filter));
    let queue = read("actions=enqueue(1,2)", Version::V10).unwrap();
    assert_eq!(print_flow(&queue), "priority=32768,actions=enqueue:1:2");
}

#[test]
fn wrong_texts_name_their_word() {
    for (text, words) in [
        ("ip", "`actions=` is missing"),
        ("colour=red,actions=drop", "`colour` is not known"),
        ("priority=70000,actions=drop", "`priority`: `70000`"),
        ("ip,nw_dst=10.0.0,actions=drop", "`nw_dst`: `10.0.0` is not a valid IPv4 address"),
        ("ip,nw_dst=10.0.0.0/33,actions=drop", "`33` is not a valid length of a prefix"),
        ("nw_dst=10.0.0.1,actions=drop", "`protocol of a field` is missing"),
        ("dl_src=1:2:3,actions=drop", "is not a valid MAC address"),
        ("tp_dst=80,actions=drop", "`tp_dst` is not known"),
        ("actions=fly", "`fly` is not known"),
        ("actions=set_field:1->colour", "`colour` is not known"),
        ("dl_vlan=5000,actions=drop", "not a valid VLAN id"),
    ] {
        let said = read(text, Version::V13).expect_err(text).to_string();
        assert!(said.contains(words), "{text}: {said}");
    }
    for text in
        ["table=1,actions=drop", "actions=group:1", "actions=goto_table:1", "tun_id=5,actions=drop"]
    {
        let said = read(text, Version::V10).expect_err(text).to_string();
        assert!(said.contains("OpenFlow 1.0 has none"), "{said}");
    }
}

#[test]
fn groups_and_meters() {
    let text =
        "group_id=7,type=select,bucket=weight:10,actions=output:1,bucket=actions=dec_ttl,output:2";
    let change = group(GroupCommand::Add, text).unwrap();
    assert_eq!(change.buckets.iter().map(|b| b.weight).collect::<Vec<_>>(), [10, 1]);
    assert_eq!(group(GroupCommand::Add, &print_group(&change)), Ok(change));
    assert!(group(GroupCommand::Add, "type=all").is_err());
    // What ovs-ofctl 3.1.0 takes: words of a bucket anywhere, actions with and without their key.
    let text = "group_id=8,type=ff,bucket=watch_port:1,output:1,bucket=output:2,watch_port:2,actions=dec_ttl";
    let change = group(GroupCommand::Add, text).unwrap();
    assert_eq!(
        print_group(&change),
        "group_id=8,type=ff,bucket=watch_port:1,actions=output:1,bucket=watch_port:2,actions=output:2,dec_ttl"
    );
    let select =
        "group_id=9,type=select,selection_method=dp_hash,bucket=weight:10,output:1,bucket=output:2";
    let change = group(GroupCommand::Add, select).unwrap();
    assert_eq!(change.buckets.iter().map(|b| b.weight).collect::<Vec<_>>(), [10, 1]);
    let fields =
        "group_id=9,type=select,selection_method=hash,fields(ip_src,ip_dst),bucket=output:1";
    let said = group(GroupCommand::Add, fields).unwrap_err().to_string();
    assert!(said.contains("leave it out"), "{said}");
    let text = "meter=5 kbps burst stats bands=\ntype=dscp_remark rate=1000 prec_level=1\ntype=drop rate=2";
    let change = meter(MeterCommand::Add, text).unwrap();
    assert_eq!(change.bands[0].kind, BandKind::DscpRemark(1));
    assert_eq!(meter(MeterCommand::Add, &print_meter(&change)), Ok(change));
    assert!(meter(MeterCommand::Add, "meter=1,band=rate=5").is_err());
}

#[test]
fn every_field_can_be_said() {
    for field in Field::ALL {
        let text =
            netloom_openflow::text::print_match(&netloom_openflow::Match::Oxm(vec![Oxm::exact(
                *field,
                field.full() & 0x1fff,
            )]));
        assert!(!text.is_empty());
    }
    let pbb = "dl_type=0x88e7,pbb_isid=5,actions=push_pbb:0x88e7,copy_ttl_in,copy_ttl_out,pop_pbb";
    let change = read(pbb, Version::V13).unwrap();
    assert_eq!(read(&print_flow(&change), Version::V13), Ok(change));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z_=:,.0-9/()> -]{0,80}", index in any::<prop::sample::Index>(), at in 0..80usize) {
        try_text(&text);
        let whole = *index.get(&texts(Version::V13));
        let (head, tail) = whole.split_at(at.min(whole.len()));
        try_text(&format!("{head}{text}{tail}"));
    }
}

/// Replays the fuzzer's seeds.
#[test]
fn every_seed_of_text() {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/flow_text");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("seeds") {
        try_text(&std::fs::read_to_string(entry.expect("seed").path()).expect("read seed"));
        seen += 1;
    }
    assert!(seen >= 5, "{seen} seeds in {}", folder.display());
}

#[test]
fn what_has_no_word_is_not_printed_as_something_else() {
    let odd = group(GroupCommand::Delete, "group_id=1,type=200").unwrap();
    assert_eq!(print_group(&odd), "group_id=1,type=200");
    group(GroupCommand::Add, "group_id=1,type=200").unwrap_err();
    let error = meter(MeterCommand::Add, "meter=0,band=type=drop,rate=1").unwrap_err();
    assert!(error.to_string().contains("1 or more"), "{error}");
    assert_eq!(print_instructions(&[Instruction::ApplyActions(vec![])]), "drop");
}
