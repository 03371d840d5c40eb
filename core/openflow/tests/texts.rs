//! Flow entries as text, for the tests of this crate and of peers.

use netloom_openflow::Version;

/// Texts that both versions can say.
const BOTH: &[&str] = &[
    "actions=drop",
    "priority=0,actions=NORMAL",
    "priority=5,in_port=3,actions=output:2,output:4,FLOOD",
    "in_port=LOCAL,actions=ALL,IN_PORT,LOCAL,CONTROLLER:128",
    "cookie=0x1234,priority=7,idle_timeout=5,hard_timeout=60,send_flow_rem,check_overlap,actions=drop",
    "dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,dl_type=0x88b5,actions=output:1",
    "dl_vlan=100,dl_vlan_pcp=5,actions=output:1",
    "dl_vlan=0xffff,actions=output:1",
    "ip,nw_src=10.0.0.0/8,nw_dst=10.1.2.3,nw_tos=184,actions=mod_nw_src:1.2.3.4,output:1",
    "tcp,tp_src=1000,tp_dst=80,actions=mod_tp_dst:8080,output:1",
    "udp,nw_src=10.0.0.0/255.255.0.0,tp_dst=53,actions=mod_dl_src:02:00:00:00:00:09,output:1",
    "icmp,icmp_type=8,icmp_code=0,actions=output:1",
    "ip,nw_proto=47,actions=mod_nw_tos:32,output:1",
    "arp,arp_op=1,arp_spa=10.0.0.0/24,arp_tpa=10.0.0.7,actions=FLOOD",
    "dl_vlan=7,actions=mod_dl_dst:02:00:00:00:00:09,strip_vlan,output:1",
];

/// Texts that only 1.3 can say.
const ONLY_13: &[&str] = &[
    "table=3,priority=9,actions=goto_table:5",
    "cookie=0x10,actions=drop",
    "reset_counts,no_packet_counts,no_byte_counts,actions=output:1",
    "metadata=0x50/0xf0,actions=write_metadata:0x5/0xf,goto_table:1",
    "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=output:1",
    "vlan_vid=0x1000/0x1000,actions=pop_vlan,output:1",
    "actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:1",
    "mpls,mpls_label=77,mpls_tc=5,mpls_bos=1,actions=set_mpls_ttl(9),dec_mpls_ttl,pop_mpls:0x0800,output:1",
    "ip,actions=push_mpls:0x8847,set_field:77->mpls_label,output:1",
    "tcp6,ipv6_src=2001:db8::/32,ipv6_dst=2001:db8::1,ipv6_label=0x12345,tp_dst=443,actions=output:1",
    "udp6,tp_src=53,actions=set_field:2001:db8::9->ipv6_dst,output:1",
    "icmp6,icmp_type=135,icmp_code=0,nd_target=2001:db8::1,nd_sll=02:00:00:00:00:01,actions=output:1",
    "icmp6,icmp_type=136,nd_tll=02:00:00:00:00:01,actions=output:1",
    "sctp,tp_src=1,tp_dst=2,actions=output:1",
    "ip,nw_ecn=1,actions=set_field:2->nw_ecn,dec_ttl,mod_nw_ttl:9,output:1",
    "arp,arp_sha=02:00:00:00:00:01,arp_tha=02:00:00:00:00:02,actions=set_field:2->arp_op,output:1",
    "tun_id=0x7/0xff,actions=set_field:0x9->tun_id,output:1",
    "actions=meter:4,clear_actions,write_actions(set_queue:3,group:9,output:2)",
    "actions=group:5,set_queue:2,output:1",
];

/// Texts of a version.
pub fn texts(version: Version) -> Vec<&'static str> {
    let more = if version == Version::V13 { ONLY_13 } else { &[] };
    BOTH.iter().chain(more).copied().collect()
}
