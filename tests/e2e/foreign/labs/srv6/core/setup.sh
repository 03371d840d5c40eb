sysctl -w net.ipv6.conf.all.forwarding=1
ip -6 address add fc00:100:1::ff/64 dev eth1 nodad
ip -6 address add fc00:100:2::ff/64 dev eth2 nodad
ip -6 route add fd00:1::/32 via fc00:100:1::1
ip -6 route add fd00:2::/32 via fc00:100:2::1
