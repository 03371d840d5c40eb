sysctl -w net.ipv6.conf.all.forwarding=1
sysctl -w net.ipv6.conf.all.seg6_enabled=1
sysctl -w net.ipv6.conf.eth1.seg6_enabled=1
ip address add 192.168.102.1/24 dev eth2
ip -6 address add fc00:100:2::1/64 dev eth1 nodad
ip -6 address add fd00:2::1/128 dev lo
ip -6 route add fc00:100::/32 via fc00:100:2::ff
ip -6 route add fd00::/16 via fc00:100:2::ff
# What comes by this segment goes to the customer.
ip -6 route add fd00:2::d4/128 encap seg6local action End.DX4 nh4 192.168.102.2 dev eth2
# What the customer sends goes by the segment of the other edge.
ip route add 192.168.101.0/24 encap seg6 mode encap segs fd00:1::d4 dev eth1
