ip address add 192.168.101.2/24 dev eth1
ip route replace default via 192.168.101.1 dev eth1
